#include "format/target/chunk_record.h"

#include <algorithm>

#include "format/checksum/block_checksum.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace cairn::format {
namespace {

using ::cairn::testing::StatusIs;

ChunkKey Key() {
  ChunkKey key;
  key.pg = {PoolId(1), 7};
  key.chunk = {BlobId::Make(PoolId(1), 42), 3, 0};
  return key;
}

StoredChunk Sample() {
  StoredChunk chunk;
  chunk.chunk_bytes = 70000;
  chunk.place = {2, 40960, 73728};
  chunk.decoded_bytes = 70000;
  chunk.stripe_bytes = 280000;
  chunk.digest = 0x1122334455667788;
  chunk.put_wall_ns = 99;
  chunk.block_checksums = {11, 22};
  return chunk;
}

// Makes changed bytes whole again, as only a writer could.
void Seal(const ChunkKey& key, std::string* bytes) {
  const uint64_t covered = bytes->size() - 8;
  const std::string all = EncodeChunkKey(key) + bytes->substr(0, covered);
  StoreLe(bytes->data() + covered, Xxh3(AsBytes(all)));
}

TEST(ChunkRecord, RoundTrip) {
  const std::string bytes = EncodeStoredChunk(Key(), Sample());
  EXPECT_EQ(bytes.size(), 88u);  // docs/format/target.md's example.
  const auto decoded = DecodeStoredChunk(Key(), AsBytes(bytes));
  ASSERT_OK(decoded);
  EXPECT_EQ(*decoded, Sample());
}

TEST(ChunkRecord, CodecAndKeyIdOfAClientArePassedThrough) {
  StoredChunk chunk = Sample();
  chunk.codec = 5;
  chunk.key_id = 6;
  chunk.decoded_bytes = 1 << 20;
  const auto decoded =
      DecodeStoredChunk(Key(), AsBytes(EncodeStoredChunk(Key(), chunk)));
  ASSERT_OK(decoded);
  EXPECT_EQ(*decoded, chunk);
}

TEST(ChunkRecord, CorruptMagicIsDataLoss) {
  std::string bytes = EncodeStoredChunk(Key(), Sample());
  bytes[0] = 'X';
  Seal(Key(), &bytes);
  EXPECT_THAT(DecodeStoredChunk(Key(), AsBytes(bytes)),
              StatusIs(absl::StatusCode::kDataLoss, "magic"));
}

TEST(ChunkRecord, CorruptLengthIsDataLoss) {
  std::string bytes = EncodeStoredChunk(Key(), Sample());
  for (uint64_t size = 0; size < bytes.size(); ++size) {
    EXPECT_THAT(DecodeStoredChunk(Key(), AsBytes(bytes).first(size)),
                StatusIs(absl::StatusCode::kDataLoss, "chunk 1:42/3/0"));
  }
  StoreLe(bytes.data() + 10, uint16_t{3});  // Says 3 blocks, has 2.
  Seal(Key(), &bytes);
  EXPECT_THAT(DecodeStoredChunk(Key(), AsBytes(bytes)),
              StatusIs(absl::StatusCode::kDataLoss, "count of blocks"));
}

TEST(ChunkRecord, ImpossibleLengthUnderAGoodChecksumIsDataLoss) {
  std::string bytes = EncodeStoredChunk(Key(), Sample());
  StoreLe(bytes.data() + 28, uint32_t{5 << 20});
  Seal(Key(), &bytes);
  EXPECT_THAT(DecodeStoredChunk(Key(), AsBytes(bytes)),
              StatusIs(absl::StatusCode::kDataLoss, "chunk of 5242880 bytes"));
}

TEST(ChunkRecord, NewerVersionIsRefused) {
  std::string bytes = EncodeStoredChunk(Key(), Sample());
  StoreLe(bytes.data() + 4, uint16_t{kChunkRecordVersion + 1});
  Seal(Key(), &bytes);
  EXPECT_THAT(DecodeStoredChunk(Key(), AsBytes(bytes)),
              StatusIs(absl::StatusCode::kFailedPrecondition, "newer"));
}

TEST(ChunkRecord, CorruptChecksumAndEveryOtherFlippedBitIsSeen) {
  const std::string good = EncodeStoredChunk(Key(), Sample());
  for (uint64_t bit = 0; bit < 8 * good.size(); ++bit) {
    std::string bytes = good;
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << (bit % 8)));
    EXPECT_THAT(DecodeStoredChunk(Key(), AsBytes(bytes)),
                StatusIs(absl::StatusCode::kDataLoss, ""))
        << "bit " << bit;
  }
}

