// Block checksums: XXH3-64 seeded with a chunk's identity and the block number,
// so that a misdirected, stale, swapped or zeroed block fails like a damaged
// one. docs/format/checksum.md.
//
// The AVX2 form is used where the processor has it; the values are the same.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "format/base/bytes.h"
#include "format/base/ids.h"

namespace cairn::format {

uint64_t BlockSeed(const ChunkId& chunk, uint32_t block);

// Checksum of (a part of) one block; `bytes` is 0 to kBlockBytes long.
uint64_t BlockChecksum(const ChunkId& chunk, uint32_t block, ConstBytes bytes);

// Digest of a whole chunk: of its length and its block checksums.
uint64_t ChunkDigest(const ChunkId& chunk, uint64_t chunk_bytes,
                     std::span<const uint64_t> block_checksums);

// Unseeded XXH3-64, for frames and superblocks.
uint64_t Xxh3(ConstBytes bytes);

// Unseeded XXH3-64 over bytes that come in parts: a tensor's checksum.
class StreamingXxh3 {
 public:
  StreamingXxh3();
  StreamingXxh3(StreamingXxh3&&) noexcept;
  StreamingXxh3& operator=(StreamingXxh3&&) noexcept;
  ~StreamingXxh3();
  void Update(ConstBytes bytes);
  uint64_t Digest() const;  // Of all bytes so far.

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Makes the checksums of a range of a chunk while its bytes pass by in order
// and in parts of any size. The range may start and end inside blocks: the
// first and last checksums then cover only the part inside the range.
class BlockHasher {
 public:
  // The range [offset, offset + length) of `chunk`.
  BlockHasher(ChunkId chunk, uint64_t offset, uint64_t length);
  BlockHasher(BlockHasher&&) noexcept;
  BlockHasher& operator=(BlockHasher&&) noexcept;
  ~BlockHasher();

  void Update(ConstBytes bytes);  // At most what is left of the range.
  // One per block touched; complete once all bytes were given (checked).
  const std::vector<uint64_t>& Checksums() const;

  // How many blocks a range touches: the length of Checksums().
  static uint32_t BlockCount(uint64_t offset, uint64_t length);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cairn::format
