// Opening a path, and the File that goes with it.
#pragma once

#include <memory>
#include <string>

#include "client/api/file.h"
#include "client/core/cluster_core.h"

namespace cairn::client {

absl::StatusOr<std::unique_ptr<File>> OpenPath(ClusterCore* cluster,
                                               const std::string& path,
                                               OpenOptions options);

}  // namespace cairn::client
