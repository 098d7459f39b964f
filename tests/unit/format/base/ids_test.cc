#include "format/base/ids.h"

#include <set>
#include <string>

#include "tests/support/status_matchers.h"

namespace cairn::format {
namespace {

using ::cairn::testing::StatusIs;

TEST(ClusterId, TextAndIdAreEachOthersInverse) {
  ClusterId id;
  for (uint8_t i = 0; i < 16; ++i) id.bytes[i] = static_cast<uint8_t>(i * 17);
  const std::string text = ToString(id);
  EXPECT_EQ(text, "00112233445566778899aabbccddeeff");
  const auto parsed = ParseClusterId(text);
  ASSERT_OK(parsed);
  EXPECT_EQ(*parsed, id);
  const auto upper = ParseClusterId("00112233445566778899AABBCCDDEEFF");
  ASSERT_OK(upper);
  EXPECT_EQ(*upper, id);
}

TEST(ClusterId, TextOfAnotherLengthOrAlphabetIsRefused) {
  for (const std::string& text :
       {std::string(), std::string(31, '0'), std::string(33, '0'),
        std::string(31, '0') + "g", std::string(31, '0') + "\xff",
        std::string(32, '\0'), " " + std::string(31, '0')}) {
    EXPECT_THAT(ParseClusterId(text),
                StatusIs(absl::StatusCode::kInvalidArgument, "32 hex digits"));
  }
}

TEST(BlobId, KeepsPoolAndSequenceApart) {
  constexpr uint64_t kSequenceMax = (uint64_t{1} << 48) - 1;
  const BlobId id = BlobId::Make(PoolId(0xffff), kSequenceMax);
  EXPECT_EQ(id.value, ~uint64_t{0});
  EXPECT_EQ(id.pool(), PoolId(0xffff));
  EXPECT_EQ(id.sequence(), kSequenceMax);
  const BlobId small = BlobId::Make(PoolId(1), 42);
  EXPECT_EQ(small.pool(), PoolId(1));
  EXPECT_EQ(small.sequence(), 42u);
  // A sequence that outgrew its field never reaches the pool's bits.
  EXPECT_EQ(BlobId::Make(PoolId(1), kSequenceMax + 1).pool(), PoolId(1));
}

TEST(Ids, OrderIsThatOfTheirFieldsFromTheLeft) {
  const BlobId low = BlobId::Make(PoolId(1), 9);
  const BlobId high = BlobId::Make(PoolId(2), 1);
  EXPECT_LT(low, high);
  EXPECT_LT((ChunkId{low, 7, 7}), (ChunkId{high, 0, 0}));
  EXPECT_LT((ChunkId{low, 1, 7}), (ChunkId{low, 2, 0}));
  EXPECT_LT((ChunkId{low, 1, 1}), (ChunkId{low, 1, 2}));
  EXPECT_LT((PgId{PoolId(1), 9}), (PgId{PoolId(2), 0}));
}

TEST(Ids, PrintAsTheirDocumentedText) {
  const BlobId blob = BlobId::Make(PoolId(1), 42);
  EXPECT_EQ(ToString(blob), "blob 1:42");
  EXPECT_EQ(ToString(PgId{PoolId(1), 7}), "pg 1.7");
  EXPECT_EQ(ToString(ChunkId{blob, 3, 0}), "chunk 1:42/3/0");
}

TEST(Mix64, IsOneToOneOnASampleAndKeepsItsKnownValues) {
  // The finalizer of SplitMix64: its first outputs from seed 0.
  constexpr uint64_t kGolden = 0x9e3779b97f4a7c15ULL;
  EXPECT_EQ(Mix64(kGolden), 0xe220a8397b1dcdafULL);
  EXPECT_EQ(Mix64(2 * kGolden), 0x6e789e6aa1b965f4ULL);
  EXPECT_EQ(Mix64(0), 0u);
  std::set<uint64_t> seen;
  for (uint64_t i = 0; i < 10'000; ++i) seen.insert(Mix64(i));
  EXPECT_EQ(seen.size(), 10'000u);
}

}  // namespace
}  // namespace cairn::format
