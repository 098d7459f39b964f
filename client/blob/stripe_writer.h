// Writes one stripe: cuts it into data shards, makes the parity, puts every
// shard on its target, and returns when all are on stable storage.
//
// Memory:     data goes to the sockets straight from the gather list; parity
//             lives in pool buffers (m of them) while the stripe is in flight.
// Durability: OK means that all k + m chunks are durable.
// Retries:    lost connections, restarted servers and damaged transfers are
//             retried until the deadline; puts are idempotent.
// Errors:     kDeadlineExceeded names the targets that were waited for and the
//             last cause. kResourceExhausted: a target is full.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "client/blob/gather.h"
#include "client/core/core.h"
#include "format/cluster/cluster_map.h"
#include "io/task.h"

namespace cairn::client {

struct StripeWrite {
  format::BlobId blob;
  uint32_t stripe = 0;
  ConstGather bytes;  // 1 byte to pool.stripe_bytes().
  format::TrafficClass traffic_class = format::TrafficClass::kInteractive;
  io::TimeNs deadline = io::kNoDeadline;
};

class StripeWriter {
 public:
  // `core` outlives the call. The memory in `write.bytes` is the caller's again
  // when the task ends.
  static io::Task<absl::Status> Write(Core* core, StripeWrite write);
};

}  // namespace cairn::client
