#include "format/checksum/block_checksum.h"

#include <algorithm>

#include "format/base/limits.h"
#include "format/base/status.h"
#include "format/checksum/xxh3_ops.h"

namespace cairn::format {
namespace internal {

const Xxh3Ops* Xxh3ForThisProcessor() {
#if defined(__x86_64__)
  static const bool has_avx2 = __builtin_cpu_supports("avx2") != 0;
  if (has_avx2 && Avx2Xxh3() != nullptr) return Avx2Xxh3();
#endif
  return PortableXxh3();
}

}  // namespace internal

namespace {

using internal::Xxh3ForThisProcessor;

// Any odd constants do; they keep the seed of the all-zero identity from being
// zero, and the block number from cancelling the shard.
constexpr uint64_t kBlobSalt = 0x9e3779b97f4a7c15ULL;
constexpr uint64_t kPlaceSalt = 0xd1b54a32d192ed03ULL;
constexpr uint64_t kBlockSalt = 0x8cb92ba72f3d8dd7ULL;
// No block has this number (kBlocksPerChunkMax): it seeds digests.
constexpr uint32_t kDigestBlock = 0xffff'ffffU;

}  // namespace

// Each step maps one component one-to-one, so that two identities which differ
// in one component never share a seed.
uint64_t BlockSeed(const ChunkId& chunk, uint32_t block) {
  const uint64_t place =
      (static_cast<uint64_t>(chunk.stripe) << 32) | chunk.shard;
  uint64_t seed = Mix64(chunk.blob.value + kBlobSalt);
  seed = Mix64(seed + place + kPlaceSalt);
  return Mix64(seed + block + kBlockSalt);
}

uint64_t BlockChecksum(const ChunkId& chunk, uint32_t block, ConstBytes bytes) {
  CAIRN_CHECK(bytes.size() <= kBlockBytes);
  return Xxh3ForThisProcessor()->hash(bytes.data(), bytes.size(),
                                      BlockSeed(chunk, block));
}

uint64_t ChunkDigest(const ChunkId& chunk, uint64_t chunk_bytes,
                     std::span<const uint64_t> block_checksums) {
  CAIRN_CHECK(block_checksums.size() ==
              BlockHasher::BlockCount(0, chunk_bytes));
  const uint64_t seed = Mix64(BlockSeed(chunk, kDigestBlock) + chunk_bytes);
  return Xxh3ForThisProcessor()->hash(block_checksums.data(),
                                      block_checksums.size_bytes(), seed);
}

uint64_t Xxh3(ConstBytes bytes) {
  return Xxh3ForThisProcessor()->hash(bytes.data(), bytes.size(), 0);
}

struct StreamingXxh3::State {
  internal::Xxh3State xxh;
};

StreamingXxh3::StreamingXxh3() : state_(std::make_unique<State>()) {
  Xxh3ForThisProcessor()->reset(&state_->xxh, 0);
}
StreamingXxh3::StreamingXxh3(StreamingXxh3&&) noexcept = default;
StreamingXxh3& StreamingXxh3::operator=(StreamingXxh3&&) noexcept = default;
StreamingXxh3::~StreamingXxh3() = default;

void StreamingXxh3::Update(ConstBytes bytes) {
  CAIRN_CHECK(state_ != nullptr);
  Xxh3ForThisProcessor()->update(&state_->xxh, bytes.data(), bytes.size());
}

uint64_t StreamingXxh3::Digest() const {
  CAIRN_CHECK(state_ != nullptr);
  return Xxh3ForThisProcessor()->digest(&state_->xxh);
}

struct BlockHasher::State {
  ChunkId chunk;
  uint64_t position = 0;  // In the chunk, of the next byte.
  uint64_t end = 0;
  bool block_begun = false;  // `xxh` holds the first part of a block.
  std::vector<uint64_t> checksums;
  internal::Xxh3State xxh;
};

BlockHasher::BlockHasher(ChunkId chunk, uint64_t offset, uint64_t length)
    : state_(std::make_unique<State>()) {
  CAIRN_CHECK(offset <= kChunkBytesMax && length <= kChunkBytesMax - offset);
  state_->chunk = chunk;
  state_->position = offset;
  state_->end = offset + length;
  state_->checksums.reserve(BlockCount(offset, length));
}
BlockHasher::BlockHasher(BlockHasher&&) noexcept = default;
BlockHasher& BlockHasher::operator=(BlockHasher&&) noexcept = default;
BlockHasher::~BlockHasher() = default;

void BlockHasher::Update(ConstBytes bytes) {
  State* const state = state_.get();
  CAIRN_CHECK(state != nullptr);
  CAIRN_CHECK(bytes.size() <= state->end - state->position);
  const internal::Xxh3Ops* const ops = Xxh3ForThisProcessor();
  while (!bytes.empty()) {
    const uint64_t block = state->position / kBlockBytes;
    const uint64_t block_end = std::min(state->end, (block + 1) * kBlockBytes);
    const uint64_t left = block_end - state->position;
    const ConstBytes part = bytes.first(std::min(bytes.size(), left));
    const bool is_last_part = part.size() == left;
    const uint64_t seed = BlockSeed(state->chunk, static_cast<uint32_t>(block));
    if (is_last_part && !state->block_begun) {
      state->checksums.push_back(ops->hash(part.data(), part.size(), seed));
    } else {
      if (!state->block_begun) ops->reset(&state->xxh, seed);
      ops->update(&state->xxh, part.data(), part.size());
      state->block_begun = !is_last_part;
      if (is_last_part) state->checksums.push_back(ops->digest(&state->xxh));
    }
    state->position += part.size();
    bytes = bytes.subspan(part.size());
  }
}

const std::vector<uint64_t>& BlockHasher::Checksums() const {
  CAIRN_CHECK(state_ != nullptr && state_->position == state_->end);
  return state_->checksums;
}

uint32_t BlockHasher::BlockCount(uint64_t offset, uint64_t length) {
  if (length == 0) return 0;
  const uint64_t first = offset / kBlockBytes;
  const uint64_t last = (offset + length - 1) / kBlockBytes;
  return static_cast<uint32_t>(last - first + 1);
}

}  // namespace cairn::format
