#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "format/base/limits.h"
#include "format/checksum/block_checksum.h"
#include "format/checksum/xxh3_ops.h"
#include "gtest/gtest.h"

namespace cairn::format {
namespace {

// Bytes that repeat with no small period.
std::vector<uint8_t> Pattern(uint64_t size) {
  std::vector<uint8_t> bytes(size);
  for (uint64_t i = 0; i < size; ++i) {
    bytes[i] = static_cast<uint8_t>(Mix64(i / 8 + 1) >> (i % 8 * 8));
  }
  return bytes;
}

ChunkId Chunk(uint64_t blob, uint32_t stripe, uint32_t shard) {
  ChunkId id;
  id.blob = BlobId(blob);
  id.stripe = stripe;
  id.shard = shard;
  return id;
}

const ChunkId kChunk = Chunk(0x0001'0000'0000'002aULL, 3, 1);

std::vector<uint64_t> SumsOf(const ChunkId& chunk, uint64_t offset,
                             ConstBytes bytes) {
  BlockHasher hasher(chunk, offset, bytes.size());
  hasher.Update(bytes);
  return hasher.Checksums();
}

uint64_t StreamWith(const internal::Xxh3Ops* ops, uint64_t seed,
                    ConstBytes bytes, size_t split) {
  internal::Xxh3State state;
  ops->reset(&state, seed);
  ops->update(&state, bytes.data(), split);
  ops->update(&state, bytes.data() + split, bytes.size() - split);
  return ops->digest(&state);
}

TEST(Xxh3Ops, BothFormsGiveEqualValuesAtEveryLength) {
  const internal::Xxh3Ops* const portable = internal::PortableXxh3();
  const internal::Xxh3Ops* const best = internal::Xxh3ForThisProcessor();
  const std::vector<uint8_t> bytes = Pattern(kBlockBytes);
  for (size_t size = 0; size <= bytes.size(); size += size < 1200 ? 1 : 997) {
    const ConstBytes part = ConstBytes(bytes).first(size);
    for (uint64_t seed : {uint64_t{0}, BlockSeed(kChunk, 7)}) {
      const uint64_t hash = portable->hash(part.data(), size, seed);
      ASSERT_EQ(hash, best->hash(part.data(), size, seed)) << size;
      ASSERT_EQ(hash, StreamWith(portable, seed, part, size / 3)) << size;
      ASSERT_EQ(hash, StreamWith(best, seed, part, size / 2)) << size;
    }
  }
}

// Values that other implementations of XXH3-64 give too.
TEST(Xxh3, AgreesWithPublishedValues) {
  EXPECT_EQ(Xxh3({}), 0x2d06800538d394c2ULL);
  EXPECT_EQ(Xxh3(AsBytes("abc")), 0x78af5f94892f3950ULL);
}

// On disks and wires already: these values may never change.
TEST(BlockChecksum, KeepsItsGoldenValues) {
  const std::vector<uint8_t> bytes = Pattern(kBlockBytes);
  EXPECT_EQ(BlockSeed(kChunk, 5), 0x487222962f4d3da5ULL);
  EXPECT_EQ(BlockChecksum(kChunk, 5, bytes), 0xa47d98808854277eULL);
  EXPECT_EQ(BlockChecksum(kChunk, 5, ConstBytes(bytes).first(3)),
            0x49315f4135c39157ULL);
  const std::vector<uint64_t> sums = {1, 2};
  EXPECT_EQ(ChunkDigest(kChunk, kBlockBytes + 1, sums), 0x8f1e820208d2b09cULL);
}

TEST(BlockChecksum, EveryPartOfTheIdentityChangesTheValue) {
  const std::vector<uint8_t> bytes = Pattern(4096);
  std::set<uint64_t> values;
  values.insert(BlockChecksum(kChunk, 5, bytes));
  for (int bit = 0; bit < 64; ++bit) {
    ChunkId other = kChunk;
    other.blob.value ^= uint64_t{1} << bit;
    values.insert(BlockChecksum(other, 5, bytes));
  }
  for (int bit = 0; bit < 32; ++bit) {
    const uint32_t flip = uint32_t{1} << bit;
    values.insert(BlockChecksum(
        Chunk(kChunk.blob.value, kChunk.stripe ^ flip, kChunk.shard), 5,
        bytes));
    values.insert(BlockChecksum(
        Chunk(kChunk.blob.value, kChunk.stripe, kChunk.shard ^ flip), 5,
        bytes));
    values.insert(BlockChecksum(kChunk, 5 ^ flip, bytes));
  }
  EXPECT_EQ(values.size(), 1u + 64 + 3 * 32);
}

// Trimmed or never written space reads as zeros: such a block must not pass
// for any place but its own, not even where the stored checksum is zero too.
TEST(BlockChecksum, ZeroBlockPassesForOneIdentityOnly) {
  const std::vector<uint8_t> zeros(kBlockBytes);
  std::set<uint64_t> values;
  uint64_t places = 0;
  for (uint64_t blob = 0; blob < 8; ++blob) {
    for (uint32_t stripe = 0; stripe < 4; ++stripe) {
      for (uint32_t shard = 0; shard < 4; ++shard) {
        for (uint32_t block = 0; block < 8; ++block, ++places) {
          values.insert(
              BlockChecksum(Chunk(blob, stripe, shard), block, zeros));
        }
      }
    }
  }
  EXPECT_EQ(values.size(), places);
  EXPECT_FALSE(values.contains(0));
}

TEST(BlockHasher, AnySplitGivesTheSameChecksums) {
  const std::vector<uint8_t> bytes = Pattern(2 * kBlockBytes + 100);
  const std::vector<uint64_t> whole = SumsOf(kChunk, 0, bytes);
  ASSERT_EQ(whole.size(), 3u);
  for (uint64_t block = 0; block < 2; ++block) {
    EXPECT_EQ(whole[block],
              BlockChecksum(
                  kChunk, static_cast<uint32_t>(block),
                  ConstBytes(bytes).subspan(block * kBlockBytes, kBlockBytes)));
  }
  for (uint64_t split = 0; split <= bytes.size(); split += 61) {
    BlockHasher hasher(kChunk, 0, bytes.size());
    hasher.Update(ConstBytes(bytes).first(split));
    hasher.Update(ConstBytes(bytes).subspan(split));
    ASSERT_EQ(hasher.Checksums(), whole) << "split at " << split;
  }
}

TEST(BlockHasher, SplitsBesideBlockEdgesGiveTheSameChecksums) {
  const std::vector<uint8_t> bytes = Pattern(2 * kBlockBytes + 1);
  const std::vector<uint64_t> whole = SumsOf(kChunk, 0, bytes);
  for (uint64_t edge : {kBlockBytes - 1, kBlockBytes, kBlockBytes + 1}) {
    for (uint64_t step : {uint64_t{1}, uint64_t{2}, kBlockBytes}) {
      BlockHasher hasher(kChunk, 0, bytes.size());
      hasher.Update(ConstBytes(bytes).first(edge));
      hasher.Update(ConstBytes(bytes).subspan(edge, step));
      hasher.Update(ConstBytes(bytes).subspan(edge + step));
      EXPECT_EQ(hasher.Checksums(), whole) << edge << " then " << step;
    }
  }
}

TEST(BlockHasher, OneByteAtATimeGivesTheSameChecksums) {
  const std::vector<uint8_t> bytes = Pattern(kBlockBytes + 300);
  BlockHasher hasher(kChunk, 200, bytes.size());
  for (const uint8_t& byte : bytes) hasher.Update({&byte, 1});
  EXPECT_EQ(hasher.Checksums(), SumsOf(kChunk, 200, bytes));
}

TEST(BlockHasher, RangeInsideBlocksCoversOnlyItsPartOfThem) {
  const std::vector<uint8_t> bytes = Pattern(3 * kBlockBytes);
  const uint64_t offset = kBlockBytes - 10;
  const ConstBytes range = ConstBytes(bytes).subspan(offset, kBlockBytes + 30);
  const std::vector<uint64_t> expected = {
      BlockChecksum(kChunk, 0, range.first(10)),
      BlockChecksum(kChunk, 1, range.subspan(10, kBlockBytes)),
      BlockChecksum(kChunk, 2, range.last(20))};
  EXPECT_EQ(SumsOf(kChunk, offset, range), expected);
}

TEST(BlockHasher, CountsTheBlocksThatARangeTouches) {
  EXPECT_EQ(BlockHasher::BlockCount(5, 0), 0u);
  EXPECT_EQ(BlockHasher::BlockCount(0, 1), 1u);
  EXPECT_EQ(BlockHasher::BlockCount(0, kBlockBytes), 1u);
  EXPECT_EQ(BlockHasher::BlockCount(1, kBlockBytes), 2u);
  EXPECT_EQ(BlockHasher::BlockCount(kBlockBytes - 1, 2), 2u);
  EXPECT_EQ(BlockHasher::BlockCount(0, kChunkBytesMax), kBlocksPerChunkMax);
}

TEST(BlockHasher, EmptyRangeHasNoChecksums) {
  EXPECT_TRUE(SumsOf(kChunk, 77, {}).empty());
}

TEST(ChunkDigest, DependsOnLengthChecksumsAndIdentity) {
  const std::vector<uint64_t> sums = {1, 2};
  const std::vector<uint64_t> swapped = {2, 1};
  const uint64_t length = kBlockBytes + 5;
  const std::set<uint64_t> values = {
      ChunkDigest(kChunk, length, sums), ChunkDigest(kChunk, length + 1, sums),
      ChunkDigest(kChunk, length, swapped),
      ChunkDigest(Chunk(kChunk.blob.value, 3, 2), length, sums)};
  EXPECT_EQ(values.size(), 4u);
}

TEST(StreamingXxh3, GoesOnAfterADigest) {
  const std::vector<uint8_t> bytes = Pattern(5000);
  StreamingXxh3 stream;
  EXPECT_EQ(stream.Digest(), Xxh3({}));
  for (size_t done = 0; done < bytes.size(); done += 250) {
    stream.Update(ConstBytes(bytes).subspan(done, 250));
    ASSERT_EQ(stream.Digest(), Xxh3(ConstBytes(bytes).first(done + 250)));
  }
}

TEST(BlockHasherDeathTest, MoreBytesThanTheRangeIsABug) {
  BlockHasher hasher(kChunk, 0, 3);
  EXPECT_DEATH(hasher.Update(AsBytes("four")), "check failed");
}

TEST(BlockHasherDeathTest, ChecksumsBeforeTheLastByteAreABug) {
  BlockHasher hasher(kChunk, 0, 3);
  hasher.Update(AsBytes("ab"));
  EXPECT_DEATH(hasher.Checksums(), "check failed");
}

}  // namespace
}  // namespace cairn::format
