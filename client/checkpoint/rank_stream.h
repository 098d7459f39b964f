// Cuts a rank's file into stripes of gathered memory, in file order.
//
// Contiguous tensor memory is named, never copied. Runs shorter than
// kGatherRunBytes (strided tensors) are gathered into pool buffers, at most
// kStagingBuffersMax at a time, which the stripe owns until it is durable.
// Checksums of the items are made on the way.
#pragma once

#include <cstdint>
#include <vector>

#include "client/blob/blob_writer.h"
#include "client/checkpoint/rank_file.h"
#include "client/core/core.h"
#include "format/checksum/block_checksum.h"
#include "io/task.h"

namespace cairn::client {

struct RankStripe {
  uint64_t file_offset = 0;
  ConstGather bytes;
  OwnedBytes owned;
};

class RankStream {
 public:
  // `file` and `items`, and the tensors' memory, outlive the stream and every
  // stripe it made.
  RankStream(Core* core, const RankFile* file,
             const std::vector<RankItem>* items);

  bool done() const { return offset_ == file_->size_bytes; }
  // The next at most `size` bytes (less only at the end of the file, or when a
  // stripe would need too many staging buffers).
  // kDeadlineExceeded: no staging buffer came free.
  io::Task<absl::StatusOr<RankStripe>> Next(uint64_t size, io::TimeNs deadline);
  // One per item; complete once done().
  const std::vector<uint64_t>& checksums() const { return checksums_; }

 private:
  // Appends bytes [at, at + length) of the segment to the stripe, or a shorter
  // run of them; returns how many. 0: the stripe must end here.
  io::Task<absl::StatusOr<uint64_t>> AddFrom(const RankSegment* segment,
                                             uint64_t at, uint64_t length,
                                             RankStripe* stripe,
                                             io::TimeNs deadline);
  io::Task<absl::StatusOr<uint64_t>> Stage(const RankItem* item, uint64_t at,
                                           uint64_t length, RankStripe* stripe,
                                           io::TimeNs deadline);
  void FinishSegment();

  Core* const core_;
  const RankFile* const file_;
  const std::vector<RankItem>* const items_;
  uint64_t offset_ = 0;  // In the file.
  size_t segment_ = 0;
  format::StreamingXxh3 hasher_;
  std::vector<uint64_t> checksums_;
};

}  // namespace cairn::client
