// Reads ranges of files into user memory, many chunks in flight.
#pragma once

#include <cstdint>
#include <vector>

#include "client/blob/gather.h"
#include "client/core/core.h"
#include "format/extent/extent_map.h"
#include "io/task.h"

namespace cairn::client {

// One extent's worth (or a part) and where it goes.
struct ExtentRead {
  format::Extent extent;
  MutableGather to;  // extent.length bytes.
};

struct ReadOptions {
  format::TrafficClass traffic_class = format::TrafficClass::kInteractive;
  io::TimeNs deadline = io::kNoDeadline;
  std::function<void(uint64_t)> progress;  // Bytes that have arrived.
};

// Reads all of it, in parallel under the core's read window. The first error
// ends the reading; it is returned once nothing is in flight any more.
io::Task<absl::Status> ReadExtents(Core* core, std::vector<ExtentRead> reads,
                                   ReadOptions options);

}  // namespace cairn::client
