// A process that stands still until it is taken for dead, and then goes on:
// what it still means to do must not happen, because others count on that.
#pragma once

#include "tests/sim/campaign/context.h"

namespace cairn::sim {

// One process writes a file, and stops in the middle for longer than its lease;
// another one writes the file anew; the first one wakes and goes on. Reports if
// anything of it is acknowledged or seen. Leaves a file.
io::Task<void> CheckZombie(Context* context);

}  // namespace cairn::sim
