// The reader workload: clients that look at other clients' files and sets all
// the time.
//
// Lifetime: the context outlives Run().
#pragma once

#include "tests/sim/campaign/context.h"

namespace cairn::sim {

class ReaderWorkload {
 public:
  ReaderWorkload(Context* context, Random random)
      : context_(context), random_(random) {}

  // Until the campaign stops.
  io::Task<void> Run();

 private:
  Context* const context_;
  Random random_;
};

}  // namespace cairn::sim
