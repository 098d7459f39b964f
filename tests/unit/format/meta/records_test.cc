#include "format/meta/records.h"

#include "absl/strings/escaping.h"
#include "format/meta/keys.h"
#include "tests/support/status_matchers.h"

namespace cairn::format {
namespace {

using ::cairn::testing::StatusIs;

std::string Key() { return DirentKey(InodeId(1), "a"); }

std::string Value() {
  store::DirectoryEntry entry;
  entry.set_inode(2);
  entry.set_type(1);
  return EncodeRecord(Key(), entry);
}

TEST(RecordsTest, RoundTripKeepsTheMessage) {
  const auto entry = DecodeRecord<store::DirectoryEntry>(Key(), Value());
  ASSERT_OK(entry);
  EXPECT_EQ(entry->inode(), 2u);
  EXPECT_EQ(entry->type(), 1u);
}

TEST(RecordsTest, ExampleOfTheFormatPageHasTheseBytes) {
  EXPECT_EQ(absl::BytesToHexString(Key()), "44000000000000000161");
  EXPECT_EQ(absl::BytesToHexString(Value()), "44010802100160ab8168");
}

TEST(RecordsTest, CorruptKindIsRefused) {
  std::string value = Value();
  value[0] = 'I';
  EXPECT_THAT(OpenRecord(Key(), value),
              StatusIs(absl::StatusCode::kDataLoss, "kind"));
}

TEST(RecordsTest, CorruptLengthIsRefused) {
  const std::string value = Value();
  for (size_t length = 0; length < value.size(); ++length) {
    EXPECT_THAT(OpenRecord(Key(), value.substr(0, length)),
                StatusIs(absl::StatusCode::kDataLoss, ""));
  }
  EXPECT_THAT(OpenRecord(Key(), value + "x"),
              StatusIs(absl::StatusCode::kDataLoss, "damaged"));
}

TEST(RecordsTest, NewerVersionIsRefusedAsNewer) {
  std::string value = Value();
  value[1] = static_cast<char>(kStoreVersion + 1);
  EXPECT_THAT(OpenRecord(Key(), value),
              StatusIs(absl::StatusCode::kFailedPrecondition, "newer"));
}

TEST(RecordsTest, EveryFlippedBitOfBodyAndChecksumIsFound) {
  const std::string value = Value();
  for (size_t i = 2; i < value.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string damaged = value;
      damaged[i] = static_cast<char>(damaged[i] ^ (1 << bit));
      EXPECT_THAT(OpenRecord(Key(), damaged),
                  StatusIs(absl::StatusCode::kDataLoss, "damaged"));
    }
  }
}

TEST(RecordsTest, ValueOfAnotherKeyIsRefused) {
  EXPECT_THAT(OpenRecord(DirentKey(InodeId(1), "b"), Value()),
              StatusIs(absl::StatusCode::kDataLoss, "damaged"));
}

TEST(RecordsTest, SealedBytesThatAreNoMessageAreRefused) {
  EXPECT_THAT(DecodeRecord<store::DirectoryEntry>(
                  Key(), SealRecord(Key(), "\xff\xff\xff")),
              StatusIs(absl::StatusCode::kDataLoss, "parse"));
}

}  // namespace
}  // namespace cairn::format
