// BlobWriter: turns a run of file bytes into stripes of blobs, many in flight.
//
// The owner hands over the file's content stripe by stripe, in any order of
// file offsets; each stripe becomes an extent when it is durable. Extents are
// for the owner to commit: nothing here is visible to anybody.
//
// Memory:   Start() may be given owned memory (freed when durable); otherwise
//           the gathered memory stays untouched until Drain() returned.
// Errors:   the first failure is kept: Start() and Drain() return it from then
//           on.
// Lifetime: Drain() before destruction (checked).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "client/blob/gather.h"
#include "client/core/core.h"
#include "format/cluster/cluster_map.h"
#include "format/extent/extent_map.h"

namespace cairn::client {

// Memory that a stripe in flight owns.
struct OwnedBytes {
  std::unique_ptr<std::string> text;
  std::vector<io::Buffer> buffers;
};

class BlobWriter {
 public:
  // `progress` (may be null) is told the bytes of each durable stripe.
  BlobWriter(Core* core, format::PoolId pool, format::TrafficClass traffic,
             std::function<void(uint64_t)> progress);

  // User bytes of a full stripe: the most one Start() takes.
  uint64_t stripe_bytes() const { return stripe_bytes_; }

  // Begins writing `bytes` as the file range at `file_offset`; waits only for
  // room in the window. OK does not mean written: see Drain().
  io::Task<absl::Status> Start(ConstGather bytes, uint64_t file_offset,
                               OwnedBytes owned, io::TimeNs deadline);

  // Waits for everything started. OK: all of it is durable.
  io::Task<absl::Status> Drain();

  // Extents of all stripes since the last call, by file offset, merged; where
  // they overlapped the later Start() won. Only after a Drain() that was OK
  // (checked): then all of them are durable.
  std::vector<format::Extent> TakeExtents();

 private:
  io::Task<absl::Status> NextStripe(io::TimeNs deadline, uint32_t* stripe,
                                    format::BlobId* blob);
  io::Task<void> RunStripe(ConstGather bytes, format::Extent extent,
                           uint32_t stripe, OwnedBytes owned,
                           io::TimeNs deadline);

  Core* const core_;
  const format::PoolId pool_;
  const format::TrafficClass traffic_;
  const std::function<void(uint64_t)> progress_;
  uint64_t stripe_bytes_ = 0;
  io::Gate gate_;
  io::Semaphore blob_turn_;  // One allocation at a time.
  format::BlobId blob_;      // 0: none yet.
  uint32_t next_stripe_ = 0;
  format::ExtentMap started_;
  absl::Status failure_;
};

}  // namespace cairn::client
