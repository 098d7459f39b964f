// Paths on the command line: "cairn:/data/x" is in the cluster, others are
// local; commands that only know cluster paths take them with or without the
// prefix.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "client/api/cluster.h"

namespace cairn::client::cli {

bool IsClusterPath(const std::string& path);  // Has the prefix.
std::string StripPrefix(const std::string& path);
std::string BaseName(const std::string& path);

// `to` if it is no directory of the cluster (or absent); else the place of
// `from`'s base name in it.
absl::StatusOr<std::string> IntoDirectory(Cluster* cluster,
                                          const std::string& to,
                                          const std::string& from);

}  // namespace cairn::client::cli
