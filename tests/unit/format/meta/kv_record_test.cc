#include "format/meta/kv_record.h"

#include "format/checksum/block_checksum.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/golden.h"
#include "tests/support/status_matchers.h"

namespace cairn::format {
namespace {

using ::cairn::testing::StatusIs;

ClusterId SampleCluster() {
  ClusterId cluster;
  for (uint8_t i = 0; i < 16; ++i) {
    cluster.bytes[i] = static_cast<uint8_t>(0xf0 + i);
  }
  return cluster;
}

void Seal(std::string* bytes) {
  StoreLe(bytes->data() + kKvIdentityBytes - 8,
          Xxh3(AsBytes(*bytes).first(kKvIdentityBytes - 8)));
}

TEST(KvIdentity, RoundTrip) {
  const std::string bytes = EncodeKvIdentity(SampleCluster());
  ASSERT_EQ(bytes.size(), kKvIdentityBytes);
  const auto decoded = DecodeKvIdentity(AsBytes(bytes));
  ASSERT_OK(decoded);
  EXPECT_EQ(*decoded, SampleCluster());
}

TEST(KvIdentity, BytesAreThoseOfTheGoldenFile) {
  EXPECT_TRUE(EncodeKvIdentity(SampleCluster()) ==
              testing::ReadGolden("meta/kv_identity_v1.bin"));
}

TEST(KvIdentity, AnyFlippedBitIsDataLoss) {
  const std::string whole = EncodeKvIdentity(SampleCluster());
  for (size_t bit = 0; bit < whole.size() * 8; ++bit) {
    std::string bytes = whole;
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << (bit % 8)));
    EXPECT_THAT(DecodeKvIdentity(AsBytes(bytes)),
                StatusIs(absl::StatusCode::kDataLoss, ""))
        << "bit " << bit;
  }
}

TEST(KvIdentity, CorruptMagicIsDataLossEvenUnderAGoodChecksum) {
  std::string bytes = EncodeKvIdentity(SampleCluster());
  bytes[1] = 'X';
  Seal(&bytes);
  EXPECT_THAT(DecodeKvIdentity(AsBytes(bytes)),
              StatusIs(absl::StatusCode::kDataLoss, "not the identity"));
}

TEST(KvIdentity, CorruptLengthIsDataLoss) {
  const std::string whole = EncodeKvIdentity(SampleCluster());
  EXPECT_THAT(DecodeKvIdentity(AsBytes(whole).first(31)),
              StatusIs(absl::StatusCode::kDataLoss, "31 bytes"));
  EXPECT_THAT(DecodeKvIdentity(AsBytes(whole + "x")),
              StatusIs(absl::StatusCode::kDataLoss, "33 bytes"));
}

TEST(KvIdentity, NewerVersionIsRefusedAndKept) {
  std::string bytes = EncodeKvIdentity(SampleCluster());
  bytes[4] = static_cast<char>(kKvStoreVersion + 1);
  Seal(&bytes);
  EXPECT_THAT(DecodeKvIdentity(AsBytes(bytes)),
              StatusIs(absl::StatusCode::kFailedPrecondition, "newer"));
}

TEST(KvIdentity, CorruptChecksumIsDataLoss) {
  std::string bytes = EncodeKvIdentity(SampleCluster());
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  EXPECT_THAT(DecodeKvIdentity(AsBytes(bytes)),
              StatusIs(absl::StatusCode::kDataLoss, "checksum"));
}

TEST(KvSequence, RoundTripAndOtherLengthsAreDataLoss) {
  const std::string bytes = EncodeKvSequence(1ULL << 40);
  const auto decoded = DecodeKvSequence(AsBytes(bytes));
  ASSERT_OK(decoded);
  EXPECT_EQ(*decoded, 1ULL << 40);
  EXPECT_THAT(DecodeKvSequence(AsBytes(bytes).first(7)),
              StatusIs(absl::StatusCode::kDataLoss, "7 bytes"));
}

TEST(KvRecord, VersionComesFirstAndTheRestIsTheValue) {
  std::string stored(kKvVersionBytes, '\0');
  StoreLe(stored.data(), uint64_t{77});
  const auto empty = DecodeKvRecord(stored);
  ASSERT_OK(empty);
  EXPECT_EQ(empty->version, 77u);
  EXPECT_EQ(empty->value, "");
  const std::string longer = stored + "value";
  const auto record = DecodeKvRecord(longer);
  ASSERT_OK(record);
  EXPECT_EQ(record->value, "value");
}

TEST(KvRecord, TooShortOrWithoutVersionIsDataLoss) {
  EXPECT_THAT(DecodeKvRecord("1234567"),
              StatusIs(absl::StatusCode::kDataLoss, "no version"));
  EXPECT_THAT(DecodeKvRecord(std::string(12, '\0')),
              StatusIs(absl::StatusCode::kDataLoss, "version 0"));
}

}  // namespace
}  // namespace cairn::format
