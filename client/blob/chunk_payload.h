// The payload of one chunk on its way out or in: user memory, hashed piece by
// piece while it is in cache, with the block checksums as trailer.
//
// Threads:  the cluster's loop.
// Lifetime: the memory in the gather lists outlives the call.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "client/blob/gather.h"
#include "format/base/ids.h"
#include "format/checksum/block_checksum.h"
#include "io/rpc/payload.h"

namespace cairn::client {

// Sends a whole chunk. One use; make another for a retry.
class ChunkSource final : public io::PayloadSource {
 public:
  ChunkSource(format::ChunkId chunk, const ConstGather* bytes);
  uint64_t size_bytes() const override { return size_bytes_; }
  uint32_t trailer_bytes() const override;
  std::span<const format::ConstBytes> Next() override;
  format::ConstBytes Trailer() override;

 private:
  const uint64_t size_bytes_;
  format::BlockHasher hasher_;
  GatherCursor<const uint8_t> cursor_;
  ConstGather piece_;
  std::vector<uint64_t> trailer_;
};

// Receives [offset, offset + length) of a chunk into user memory and verifies
// it against the checksums that follow.
class ChunkSink final : public io::PayloadSink {
 public:
  ChunkSink(format::ChunkId chunk, uint64_t offset, const MutableGather* to);
  absl::Status Begin(uint64_t payload_bytes, uint32_t trailer_bytes,
                     std::string_view body) override;
  std::span<const format::MutableBytes> Next(uint64_t remaining) override;
  void Arrived() override;
  absl::Status Finish(format::ConstBytes trailer) override;
  // True once the whole payload arrived and passed its checksums.
  bool verified() const { return verified_; }
  // What arrived is not what was sent: this says nothing about what is stored.
  bool damaged() const { return damaged_; }

 private:
  absl::Status Damaged(std::string_view what);

  const format::ChunkId chunk_;
  const uint64_t size_bytes_;
  format::BlockHasher hasher_;
  GatherCursor<uint8_t> cursor_;
  MutableGather piece_;
  bool verified_ = false;
  bool damaged_ = false;
};

}  // namespace cairn::client
