// `cairnd meta`: the metadata service alone; targets join from other processes.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "server/main/meta_loop.h"
#include "server/main/run.h"

namespace cairn::server {

// Of the options those that are the metadata service's.
// kFailedPrecondition, kNotFound, kAlreadyExists, kDataLoss: as MetaLoop; the
// message tells what to do.
absl::StatusOr<std::unique_ptr<MetaLoop>> StartMetaServer(
    const RunOptions& options);

}  // namespace cairn::server
