// Opening a path, and the File that goes with it.
#pragma once

#include <memory>
#include <string>

#include "client/api/file.h"
#include "client/core/cluster_core.h"
#include "client/file/open_file.h"

namespace cairn::client {

// On the loop. Errors as Cluster::Open(). Finish() the file before its end.
io::Task<absl::StatusOr<std::unique_ptr<OpenFile>>> OpenOnLoop(
    Core* core, std::string path, OpenOptions options);

// From any thread but the loop's.
absl::StatusOr<std::unique_ptr<File>> OpenPath(ClusterCore* cluster,
                                               const std::string& path,
                                               OpenOptions options);

}  // namespace cairn::client
