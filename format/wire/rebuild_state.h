// How far a target is with a shard that it was ordered to make
// (RebuildShardResponse in target.proto), and why shards move.
#pragma once

#include <cstdint>

namespace cairn::format {

// Persisted on the wire: add values, never renumber.
enum class RebuildState : uint32_t {
  kRunning = 1,
  kDone = 2,    // All that could be made is there, read back and verified.
  kFailed = 3,  // Ended early, says why; the next order starts it again.
};

// Why a shard of a row moves. Persisted (store::Move): add values, never
// renumber.
enum class MoveCause : uint32_t {
  kLost = 0,     // Its target is out.
  kDrain = 1,    // Its target is to be emptied.
  kBalance = 2,  // Another target has fewer than its share.
};

}  // namespace cairn::format
