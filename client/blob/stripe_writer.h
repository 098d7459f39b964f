// Writes one stripe: cuts it into data shards, makes the parity, puts every
// shard on its target, and returns when all are on stable storage.
//
// Memory:     data goes to the sockets straight from the gather list; parity
//             lives in pool buffers (m of them) while the stripe is in flight.
// Durability: OK means that all k + m chunks are durable.
// Retries:    lost connections, restarted servers and damaged transfers are
//             retried until the deadline, or until another stripe number is a
//             better place; puts are idempotent.
// Errors:     kDeadlineExceeded names the targets that were waited for and the
//             last cause. kResourceExhausted: a target is full.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "client/blob/gather.h"
#include "client/core/core.h"
#include "format/cluster/cluster_map.h"
#include "io/task.h"

namespace cairn::client {

struct StripeWrite {
  // Where the stripe goes and what its chunks are put under. Never null.
  std::shared_ptr<const format::ClusterMap> map;
  format::BlobId blob;
  uint32_t stripe = 0;
  ConstGather bytes;  // 1 byte to pool.stripe_bytes().
  format::TrafficClass traffic_class = format::TrafficClass::kInteractive;
  io::TimeNs deadline = io::kNoDeadline;
};

enum class StripeOutcome {
  kDurable,
  // Not all chunks are durable, and the row of this stripe number is no good
  // place any more (a target is not up, silent or full, or the row has changed)
  // while another is: write the bytes again under another number. Chunks that
  // arrived belong to nobody and go with their blob.
  kElsewhere,
};

class StripeWriter {
 public:
  // `core` outlives the call. The memory in `write.bytes` is the caller's again
  // when the task ends.
  static io::Task<absl::StatusOr<StripeOutcome>> Write(Core* core,
                                                       StripeWrite write);
};

}  // namespace cairn::client
