// Payloads of the target's RPCs: a chunk on its way in, a range on its way out.
//
// Lifetime: both name memory of the buffer they were given, which outlives
//           them.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "format/base/ids.h"
#include "format/checksum/block_checksum.h"
#include "io/rpc/payload.h"
#include "server/target/chunk_store.h"

namespace cairn::server {

// Takes a whole chunk into `to`, hashing each piece as it arrives, and holds
// the sum against the sender's trailer.
class PutSink final : public io::PayloadSink {
 public:
  PutSink(format::ChunkId chunk, uint64_t chunk_bytes, format::MutableBytes to);

  // kInvalidArgument: lengths that do not fit each other.
  absl::Status Begin(uint64_t payload_bytes, uint32_t trailer_bytes,
                     std::string_view body) override;
  std::span<const format::MutableBytes> Next(uint64_t remaining) override;
  void Arrived() override;
  // kDataLoss: what arrived is not what was sent. Otherwise why the sender gave
  // up while it sent.
  absl::Status Finish(format::ConstBytes trailer) override;

  // After Finish() was OK: the checksums of all blocks.
  const std::vector<uint64_t>& checksums() const { return hasher_.Checksums(); }

 private:
  const format::ChunkId chunk_;
  const format::MutableBytes to_;  // chunk_bytes long.
  uint64_t arrived_bytes_ = 0;
  format::MutableBytes piece_;
  format::BlockHasher hasher_;
};

// Sends [offset, offset + length) of a chunk from the blocks that were read.
class RangeSource final : public io::PayloadSource {
 public:
  RangeSource(format::ChunkId chunk, const ChunkStore::ReadResult* blocks,
              uint64_t offset, uint64_t length);

  uint64_t size_bytes() const override { return range_.size(); }
  uint32_t trailer_bytes() const override {
    return static_cast<uint32_t>(8 * trailer_.size());
  }
  std::span<const format::ConstBytes> Next() override;
  format::ConstBytes Trailer() override;

 private:
  format::ConstBytes range_;
  uint64_t sent_bytes_ = 0;
  format::ConstBytes piece_;
  // Status 0, then per block touched: the stored checksum if all of it is
  // sent, else a fresh one over the part.
  std::vector<uint64_t> trailer_;
};

}  // namespace cairn::server