TEST(ChunkRecord, RecordUnderAnotherKeyIsDataLoss) {
  ChunkKey other = Key();
  other.chunk.stripe = 4;
  const std::string bytes = EncodeStoredChunk(Key(), Sample());
  EXPECT_THAT(DecodeStoredChunk(other, AsBytes(bytes)),
              StatusIs(absl::StatusCode::kDataLoss, "1:42/4/0"));
}

TEST(ChunkKey, BytesAreThoseOfTheDocument) {
  const std::string bytes = EncodeChunkKey(Key());
  const uint8_t expected[] = {1, 0, 1,  0, 0, 0, 7, 0, 1, 0, 0, 0,
                              0, 0, 42, 0, 0, 0, 3, 0, 0, 0, 0};
  EXPECT_TRUE(std::equal(
      bytes.begin(), bytes.end(), std::begin(expected), std::end(expected),
      [](char a, uint8_t b) { return static_cast<uint8_t>(a) == b; }));
  const auto decoded = DecodeChunkKey(bytes);
  ASSERT_OK(decoded);
  EXPECT_EQ(*decoded, Key());
}

TEST(ChunkKey, ByteOrderIsIdOrder) {
  std::vector<ChunkKey> keys;
  for (uint32_t index : {0u, 1u, 255u, 256u, 70000u}) {
    for (uint64_t sequence : {1ull, 255ull, 1ull << 40}) {
      for (uint32_t stripe : {0u, 128u, 1u << 29}) {
        ChunkKey key;
        key.pg = {PoolId(300), index};
        key.chunk = {BlobId::Make(PoolId(300), sequence), stripe, 2};
        keys.push_back(key);
      }
    }
  }
  std::sort(keys.begin(), keys.end());
  for (size_t i = 1; i < keys.size(); ++i) {
    EXPECT_LT(EncodeChunkKey(keys[i - 1]), EncodeChunkKey(keys[i]));
  }
}

TEST(ChunkKey, WrongLengthKindOrPoolIsDataLoss) {
  const std::string good = EncodeChunkKey(Key());
  EXPECT_FALSE(DecodeChunkKey(good.substr(1)).ok());
  EXPECT_FALSE(DecodeChunkKey(good + "x").ok());
  std::string bytes = good;
  bytes[0] = 2;
  EXPECT_FALSE(DecodeChunkKey(bytes).ok());
  bytes = good;
  bytes[2] = 9;  // The group's pool; the blob's stays 1.
  EXPECT_THAT(DecodeChunkKey(bytes),
              StatusIs(absl::StatusCode::kDataLoss, "another pool"));
}

TEST(StoreState, RoundTrip) {
  StoreState state;
  state.meta_sequence = 5;
  state.boot_epoch = 6;
  const auto decoded = DecodeStoreState(AsBytes(EncodeStoreState(state)));
  ASSERT_OK(decoded);
  EXPECT_EQ(*decoded, state);
}

TEST(StoreState, EveryFlippedBitAndEveryCutIsDataLoss) {
  const std::string good = EncodeStoreState({5, 6});
  for (uint64_t bit = 0; bit < 8 * good.size(); ++bit) {
    std::string bytes = good;
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << (bit % 8)));
    EXPECT_THAT(DecodeStoreState(AsBytes(bytes)),
                StatusIs(absl::StatusCode::kDataLoss, ""));
  }
  for (uint64_t size = 0; size < good.size(); ++size) {
    EXPECT_THAT(DecodeStoreState(AsBytes(good).first(size)),
                StatusIs(absl::StatusCode::kDataLoss, "length"));
  }
}

TEST(StoreState, NewerVersionIsRefused) {
  std::string bytes = EncodeStoreState({5, 6});
  StoreLe(bytes.data() + 4, uint32_t{2});
  StoreLe(bytes.data() + 24, Xxh3(AsBytes(bytes).first(24)));
  EXPECT_THAT(DecodeStoreState(AsBytes(bytes)),
              StatusIs(absl::StatusCode::kFailedPrecondition, "newer"));
}

}  // namespace
}  // namespace cairn::format
