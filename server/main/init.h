// `cairnd init`: makes a new cluster in a directory.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "format/cluster/cluster_map.h"
#include "io/event_loop.h"

namespace cairn::server {

struct InitOptions {
  std::string directory;
  bool no_targets = false;                      // Metadata only; else:
  uint32_t targets = 0;                         // Made below the directory...
  std::vector<std::string> target_directories;  // ...or these.
  format::Scheme scheme;
  uint32_t chunk_size = format::kChunkBytesMax;
  uint64_t capacity_bytes = 0;  // A target; 0: an even share of the disk.
  uint64_t slab_bytes = format::kGiB;
  bool prewrite = false;
  io::Backend backend = io::Backend::kAuto;
};

// kAlreadyExists: a cluster, or something else, is there: nothing is changed.
// kInvalidArgument: the scheme needs more targets...
absl::Status InitCluster(const InitOptions& options);

}  // namespace cairn::server
