// How far a target is with a shard that it was ordered to make
// (RebuildShardResponse in target.proto).
#pragma once

#include <cstdint>

namespace cairn::format {

// Persisted on the wire: add values, never renumber.
enum class RebuildState : uint32_t {
  kRunning = 1,
  kDone = 2,    // All that could be made is there, read back and verified.
  kFailed = 3,  // Ended early, says why; the next order starts it again.
};

}  // namespace cairn::format
