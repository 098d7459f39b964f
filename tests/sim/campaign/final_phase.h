// The final phase of a campaign: faults are over, everything runs, and nothing
// is excused any more.
//
// First a fresh client reads all that the ledgers know of, and writes: the
// cluster must take new work. Then everything is deleted, grace times pass, and
// nothing may be left: no chunk on a target, no record of the metadata but the
// root directory's, the map's and the counters'.
//
// Lifetime: the context outlives the task.
#pragma once

#include "tests/sim/campaign/context.h"

namespace cairn::sim {

io::Task<void> RunFinalPhase(Context* context, Random random);

}  // namespace cairn::sim
