// Reads a range of one data chunk into user memory, around damage.
//
// First from the chunk itself, straight into the caller's memory. If it is
// unreachable, missing or corrupt: from another copy (replicate), or decoded
// from the same range of k other shards (rs). What was worked around is counted
// in the core's RepairReport.
//
// Errors: kDataLoss names the chunk and why each shard failed: fewer than k
//         shards are good. kDeadlineExceeded/kUnavailable: too few shards
//         answered, none of them proven lost: try again later.
#pragma once

#include <cstdint>
#include <vector>

#include "client/blob/gather.h"
#include "client/core/core.h"
#include "format/extent/stripe.h"
#include "io/task.h"

namespace cairn::client {

struct ChunkRead {
  format::ChunkRange range;
  MutableGather to;  // range.length bytes in all.
  format::TrafficClass traffic_class = format::TrafficClass::kInteractive;
  io::TimeNs deadline = io::kNoDeadline;
};

// The memory in `read.to` is the caller's again when the task ends.
io::Task<absl::Status> ReadChunkRange(Core* core, ChunkRead read);

// One attempt at [offset, offset + bytes of `to`) of exactly this chunk, no
// working around. `stripe_bytes`, if not null, receives the stripe's length.
// An empty `to` asks for the record only. kDataLoss: the target says so; bytes
// that were damaged on their way are kUnavailable.
io::Task<absl::Status> GetChunkOnce(Core* core, format::ChunkId chunk,
                                    uint64_t offset, MutableGather to,
                                    format::TrafficClass traffic_class,
                                    io::TimeNs deadline,
                                    uint64_t* stripe_bytes);

// When one attempt at a chunk is given up, for the sake of other shards, by a
// read that ends at `deadline`. `hurried`: as soon as it takes much longer than
// the others do; for a first round, which later ones may follow.
io::TimeNs ShardDeadline(Core* core, io::TimeNs deadline, bool hurried);

// "chunk 1:42/3/0 on target 5 (127.0.0.1:7401)".
std::string ChunkPlaceName(const Core& core, format::ChunkId chunk);

}  // namespace cairn::client
