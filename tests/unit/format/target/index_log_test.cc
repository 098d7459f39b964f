#include "format/target/index_log.h"

#include "format/checksum/block_checksum.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace cairn::format {
namespace {

using ::cairn::testing::StatusIs;

std::vector<IndexOp> Ops() {
  return {{IndexOp::Kind::kPut, "key", std::string(4096, 'v')},
          {IndexOp::Kind::kErase, std::string("\0", 1), ""},
          {IndexOp::Kind::kPut, std::string(64, 'k'), ""}};
}

void Seal(std::string* frame) {
  const auto body_bytes = LoadLe<uint32_t>(frame->data() + 12);
  StoreLe(frame->data() + 24, Xxh3(AsBytes(*frame).subspan(40, body_bytes)));
  StoreLe(frame->data() + 32, Xxh3(AsBytes(*frame).first(32)));
}

TEST(IndexFrame, RoundTripWithWhateverFollows) {
  std::string bytes = EncodeIndexFrame(9, Ops());
  EXPECT_EQ(bytes.size(), 8192u);
  bytes += "what follows";
  const auto frame = DecodeIndexFrame(AsBytes(bytes));
  ASSERT_OK(frame);
  EXPECT_EQ(frame->sequence, 9u);
  EXPECT_EQ(frame->size_bytes, 8192u);
  EXPECT_EQ(frame->ops, Ops());
}

TEST(IndexFrame, CorruptMagicIsDataLoss) {
  std::string bytes = EncodeIndexFrame(1, Ops());
  bytes[0] = 'X';
  Seal(&bytes);
  EXPECT_THAT(DecodeIndexFrame(AsBytes(bytes)),
              StatusIs(absl::StatusCode::kDataLoss, "magic"));
}

TEST(IndexFrame, CorruptLengthIsDataLoss) {
  const std::string good = EncodeIndexFrame(1, Ops());
  for (uint64_t size = 0; size < good.size(); size += 13) {
    EXPECT_THAT(DecodeIndexFrame(AsBytes(good).first(size)),
                StatusIs(absl::StatusCode::kDataLoss, ""));
  }
  for (uint32_t body_bytes : {0u, (1u << 20) + 1, ~0u}) {
    std::string bytes = good;
    StoreLe(bytes.data() + 12, body_bytes);
    StoreLe(bytes.data() + 32, Xxh3(AsBytes(bytes).first(32)));
    EXPECT_THAT(DecodeIndexFrame(AsBytes(bytes)),
                StatusIs(absl::StatusCode::kDataLoss, "length"));
  }
}

TEST(IndexFrame, WrongLengthOfAnOperationUnderAGoodChecksumIsDataLoss) {
  const std::string good = EncodeIndexFrame(1, Ops());
  for (uint32_t value_bytes : {4095u, 4097u, ~0u}) {
    std::string bytes = good;
    StoreLe(bytes.data() + 43, value_bytes);
    Seal(&bytes);
    EXPECT_THAT(DecodeIndexFrame(AsBytes(bytes)),
                StatusIs(absl::StatusCode::kDataLoss, "operation"));
  }
}

TEST(IndexFrame, NewerVersionIsRefused) {
  std::string bytes = EncodeIndexFrame(1, Ops());
  StoreLe(bytes.data() + 8, uint32_t{2});
  Seal(&bytes);
  EXPECT_THAT(DecodeIndexFrame(AsBytes(bytes)),
              StatusIs(absl::StatusCode::kFailedPrecondition, "newer"));
}

TEST(IndexFrame, CorruptChecksumAndEveryOtherFlippedBitIsSeen) {
  const std::string good =
      EncodeIndexFrame(3, {{IndexOp::Kind::kPut, "key", "value"}});
  const uint64_t used = kIndexFrameHeaderBytes + 7 + 3 + 5;
  for (uint64_t bit = 0; bit < 8 * used; ++bit) {
    std::string bytes = good;
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << (bit % 8)));
    EXPECT_FALSE(DecodeIndexFrame(AsBytes(bytes)).ok()) << "bit " << bit;
  }
}

}  // namespace
}  // namespace cairn::format
