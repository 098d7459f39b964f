// Whether redundancy is full: every shard, not only enough of them.
#pragma once

#include "absl/status/status.h"
#include "client/core/core.h"
#include "io/task.h"

namespace cairn::sim {

// Reads every shard of every file below "/". kDataLoss: names the first that is
// missing or wrong, whether or not the others could stand in for it.
io::Task<absl::Status> CheckEveryShard(client::Core* core);

}  // namespace cairn::sim
