#include "server/target/target_payload.h"

#include <algorithm>

#include "format/base/fault_points.h"
#include "format/base/limits.h"
#include "format/base/status.h"
#include "format/wire/frame.h"

namespace cairn::server {

PutSink::PutSink(format::ChunkId chunk, uint64_t chunk_bytes,
                 format::MutableBytes to)
    : chunk_(chunk),
      to_(to.first(chunk_bytes)),
      hasher_(chunk, 0, chunk_bytes) {}

absl::Status PutSink::Begin(uint64_t payload_bytes, uint32_t trailer_bytes,
                            std::string_view /*body*/) {
  const uint32_t blocks = format::BlockHasher::BlockCount(0, to_.size());
  if (payload_bytes == to_.size() &&
      trailer_bytes == format::TrailerBytes(blocks)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("payload of ", payload_bytes,
                                                 " bytes with a trailer of ",
                                                 trailer_bytes));
}

std::span<const format::MutableBytes> PutSink::Next(uint64_t remaining) {
  CAIRN_CHECK(remaining == to_.size() - arrived_bytes_);
  piece_ = to_.subspan(arrived_bytes_,
                       std::min<uint64_t>(remaining, io::kPieceBytes));
  return {&piece_, 1};
}

void PutSink::Arrived() {
  hasher_.Update(piece_);
  arrived_bytes_ += piece_.size();
}

absl::Status PutSink::Finish(format::ConstBytes trailer) {
  CAIRN_RETURN_IF_ERROR(format::TrailerStatus(trailer));
  const std::vector<uint64_t>& checksums = hasher_.Checksums();
  CAIRN_CHECK(format::TrailerChecksumCount(trailer) == checksums.size());
  for (uint32_t block = 0; block < checksums.size(); ++block) {
    if (format::TrailerChecksum(trailer, block) == checksums[block]) continue;
    CAIRN_SOMETIMES(true, "target.put.damaged_on_way");
    return absl::DataLossError(
        absl::StrCat(ToString(chunk_), ": block ", block,
                     " was damaged on its way; nothing was stored"));
  }
  return absl::OkStatus();
}

RangeSource::RangeSource(format::ChunkId chunk,
                         const ChunkStore::ReadResult* blocks, uint64_t offset,
                         uint64_t length) {
  const uint64_t read_from = blocks->first_block * format::kBlockBytes;
  CAIRN_CHECK(length > 0 && offset >= read_from);
  range_ = format::ConstBytes(blocks->buffer->bytes())
               .subspan(offset - read_from, length);
  trailer_.push_back(0);
  for (uint64_t at = offset; at < offset + length;) {
    const auto block = static_cast<uint32_t>(at / format::kBlockBytes);
    const uint64_t start = block * format::kBlockBytes;
    const uint64_t stored_end =
        std::min(start + format::kBlockBytes, blocks->record.chunk_bytes);
    const uint64_t end = std::min(stored_end, offset + length);
    const bool is_whole = at == start && end == stored_end;
    trailer_.push_back(
        is_whole ? blocks->record.block_checksums[block]
                 : format::BlockChecksum(
                       chunk, block, range_.subspan(at - offset, end - at)));
    at = end;
  }
}

std::span<const format::ConstBytes> RangeSource::Next() {
  piece_ = range_.subspan(
      sent_bytes_,
      std::min<uint64_t>(range_.size() - sent_bytes_, io::kPieceBytes));
  sent_bytes_ += piece_.size();
  return {&piece_, 1};
}

format::ConstBytes RangeSource::Trailer() {
  return {reinterpret_cast<const uint8_t*>(trailer_.data()), trailer_bytes()};
}

}  // namespace cairn::server
