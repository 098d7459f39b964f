// `cairnd format`: makes directories new targets of a cluster that runs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "format/base/ids.h"
#include "format/base/limits.h"
#include "io/event_loop.h"

namespace cairn::server {

struct FormatTargetsOptions {
  std::string meta_address;
  std::vector<std::string> directories;  // Absent or empty ones.
  std::string host;                      // Empty: this machine's name.
  std::string rack = "default";
  uint64_t capacity_bytes = 0;  // Of each; 0: what its disk has.
  uint64_t slab_bytes = format::kGiB;
  bool prewrite = false;
  io::Backend backend = io::Backend::kAuto;
};

struct FormattedTarget {
  std::string directory;
  format::TargetId target;
};

// One after the other; those that were made before an error stay.
// kAlreadyExists: a directory has files: nothing is touched in it.
// kUnavailable, kDeadlineExceeded: no metadata service answers there.
absl::StatusOr<std::vector<FormattedTarget>> FormatTargets(
    const FormatTargetsOptions& options);

}  // namespace cairn::server
