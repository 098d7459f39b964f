#include "format/extent/stripe.h"

#include <algorithm>
#include <ostream>
#include <random>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace cairn::format {

void PrintTo(const ChunkRange& range, std::ostream* out) {
  *out << ToString(range.chunk) << " [" << range.offset << ", +" << range.length
       << ") at " << range.range_offset;
}

namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr BlobId kBlob = BlobId::Make(PoolId(1), 42);

Pool MakePool(uint32_t data, uint32_t parity, uint32_t chunk_size) {
  Pool pool;
  pool.scheme = {SchemeKind::kReedSolomon, data, parity};
  pool.chunk_size = chunk_size;
  return pool;
}

// Where one byte of a blob lies, found by walking there chunk by chunk.
struct Place {
  uint32_t stripe = 0;
  uint32_t shard = 0;
  uint64_t offset = 0;
};
std::vector<Place> WalkBlob(const Pool& pool, uint32_t stripes) {
  std::vector<Place> places;
  for (uint32_t stripe = 0; stripe < stripes; ++stripe) {
    for (uint32_t shard = 0; shard < pool.scheme.data_shards; ++shard) {
      for (uint64_t at = 0; at < pool.chunk_size; ++at) {
        places.push_back({stripe, shard, at});
      }
    }
  }
  return places;
}

// The answer byte by byte, joined while the chunk stays the same.
std::vector<ChunkRange> SlowChunks(const std::vector<Place>& places,
                                   uint64_t offset, uint64_t length) {
  std::vector<ChunkRange> ranges;
  for (uint64_t i = 0; i < length; ++i) {
    const Place& place = places[offset + i];
    const ChunkId chunk{kBlob, place.stripe, place.shard};
    if (ranges.empty() || ranges.back().chunk != chunk) {
      ranges.push_back({chunk, place.offset, 0, i});
    }
    ++ranges.back().length;
  }
  return ranges;
}

TEST(ChunksOfRange, AgreesWithAWalkByteByByte) {
  std::mt19937_64 random(5);
  for (uint32_t trial = 0; trial < 40; ++trial) {
    const Pool pool = MakePool(1 + static_cast<uint32_t>(random() % 6),
                               static_cast<uint32_t>(random() % 3),
                               1 + static_cast<uint32_t>(random() % 9));
    const std::vector<Place> places = WalkBlob(pool, 5);
    for (uint32_t i = 0; i < 100; ++i) {
      const uint64_t offset = random() % (places.size() + 1);
      const uint64_t length = random() % (places.size() - offset + 1);
      ASSERT_EQ(ChunksOfRange(pool, kBlob, offset, length),
                SlowChunks(places, offset, length))
          << ToString(pool.scheme) << " chunk size " << pool.chunk_size
          << " offset " << offset << " length " << length;
    }
  }
}

TEST(ChunksOfRange, CrossesFromOneStripeToTheNext) {
  const Pool pool = MakePool(2, 1, 100);
  EXPECT_THAT(ChunksOfRange(pool, kBlob, 150, 100),
              ElementsAre(ChunkRange{{kBlob, 0, 1}, 50, 50, 0},
                          ChunkRange{{kBlob, 1, 0}, 0, 50, 50}));
}

TEST(ChunksOfRange, GivesNothingForAnEmptyRange) {
  EXPECT_THAT(ChunksOfRange(MakePool(2, 1, 100), kBlob, 150, 0), IsEmpty());
}

TEST(ChunksOfRange, ReachesTheLastByteOfTheGreatestBlob) {
  const Pool pool = MakePool(kDataShardsMax, 8, kChunkBytesMax);
  const uint64_t last = BlobBytesMax(pool) - 1;
  const ChunkId chunk{kBlob, kStripesPerBlobMax - 1, kDataShardsMax - 1};
  EXPECT_THAT(ChunksOfRange(pool, kBlob, last, 1),
              ElementsAre(ChunkRange{chunk, kChunkBytesMax - 1, 1, 0}));
}

TEST(ChunksOfRangeDeath, RangesBeyondTheGreatestBlobAreCaught) {
  const Pool pool = MakePool(2, 1, 100);
  EXPECT_DEATH(ChunksOfRange(pool, kBlob, BlobBytesMax(pool), 1),
               "check failed");
  EXPECT_DEATH(ChunksOfRange(pool, kBlob, 1, ~uint64_t{0}), "check failed");
}

// Data shards take their bytes in order; parity covers the longest.
TEST(ShardBytes, AgreesWithDealingOutByteByByte) {
  for (uint32_t k = 1; k <= 5; ++k) {
    for (uint32_t chunk_size = 1; chunk_size <= 7; ++chunk_size) {
      const Pool pool = MakePool(k, 2, chunk_size);
      std::vector<uint64_t> dealt(k + 2, 0);
      for (uint64_t bytes = 1; bytes <= pool.stripe_bytes(); ++bytes) {
        const uint64_t shard = (bytes - 1) / chunk_size;
        ++dealt[shard];
        for (uint32_t i = k; i < k + 2; ++i) {
          dealt[i] = std::max(dealt[i], dealt[shard]);
        }
        for (uint32_t i = 0; i < k + 2; ++i) {
          ASSERT_EQ(ShardBytes(pool, i, bytes), dealt[i])
              << "shard " << i << " of " << bytes << " bytes, k " << k;
        }
      }
    }
  }
}

TEST(ShardBytes, ShortStripesHaveShortAndEmptyShards) {
  const Pool pool = MakePool(4, 2, 100);
  EXPECT_EQ(ShardBytes(pool, 0, 150), 100u);
  EXPECT_EQ(ShardBytes(pool, 1, 150), 50u);
  EXPECT_EQ(ShardBytes(pool, 2, 150), 0u);
  EXPECT_EQ(ShardBytes(pool, 4, 150), 100u);
  EXPECT_EQ(ShardBytes(pool, 5, 30), 30u);
}

TEST(ShardBytes, CopiesAreAsLongAsTheData) {
  Pool pool = MakePool(1, 2, 100);
  pool.scheme.kind = SchemeKind::kReplicate;
  for (uint32_t shard = 0; shard < 3; ++shard) {
    EXPECT_EQ(ShardBytes(pool, shard, 42), 42u);
  }
}

TEST(ShardBytesDeath, ShardsAndSizesOutOfRangeAreCaught) {
  const Pool pool = MakePool(4, 2, 100);
  EXPECT_DEATH(ShardBytes(pool, 6, 1), "check failed");
  EXPECT_DEATH(ShardBytes(pool, 0, 0), "check failed");
  EXPECT_DEATH(ShardBytes(pool, 0, 401), "check failed");
}

TEST(StripeStart, DoesNotWrapAt32Bits) {
  const Pool pool = MakePool(4, 2, 4u << 20);
  EXPECT_EQ(StripeStart(pool, 1000), uint64_t{1000} * 16 * kMiB);
}

}  // namespace
}  // namespace cairn::format
