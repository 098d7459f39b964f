// What the index of a target says about one chunk, and the keys it is found
// by. docs/format/target.md.
//
// Pure bytes. Keys order as ids do, so a range of keys is a placement group.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "format/base/bytes.h"
#include "format/base/ids.h"
#include "format/base/limits.h"

namespace cairn::format {

inline constexpr uint16_t kChunkRecordVersion = 1;
inline constexpr uint64_t kChunkKeyBytes = 23;
inline constexpr uint64_t kChunkRecordBytesMax = 72 + 8 * kBlocksPerChunkMax;

struct ChunkKey {
  PgId pg;
  ChunkId chunk;
  friend constexpr auto operator<=>(const ChunkKey&, const ChunkKey&) = default;
};
std::string ToString(const ChunkKey& key);  // "chunk 1:42/3/0 of pg 1.7"

std::string EncodeChunkKey(const ChunkKey& key);
// kDataLoss: not the key of a chunk, or of a chunk of another pool than its PG.
absl::StatusOr<ChunkKey> DecodeChunkKey(std::string_view bytes);

// Where a chunk's payload lies. All in bytes, multiples of kDiskAlignBytes.
struct ChunkPlace {
  uint32_t slab = 0;
  uint64_t offset_bytes = 0;
  uint32_t allocated_bytes = 0;
  friend constexpr auto operator<=>(const ChunkPlace&,
                                    const ChunkPlace&) = default;
};

struct StoredChunk {
  ChunkPlace place;
  uint32_t chunk_bytes = 0;
  uint16_t codec = 0;   // Of the client; 0: none.
  uint16_t key_id = 0;  // Of the client; 0: not encrypted.
  uint64_t decoded_bytes = 0;
  uint64_t stripe_bytes = 0;
  uint64_t digest = 0;
  uint64_t put_wall_ns = 0;
  std::vector<uint64_t> block_checksums;
  friend bool operator==(const StoredChunk&, const StoredChunk&) = default;
};

constexpr uint64_t BlocksOf(uint64_t chunk_bytes) {
  return (chunk_bytes + kBlockBytes - 1) / kBlockBytes;
}
constexpr uint64_t AllocatedBytesOf(uint64_t chunk_bytes) {
  return (chunk_bytes + kDiskAlignBytes - 1) / kDiskAlignBytes *
         kDiskAlignBytes;
}

// kInvalidArgument names the first field that cannot be.
absl::Status ValidateStoredChunk(const StoredChunk& chunk);

// `chunk` must be valid (checked).
std::string EncodeStoredChunk(const ChunkKey& key, const StoredChunk& chunk);
// kFailedPrecondition: a newer version. kDataLoss: damaged, or the record of
// another key.
absl::StatusOr<StoredChunk> DecodeStoredChunk(const ChunkKey& key,
                                              ConstBytes bytes);

// What a store remembers of itself: one record beside the chunks.
struct StoreState {
  uint64_t meta_sequence = 0;
  uint64_t boot_epoch = 0;
  friend bool operator==(const StoreState&, const StoreState&) = default;
};
inline constexpr std::string_view kStoreStateKey{"\0", 1};
std::string EncodeStoreState(const StoreState& state);
// As DecodeStoredChunk.
absl::StatusOr<StoreState> DecodeStoreState(ConstBytes bytes);

}  // namespace cairn::format
