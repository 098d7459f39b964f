#include "format/meta/mark.h"

#include "format/checksum/block_checksum.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/golden.h"
#include "tests/support/status_matchers.h"

namespace cairn::format {
namespace {

using ::cairn::testing::StatusIs;

Mark Sample() {
  Mark mark;
  for (uint8_t i = 0; i < 16; ++i) mark.cluster.bytes[i] = i;
  mark.sequence = 0x0102030405060708;
  mark.generation = 9;
  mark.losses = 1;
  mark.lost_after = 40;
  mark.lost_until = 42;
  return mark;
}

// Makes changed bytes whole again, as only a writer could.
void Seal(std::string* bytes) {
  StoreLe(bytes->data() + kMarkBytes - 8,
          Xxh3(AsBytes(*bytes).first(kMarkBytes - 8)));
}

TEST(Mark, RoundTrip) {
  const std::string bytes = EncodeMark(Sample());
  ASSERT_EQ(bytes.size(), kMarkBytes);
  const absl::StatusOr<Mark> decoded = DecodeMark(AsBytes(bytes));
  ASSERT_OK(decoded);
  EXPECT_EQ(*decoded, Sample());
}

TEST(Mark, BytesAreThoseOfTheGoldenFile) {
  EXPECT_TRUE(EncodeMark(Sample()) == testing::ReadGolden("meta/mark_v1.bin"));
}

TEST(Mark, FieldsLieWhereTheDocumentSays) {
  const std::string bytes = EncodeMark(Sample());
  EXPECT_EQ(bytes.substr(0, 4), "CMRK");
  EXPECT_EQ(LoadLe<uint16_t>(bytes.data() + 4), kMarkVersion);
  EXPECT_EQ(bytes[8 + 15], 15);
  EXPECT_EQ(LoadLe<uint64_t>(bytes.data() + 24), Sample().sequence);
  EXPECT_EQ(LoadLe<uint64_t>(bytes.data() + 32), 9u);
  EXPECT_EQ(LoadLe<uint64_t>(bytes.data() + 40), 1u);
  EXPECT_EQ(LoadLe<uint64_t>(bytes.data() + 48), 40u);
  EXPECT_EQ(LoadLe<uint64_t>(bytes.data() + 56), 42u);
}

TEST(Mark, AnyFlippedBitIsDataLoss) {
  const std::string whole = EncodeMark(Sample());
  for (size_t bit = 0; bit < whole.size() * 8; ++bit) {
    std::string bytes = whole;
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << (bit % 8)));
    ASSERT_THAT(DecodeMark(AsBytes(bytes)),
                StatusIs(absl::StatusCode::kDataLoss, ""))
        << "bit " << bit;
  }
}

TEST(Mark, CorruptMagicIsDataLossEvenUnderAGoodChecksum) {
  std::string bytes = EncodeMark(Sample());
  bytes[0] = 'X';
  Seal(&bytes);
  EXPECT_THAT(DecodeMark(AsBytes(bytes)),
              StatusIs(absl::StatusCode::kDataLoss, "not a high-water mark"));
}

TEST(Mark, CorruptLengthIsDataLoss) {
  const std::string whole = EncodeMark(Sample());
  for (const size_t size : {size_t{0}, size_t{1}, size_t{4095}}) {
    EXPECT_THAT(DecodeMark(AsBytes(whole).first(size)),
                StatusIs(absl::StatusCode::kDataLoss, "bytes"));
  }
  EXPECT_THAT(DecodeMark(AsBytes(whole + "x")),
              StatusIs(absl::StatusCode::kDataLoss, "bytes"));
}

TEST(Mark, NewerVersionIsRefusedAndKept) {
  std::string bytes = EncodeMark(Sample());
  bytes[4] = static_cast<char>(kMarkVersion + 1);
  Seal(&bytes);
  EXPECT_THAT(DecodeMark(AsBytes(bytes)),
              StatusIs(absl::StatusCode::kFailedPrecondition, "newer"));
}

TEST(Mark, CorruptChecksumIsDataLoss) {
  std::string bytes = EncodeMark(Sample());
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  EXPECT_THAT(DecodeMark(AsBytes(bytes)),
              StatusIs(absl::StatusCode::kDataLoss, "checksum"));
}

TEST(Mark, ImpossibleFieldsAreDataLossEvenUnderAGoodChecksum) {
  for (const size_t at : {size_t{6}, size_t{48 + 7}, size_t{2000}}) {
    std::string bytes = EncodeMark(Sample());
    bytes[at] = 1;  // Reserved; lost_after past lost_until; padding.
    Seal(&bytes);
    EXPECT_THAT(DecodeMark(AsBytes(bytes)),
                StatusIs(absl::StatusCode::kDataLoss, "impossible"))
        << at;
  }
}

}  // namespace
}  // namespace cairn::format
