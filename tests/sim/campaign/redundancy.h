// That a cluster which has lost targets has full redundancy again.
#pragma once

#include "tests/sim/campaign/context.h"
#include "tests/sim/cluster/sim_client.h"

namespace cairn::sim {

// Plays the operator: targets that were taken out though they live are put
// back.
io::Task<void> PutBackOut(Context* context);

// A violation unless every row has left the lost targets within 120 seconds of
// their being taken out.
io::Task<void> AwaitRebuilt(Context* context);

// A violation for each chunk of a file that is not on its row's target, whole.
// Only if targets were lost: in other seeds disks may have been damaged.
io::Task<void> CheckRedundancy(Context* context, SimClient* auditor);

}  // namespace cairn::sim
