#include "format/target/chunk_record.h"

#include <cstddef>
#include <type_traits>

#include "format/base/status.h"
#include "format/checksum/block_checksum.h"

namespace cairn::format {
namespace {

constexpr char kChunkKeyKind = 0x01;
constexpr uint32_t kRecordMagic = 0x31524343;  // "CCR1".
constexpr uint32_t kStateMagic = 0x31535443;   // "CTS1".
constexpr uint32_t kStateVersion = 1;

// On disk, little-endian: docs/format/target.md#chunk-record.
struct RawChunkRecord {
  uint32_t magic = kRecordMagic;
  uint16_t version = kChunkRecordVersion;
  uint16_t codec = 0;
  uint16_t key_id = 0;
  uint16_t block_count = 0;
  uint32_t slab = 0;
  uint64_t offset_bytes = 0;
  uint32_t allocated_bytes = 0;
  uint32_t chunk_bytes = 0;
  uint64_t decoded_bytes = 0;
  uint64_t stripe_bytes = 0;
  uint64_t digest = 0;
  uint64_t put_wall_ns = 0;
};
static_assert(sizeof(RawChunkRecord) == 64);
static_assert(offsetof(RawChunkRecord, offset_bytes) == 16);
static_assert(offsetof(RawChunkRecord, put_wall_ns) == 56);
static_assert(std::has_unique_object_representations_v<RawChunkRecord>);

// On disk, little-endian: docs/format/target.md#store-state.
struct RawStoreState {
  uint32_t magic = kStateMagic;
  uint32_t version = kStateVersion;
  uint64_t meta_sequence = 0;
  uint64_t boot_epoch = 0;
  uint64_t xxh3 = 0;
};
static_assert(sizeof(RawStoreState) == 32);
static_assert(std::has_unique_object_representations_v<RawStoreState>);

template <typename T>
void AppendBigEndian(std::string* to, T value) {
  for (int shift = 8 * static_cast<int>(sizeof(T) - 1); shift >= 0;
       shift -= 8) {
    to->push_back(static_cast<char>((value >> shift) & 0xff));
  }
}

// The caller has checked that sizeof(T) bytes are there.
template <typename T>
T TakeBigEndian(std::string_view* from) {
  T value = 0;
  for (size_t i = 0; i < sizeof(T); ++i) {
    value = static_cast<T>((uint64_t{value} << 8) |
                           static_cast<uint8_t>((*from)[i]));
  }
  from->remove_prefix(sizeof(T));
  return value;
}

uint64_t RecordXxh3(const ChunkKey& key, ConstBytes record) {
  std::string covered = EncodeChunkKey(key);
  covered.append(AsText(record));
  return Xxh3(AsBytes(covered));
}

StoredChunk FromRaw(const RawChunkRecord& raw) {
  StoredChunk chunk;
  chunk.place = {raw.slab, raw.offset_bytes, raw.allocated_bytes};
  chunk.chunk_bytes = raw.chunk_bytes;
  chunk.codec = raw.codec;
  chunk.key_id = raw.key_id;
  chunk.decoded_bytes = raw.decoded_bytes;
  chunk.stripe_bytes = raw.stripe_bytes;
  chunk.digest = raw.digest;
  chunk.put_wall_ns = raw.put_wall_ns;
  return chunk;
}

absl::Status Damaged(const ChunkKey& key, std::string_view what) {
  return absl::DataLossError(
      absl::StrCat("index record of ", ToString(key), ": ", AbslText(what)));
}

}  // namespace

std::string ToString(const ChunkKey& key) {
  return absl::StrCat(ToString(key.chunk), " of ", ToString(key.pg));
}

std::string EncodeChunkKey(const ChunkKey& key) {
  std::string bytes;
  bytes.reserve(kChunkKeyBytes);
  bytes.push_back(kChunkKeyKind);
  AppendBigEndian(&bytes, key.pg.pool.value);
  AppendBigEndian(&bytes, key.pg.index);
  AppendBigEndian(&bytes, key.chunk.blob.value);
  AppendBigEndian(&bytes, key.chunk.stripe);
  AppendBigEndian(&bytes, key.chunk.shard);
  CAIRN_CHECK(bytes.size() == kChunkKeyBytes);
  return bytes;
}

absl::StatusOr<ChunkKey> DecodeChunkKey(std::string_view bytes) {
  if (bytes.size() != kChunkKeyBytes || bytes[0] != kChunkKeyKind) {
    return absl::DataLossError("not the index key of a chunk");
  }
  bytes.remove_prefix(1);
  ChunkKey key;
  key.pg.pool = PoolId(TakeBigEndian<uint16_t>(&bytes));
  key.pg.index = TakeBigEndian<uint32_t>(&bytes);
  key.chunk.blob = BlobId(TakeBigEndian<uint64_t>(&bytes));
  key.chunk.stripe = TakeBigEndian<uint32_t>(&bytes);
  key.chunk.shard = TakeBigEndian<uint32_t>(&bytes);
  if (key.chunk.blob.pool() != key.pg.pool) {
    return absl::DataLossError(
        absl::StrCat(ToString(key), ": the blob is of another pool"));
  }
  return key;
}

absl::Status ValidateStoredChunk(const StoredChunk& chunk) {
  if (chunk.chunk_bytes == 0 || chunk.chunk_bytes > kChunkBytesMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("chunk of ", chunk.chunk_bytes, " bytes"));
  }
  if (chunk.block_checksums.size() != BlocksOf(chunk.chunk_bytes)) {
    return absl::InvalidArgumentError(
        absl::StrCat(chunk.block_checksums.size(), " block checksums for ",
                     chunk.chunk_bytes, " bytes"));
  }
  const ChunkPlace& place = chunk.place;
  if (place.allocated_bytes != AllocatedBytesOf(chunk.chunk_bytes) ||
      place.offset_bytes % kDiskAlignBytes != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("place of ", place.allocated_bytes, " bytes at ",
                     place.offset_bytes, " for ", chunk.chunk_bytes));
  }
  if (chunk.codec == 0 && chunk.decoded_bytes != chunk.chunk_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("decoded length ", chunk.decoded_bytes, " of ",
                     chunk.chunk_bytes, " bytes without a codec"));
  }
  return absl::OkStatus();
}

