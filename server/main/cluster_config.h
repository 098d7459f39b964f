// cluster.json: what `cairnd init` leaves in the cluster's directory and
// `cairnd run` starts from. docs/format/cluster-directory.md.
//
// The cluster's map is in the metadata store; this file only says where things
// are on this machine.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "format/base/ids.h"

namespace cairn::server {

struct TargetPlace {
  format::TargetId id;
  std::string directory;
  uint64_t disk_generation = 1;
};

struct ClusterConfig {
  format::ClusterId cluster_id;
  std::vector<TargetPlace> targets;  // Of `cairnd run`; others join.
};

// Paths inside the cluster's directory.
std::string ConfigPath(const std::string& directory);
std::string MetaPath(const std::string& directory);

std::string EncodeConfig(const ClusterConfig& config);
// kFailedPrecondition: a newer version. kDataLoss: not a cluster.json.
absl::StatusOr<ClusterConfig> DecodeConfig(const std::string& text);

// kNotFound: no cluster there; says how to make one.
absl::StatusOr<ClusterConfig> LoadConfig(const std::string& directory);
// Writes it durably. kAlreadyExists: there is one; nothing is changed.
absl::Status SaveConfig(const std::string& directory,
                        const ClusterConfig& config);

}  // namespace cairn::server
