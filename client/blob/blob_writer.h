// BlobWriter: turns a run of file bytes into stripes of blobs, many in flight.
//
// The owner hands over the file's content stripe by stripe, in any order of
// file offsets; each stripe becomes an extent when it is durable. Extents are
// for the owner to commit: nothing here is visible to anybody.
//
//   Start()...; Settle(); commit extents() under epoch(); Clear();
//   if the commit IsMapChanged(): Core::RefreshMap(), and from Settle() again.
//
// Placement: stripe numbers whose PG row is not well are skipped, and a stripe
//            whose row falls ill under it is written again under another
//            number (stripe_choice.h), so blob offsets have gaps.
// Memory:    Start() may be given owned memory (freed when durable); otherwise
//            the gathered memory stays untouched until Drain() returned.
// Errors:    the first failure is kept: Start() and Drain() return it from then
//            on.
// Lifetime:  Drain() before destruction (checked).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
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

  // Drain(), and writes again what was put in rows that the client's map says
  // have other targets now, reading it from where it was put. OK: extents()
  // may be committed under epoch().
  io::Task<absl::Status> Settle(io::TimeNs deadline);
  // Of all stripes since Clear(), by file offset, merged; where they overlapped
  // the later Start() won. Only after a Drain() that was OK (checked): then all
  // of them are durable.
  std::vector<format::Extent> extents() const;
  // Of the map whose rows all of them are in. After Settle().
  format::Epoch epoch() const { return epoch_; }
  // They are committed: forgets them.
  void Clear();

 private:
  // A stripe number, and the map under which it was found good.
  struct Claim {
    std::shared_ptr<const format::ClusterMap> map;
    format::BlobId blob;
    uint32_t stripe = 0;
  };
  // A stripe on its way.
  struct Flight {
    ConstGather bytes;
    format::Extent extent;
    Claim claim;
    OwnedBytes owned;
    io::TimeNs deadline = io::kNoDeadline;
    bool again = false;  // Written before: no progress.
  };

  io::Task<absl::Status> NextStripe(io::TimeNs deadline, Claim* claim);
  io::Task<absl::Status> ChooseNext(io::TimeNs deadline, Claim* claim);
  io::Task<absl::Status> EnsureBlob(io::TimeNs deadline);
  io::Task<absl::Status> StartFlight(Flight flight);
  io::Task<void> RunStripe(Flight flight);
  io::Task<absl::Status> WriteSomewhere(Flight* flight);
  void MoveExtent(format::Extent* extent, const Claim& claim);
  void NoteClaim(const Claim& claim);
  format::Epoch EpochOf(format::BlobId blob, uint32_t stripe) const;
  std::vector<format::Extent> FindStale(const format::ClusterMap& map) const;
  io::Task<absl::Status> WriteAgain(format::Extent extent, io::TimeNs deadline);

  Core* const core_;
  const format::PoolId pool_;
  const format::TrafficClass traffic_;
  const std::function<void(uint64_t)> progress_;
  uint64_t stripe_bytes_ = 0;
  io::Gate gate_;
  io::Semaphore blob_turn_;  // One claim at a time: epochs of claims grow.
  format::BlobId blob_;      // 0: none yet.
  uint32_t next_stripe_ = 0;
  format::ExtentMap started_;
  // Under which epoch stripes were put: from each key to the next.
  std::map<std::pair<format::BlobId, uint32_t>, format::Epoch> claims_;
  format::Epoch epoch_;
  absl::Status failure_;
};

}  // namespace cairn::client
