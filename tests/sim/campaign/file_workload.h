// The file workload: each writer owns a directory in which it creates, writes,
// overwrites, appends to, truncates, renames and unlinks files. A writer that
// is killed is replaced by a new process that takes the directory over once the
// old one's session is fenced, and finds out how far that one came.
//
// Outcome unknown: the writer either gives its process up, or goes on with it:
//                  then it has another mutation acknowledged first, after which
//                  the service refuses the one that was given up.
// Lifetime: the context outlives Run().
#pragma once

#include "tests/sim/campaign/context.h"

namespace cairn::sim {

class FileWorkload {
 public:
  FileWorkload(Context* context, Random random)
      : context_(context), random_(random) {}

  // All writers until they are done, or the campaign stops.
  io::Task<void> Run();

 private:
  Context* const context_;
  Random random_;
};

}  // namespace cairn::sim
