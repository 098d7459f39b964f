// That a cluster which has lost targets makes what was on them elsewhere.
#pragma once

#include "tests/sim/campaign/context.h"

namespace cairn::sim {

// Plays the operator: targets that were taken out though they live are put
// back.
io::Task<void> PutBackOut(Context* context);

// A violation unless every row has left the lost targets within 120 seconds of
// their being taken out.
io::Task<void> AwaitRebuilt(Context* context);

}  // namespace cairn::sim
