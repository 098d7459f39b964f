// A payload source and sink over plain memory, with the checksums of chunk 0,
// and ways to lie in the trailer.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "format/checksum/block_checksum.h"
#include "format/wire/frame.h"
#include "io/rpc/payload.h"

namespace cairn::io {

inline std::vector<uint8_t> Pattern(uint64_t size, uint64_t seed) {
  std::vector<uint8_t> bytes(size);
  for (uint64_t i = 0; i < size; ++i) {
    bytes[i] = static_cast<uint8_t>(format::Mix64(seed + i / 8) >> (i % 8 * 8));
  }
  return bytes;
}

class MemorySource final : public PayloadSource {
 public:
  explicit MemorySource(format::ConstBytes bytes,
                        uint64_t piece_bytes = kPieceBytes)
      : bytes_(bytes),
        piece_bytes_(piece_bytes),
        hasher_(format::ChunkId(), 0, bytes.size()) {}

  uint64_t size_bytes() const override { return bytes_.size(); }
  uint32_t trailer_bytes() const override {
    if (bytes_.empty()) return 0;
    return format::TrailerBytes(
        format::BlockHasher::BlockCount(0, bytes_.size()));
  }
  // Two spans a piece, so that gathering is used.
  std::span<const format::ConstBytes> Next() override {
    ++pieces_;
    const uint64_t size =
        std::min<uint64_t>(piece_bytes_, bytes_.size() - given_);
    const format::ConstBytes piece = bytes_.subspan(given_, size);
    given_ += size;
    hasher_.Update(piece);
    spans_[0] = piece.first(size / 2);
    spans_[1] = piece.subspan(size / 2);
    return spans_;
  }
  format::ConstBytes Trailer() override {
    std::vector<uint64_t> sums = hasher_.Checksums();
    if (corrupt_) sums.back() ^= 1;
    trailer_.resize(trailer_bytes());
    format::FillTrailer(trailer_, status_, sums);
    return trailer_;
  }
  void Corrupt() { corrupt_ = true; }
  void FailWith(absl::StatusCode status) { status_ = status; }
  uint32_t pieces() const { return pieces_; }

 private:
  const format::ConstBytes bytes_;
  const uint64_t piece_bytes_;
  format::BlockHasher hasher_;
  uint64_t given_ = 0;
  uint32_t pieces_ = 0;
  bool corrupt_ = false;
  absl::StatusCode status_ = absl::StatusCode::kOk;
  format::ConstBytes spans_[2];
  std::vector<uint8_t> trailer_;
};

class MemorySink final : public PayloadSink {
 public:
  explicit MemorySink(format::MutableBytes to,
                      uint64_t piece_bytes = kPieceBytes)
      : to_(to), piece_bytes_(piece_bytes), hasher_(format::ChunkId(), 0, 0) {}

  absl::Status Begin(uint64_t payload_bytes, uint32_t trailer_bytes,
                     std::string_view body) override {
    began_ = true;
    body_ = std::string(body);
    if (payload_bytes > to_.size()) {
      return absl::OutOfRangeError("no room for the payload");
    }
    size_ = payload_bytes;
    trailer_bytes_ = trailer_bytes;
    hasher_ = format::BlockHasher(format::ChunkId(), 0, payload_bytes);
    return absl::OkStatus();
  }
  std::span<const format::MutableBytes> Next(uint64_t remaining) override {
    ++pieces_;
    piece_ = to_.subspan(size_ - remaining,
                         std::min<uint64_t>(remaining, piece_bytes_));
    spans_[0] = piece_.first(piece_.size() / 3);
    spans_[1] = piece_.subspan(piece_.size() / 3);
    return spans_;
  }
  void Arrived() override { hasher_.Update(piece_); }
  absl::Status Finish(format::ConstBytes trailer) override {
    finished_ = true;
    const std::vector<uint64_t>& sums = hasher_.Checksums();
    if (trailer.size() != trailer_bytes_ ||
        format::TrailerChecksumCount(trailer) != sums.size()) {
      return absl::InternalError("wrong trailer");
    }
    for (uint32_t i = 0; i < sums.size(); ++i) {
      if (format::TrailerChecksum(trailer, i) != sums[i]) {
        return absl::DataLossError("payload checksum differs");
      }
    }
    return absl::OkStatus();
  }
  bool began() const { return began_; }
  bool finished() const { return finished_; }
  uint64_t size() const { return size_; }
  uint32_t pieces() const { return pieces_; }
  const std::string& body() const { return body_; }

 private:
  const format::MutableBytes to_;
  const uint64_t piece_bytes_;
  format::BlockHasher hasher_;
  format::MutableBytes piece_;
  format::MutableBytes spans_[2];
  uint64_t size_ = 0;
  uint32_t trailer_bytes_ = 0;
  uint32_t pieces_ = 0;
  bool began_ = false;
  bool finished_ = false;
  std::string body_;
};

}  // namespace cairn::io
