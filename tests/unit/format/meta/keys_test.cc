#include "format/meta/keys.h"

#include <set>

#include "tests/support/status_matchers.h"

namespace cairn::format {
namespace {

using ::cairn::testing::StatusIs;

TEST(KeysTest, KeyParsesBackIntoItsParts) {
  const auto parsed = ParseKey(DirentKey(InodeId(7), "name\xff"));
  ASSERT_OK(parsed);
  EXPECT_EQ(parsed->kind, KeyKind::kDirent);
  EXPECT_EQ(parsed->numbers[0], 7u);
  EXPECT_EQ(parsed->name, "name\xff");
  const auto piece = ParseKey(ManifestPieceKey(InodeId(1), 2, 3));
  ASSERT_OK(piece);
  EXPECT_EQ(piece->numbers, (std::array<uint64_t, 3>{1, 2, 3}));
  const PgId pg{PoolId(4), 5};
  const auto move = ParseKey(MoveKey(pg, 6));
  ASSERT_OK(move);
  EXPECT_EQ(move->kind, KeyKind::kMove);
  EXPECT_EQ(move->numbers, (std::array<uint64_t, 3>{4, 5, 6}));
  const auto chore = ParseKey(ChoreKey(TargetId(9), pg));
  ASSERT_OK(chore);
  EXPECT_EQ(chore->kind, KeyKind::kChore);
  EXPECT_EQ(chore->numbers, (std::array<uint64_t, 3>{9, 4, 5}));
}

TEST(KeysTest, KeysSortAsTheirNumbers) {
  const uint64_t numbers[] = {0, 1, 255, 256, 1ULL << 32, ~0ULL};
  for (size_t i = 0; i + 1 < std::size(numbers); ++i) {
    EXPECT_LT(InodeKey(InodeId(numbers[i])), InodeKey(InodeId(numbers[i + 1])));
    EXPECT_LT(ExtentKey(InodeId(5), numbers[i]),
              ExtentKey(InodeId(5), numbers[i + 1]));
  }
}

TEST(KeysTest, RangeHoldsExactlyTheKeysOfItsPrefix) {
  const KeyRange range = RangeOf(KeyKind::kDirent, {~0ULL});
  EXPECT_GE(DirentKey(InodeId(~0ULL), "a"), range.begin);
  EXPECT_LT(DirentKey(InodeId(~0ULL), std::string(255, '\xff')), range.end);
  EXPECT_LT(DirentKey(InodeId(~0ULL - 1), std::string(255, '\xff')),
            range.begin);
  EXPECT_LE(range.end, ExtentKey(InodeId(0), 0));
  const KeyRange all = RangeOf(KeyKind::kInode, {});
  EXPECT_LT(InodeKey(InodeId(~0ULL)), all.end);
}

TEST(KeysTest, DamagedKeysAreRefused) {
  EXPECT_THAT(ParseKey(""), StatusIs(absl::StatusCode::kDataLoss, "empty"));
  EXPECT_THAT(ParseKey("?12345678"),
              StatusIs(absl::StatusCode::kDataLoss, "letter"));
  std::string key = ExtentKey(InodeId(1), 2);
  key.pop_back();
  EXPECT_THAT(ParseKey(key), StatusIs(absl::StatusCode::kDataLoss, "short"));
  key = InodeKey(InodeId(1)) + "x";
  EXPECT_THAT(ParseKey(key), StatusIs(absl::StatusCode::kDataLoss, "much"));
  key = RangeOf(KeyKind::kDirent, {1}).begin;
  EXPECT_THAT(ParseKey(key), StatusIs(absl::StatusCode::kDataLoss, "missing"));
}

}  // namespace
}  // namespace cairn::format
