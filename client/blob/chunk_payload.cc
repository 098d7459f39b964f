#include "client/blob/chunk_payload.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace cairn::client {

using format::ConstBytes;
using format::MutableBytes;

ChunkSource::ChunkSource(format::ChunkId chunk, const ConstGather* bytes)
    : size_bytes_(TotalBytes(*bytes)),
      hasher_(chunk, 0, size_bytes_),
      cursor_(*bytes) {}

uint32_t ChunkSource::trailer_bytes() const {
  return 8 * (1 + format::BlockHasher::BlockCount(0, size_bytes_));
}

std::span<const ConstBytes> ChunkSource::Next() {
  piece_.clear();
  cursor_.Take(io::kPieceBytes, io::kPieceSpansMax, &piece_);
  for (const ConstBytes& part : piece_) hasher_.Update(part);
  return piece_;
}

ConstBytes ChunkSource::Trailer() {
  trailer_.assign(1, 0);  // The payload's status: OK.
  const std::vector<uint64_t>& sums = hasher_.Checksums();
  trailer_.insert(trailer_.end(), sums.begin(), sums.end());
  return {reinterpret_cast<const uint8_t*>(trailer_.data()),
          trailer_.size() * sizeof(uint64_t)};
}

ChunkSink::ChunkSink(format::ChunkId chunk, uint64_t offset,
                     const MutableGather* to)
    : chunk_(chunk),
      size_bytes_(TotalBytes(*to)),
      hasher_(chunk, offset, size_bytes_),
      cursor_(*to) {}

absl::Status ChunkSink::Begin(uint64_t payload_bytes, uint32_t,
                              std::string_view) {
  if (payload_bytes != size_bytes_) {
    return absl::DataLossError(absl::StrCat(ToString(chunk_), ": got ",
                                            payload_bytes, " bytes, not the ",
                                            size_bytes_, " asked for"));
  }
  return absl::OkStatus();
}

std::span<const MutableBytes> ChunkSink::Next(uint64_t remaining) {
  piece_.clear();
  cursor_.Take(std::min(io::kPieceBytes, remaining), io::kPieceSpansMax,
               &piece_);
  return piece_;
}

void ChunkSink::Arrived() {
  for (const MutableBytes& part : piece_) hasher_.Update(part);
}

absl::Status ChunkSink::Damaged(std::string_view what) {
  damaged_ = true;
  return absl::DataLossError(
      absl::StrCat(ToString(chunk_), ": ", AbslText(what)));
}

absl::Status ChunkSink::Finish(ConstBytes trailer) {
  const std::vector<uint64_t>& made = hasher_.Checksums();
  if (trailer.size() != (1 + made.size()) * sizeof(uint64_t)) {
    return Damaged("wrong number of checksums");
  }
  for (uint64_t i = 0; i < made.size(); ++i) {
    const uint64_t sent =
        format::LoadLe<uint64_t>(trailer.data() + (i + 1) * sizeof(uint64_t));
    if (sent == made[i]) continue;
    return Damaged(absl::StrCat(
        "block ", i, " of the range failed its checksum on arrival"));
  }
  verified_ = true;
  return absl::OkStatus();
}

}  // namespace cairn::client