std::string EncodeStoredChunk(const ChunkKey& key, const StoredChunk& chunk) {
  CAIRN_CHECK(ValidateStoredChunk(chunk).ok());
  RawChunkRecord raw;
  raw.codec = chunk.codec;
  raw.key_id = chunk.key_id;
  raw.block_count = static_cast<uint16_t>(chunk.block_checksums.size());
  raw.slab = chunk.place.slab;
  raw.offset_bytes = chunk.place.offset_bytes;
  raw.allocated_bytes = chunk.place.allocated_bytes;
  raw.chunk_bytes = chunk.chunk_bytes;
  raw.decoded_bytes = chunk.decoded_bytes;
  raw.stripe_bytes = chunk.stripe_bytes;
  raw.digest = chunk.digest;
  raw.put_wall_ns = chunk.put_wall_ns;
  const uint64_t checksum_bytes = 8 * chunk.block_checksums.size();
  const uint64_t covered_bytes = sizeof(raw) + checksum_bytes;
  std::string bytes(covered_bytes + sizeof(uint64_t), '\0');
  StoreLe(bytes.data(), raw);
  std::memcpy(bytes.data() + sizeof(raw), chunk.block_checksums.data(),
              checksum_bytes);
  StoreLe(bytes.data() + covered_bytes,
          RecordXxh3(key, AsBytes(bytes).first(covered_bytes)));
  return bytes;
}

absl::StatusOr<StoredChunk> DecodeStoredChunk(const ChunkKey& key,
                                              ConstBytes bytes) {
  if (bytes.size() < sizeof(RawChunkRecord) + sizeof(uint64_t)) {
    return Damaged(key, "too short");
  }
  const auto raw = LoadLe<RawChunkRecord>(bytes.data());
  if (raw.magic != kRecordMagic) return Damaged(key, "wrong magic");
  const uint64_t covered_bytes = bytes.size() - sizeof(uint64_t);
  const auto xxh3 = LoadLe<uint64_t>(bytes.data() + covered_bytes);
  if (xxh3 != RecordXxh3(key, bytes.first(covered_bytes))) {
    return Damaged(key, "checksum differs");
  }
  if (raw.version > kChunkRecordVersion) {
    return absl::FailedPreconditionError(
        absl::StrCat("index record of ", ToString(key), " has version ",
                     raw.version, ": newer than this program knows"));
  }
  if (raw.version == 0) return Damaged(key, "version 0");
  if (raw.block_count > kBlocksPerChunkMax ||
      covered_bytes != sizeof(raw) + 8 * uint64_t{raw.block_count}) {
    return Damaged(key, "length differs from its count of blocks");
  }
  StoredChunk chunk = FromRaw(raw);
  chunk.block_checksums.resize(raw.block_count);
  std::memcpy(chunk.block_checksums.data(), bytes.data() + sizeof(raw),
              8 * uint64_t{raw.block_count});
  const absl::Status valid = ValidateStoredChunk(chunk);
  if (!valid.ok()) return Damaged(key, StdText(valid.message()));
  return chunk;
}

std::string EncodeStoreState(const StoreState& state) {
  RawStoreState raw;
  raw.meta_sequence = state.meta_sequence;
  raw.boot_epoch = state.boot_epoch;
  std::string bytes(sizeof(raw), '\0');
  StoreLe(bytes.data(), raw);
  StoreLe(bytes.data() + offsetof(RawStoreState, xxh3),
          Xxh3(AsBytes(bytes).first(offsetof(RawStoreState, xxh3))));
  return bytes;
}

absl::StatusOr<StoreState> DecodeStoreState(ConstBytes bytes) {
  if (bytes.size() != sizeof(RawStoreState)) {
    return absl::DataLossError("store state: wrong length");
  }
  const auto raw = LoadLe<RawStoreState>(bytes.data());
  if (raw.magic != kStateMagic) {
    return absl::DataLossError("store state: wrong magic");
  }
  if (raw.xxh3 != Xxh3(bytes.first(offsetof(RawStoreState, xxh3)))) {
    return absl::DataLossError("store state: checksum differs");
  }
  if (raw.version > kStateVersion) {
    return absl::FailedPreconditionError(
        absl::StrCat("store state of version ", raw.version,
                     ": newer than this program knows"));
  }
  if (raw.version == 0) return absl::DataLossError("store state: version 0");
  StoreState state;
  state.meta_sequence = raw.meta_sequence;
  state.boot_epoch = raw.boot_epoch;
  return state;
}

}  // namespace cairn::format
