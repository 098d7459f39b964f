#include "client/checkpoint/rank_stream.h"

#include <algorithm>
#include <cstring>

#include "format/base/fault_points.h"
#include "format/base/status.h"

namespace cairn::client {

using format::ConstBytes;
using io::Task;
using io::TimeNs;

RankStream::RankStream(Core* core, const RankFile* file,
                       const std::vector<RankItem>* items)
    : core_(core), file_(file), items_(items), checksums_(items->size(), 0) {}

Task<absl::StatusOr<RankStripe>> RankStream::Next(uint64_t size,
                                                  TimeNs deadline) {
  RankStripe stripe;
  stripe.file_offset = offset_;
  const uint64_t end = std::min(offset_ + size, file_->size_bytes);
  while (offset_ < end) {
    const RankSegment* segment = &file_->segments[segment_];
    const uint64_t at = offset_ - segment->file_offset;
    if (at == segment->length) {
      FinishSegment();
      continue;
    }
    const uint64_t length = std::min(segment->length - at, end - offset_);
    absl::StatusOr<uint64_t> added =
        co_await AddFrom(segment, at, length, &stripe, deadline);
    if (!added.ok()) co_return added.status();
    if (*added == 0) break;
    offset_ += *added;
    if (CAIRN_FAULT_POINT("client.save.short_stripe")) break;
  }
  // Close what ended here, zero-length tail included: checksums are complete.
  while (segment_ < file_->segments.size() &&
         offset_ == file_->segments[segment_].file_offset +
                        file_->segments[segment_].length) {
    FinishSegment();
  }
  co_return stripe;
}

void RankStream::FinishSegment() {
  const int item = file_->segments[segment_++].item;
  if (item >= 0) checksums_[static_cast<size_t>(item)] = hasher_.Digest();
  hasher_ = format::StreamingXxh3();
}

Task<absl::StatusOr<uint64_t>> RankStream::AddFrom(const RankSegment* segment,
                                                   uint64_t at, uint64_t length,
                                                   RankStripe* stripe,
                                                   TimeNs deadline) {
  ConstBytes run;
  if (segment->item < 0) {
    run = format::AsBytes(file_->header).subspan(at, length);
  } else {
    const RankItem& item = (*items_)[static_cast<size_t>(segment->item)];
    if (item.kind == format::EntryKind::kOpaque) {
      run = format::AsBytes(item.opaque).subspan(at, length);
    } else if (item.layout.dense() ||
               item.layout.run_bytes >= kGatherRunBytes) {
      const TensorLayout::Place place = item.layout.Find(at);
      run = ConstBytes(item.data + place.memory_offset,
                       std::min(place.contiguous, length));
    } else {
      co_return co_await Stage(&item, at, length, stripe, deadline);
    }
  }
  hasher_.Update(run);
  stripe->bytes.push_back(run);
  co_return run.size();
}

Task<absl::StatusOr<uint64_t>> RankStream::Stage(const RankItem* item,
                                                 uint64_t at, uint64_t length,
                                                 RankStripe* stripe,
                                                 TimeNs deadline) {
  const bool enough = !stripe->owned.buffers.empty() &&
                      CAIRN_FAULT_POINT("client.save.one_buffer");
  if (stripe->owned.buffers.size() >= kStagingBuffersMax || enough) {
    co_return uint64_t{0};
  }
  const uint64_t size = std::min(length, format::kChunkBytesMax);
  io::Buffer buffer = co_await core_->env()->pool()->Acquire(size, deadline);
  if (!buffer) {
    co_return absl::DeadlineExceededError(
        "no staging buffer in time: earlier stripes are not acknowledged");
  }
  uint8_t* const to = buffer.bytes().data();
  for (uint64_t done = 0; done < size;) {
    const TensorLayout::Place place = item->layout.Find(at + done);
    const uint64_t run = std::min(place.contiguous, size - done);
    std::memcpy(to + done, item->data + place.memory_offset, run);
    done += run;
  }
  const ConstBytes staged(to, size);
  hasher_.Update(staged);
  stripe->bytes.push_back(staged);
  stripe->owned.buffers.push_back(std::move(buffer));
  co_return size;
}

}  // namespace cairn::client
