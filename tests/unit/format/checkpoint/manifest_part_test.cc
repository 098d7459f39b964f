#include <algorithm>
#include <random>

#include "format/base/limits.h"
#include "format/checkpoint/manifest.h"
#include "gtest/gtest.h"
#include "tests/support/manifest_samples.h"
#include "tests/support/status_matchers.h"

namespace cairn::format {
namespace {

using cairn::testing::IsOk;
using cairn::testing::Opaque;
using cairn::testing::SamplePart;
using cairn::testing::SliceOf;
using cairn::testing::StatusIs;
using cairn::testing::Tensor;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

TEST(ManifestPart, EntriesAndSlicesInAnyOrderEncodeTheSame) {
  const std::string expected = EncodeManifestPart(SamplePart());
  std::mt19937_64 random(5);
  for (int round = 0; round < 20; ++round) {
    ManifestPart part = SamplePart();
    std::shuffle(part.entries.begin(), part.entries.end(), random);
    for (TensorEntry& entry : part.entries) {
      std::shuffle(entry.parts.begin(), entry.parts.end(), random);
    }
    EXPECT_EQ(EncodeManifestPart(part), expected);
  }
}

TEST(ManifestPart, EntriesOfOneNameBecomeOneEntry) {
  ManifestPart part = SamplePart();
  TensorEntry& weight = part.entries[1];
  TensorEntry other = weight;
  other.parts.erase(other.parts.begin());
  weight.parts.pop_back();
  part.entries.push_back(other);
  EXPECT_EQ(EncodeManifestPart(part), EncodeManifestPart(SamplePart()));
}

TEST(ManifestPart, RankWithoutTensorsRoundTrips) {
  ManifestPart part;
  part.rank = kRanksMax - 1;
  const auto decoded = DecodeManifestPart(EncodeManifestPart(part));
  ASSERT_OK(decoded);
  EXPECT_EQ(*decoded, part);
}

TEST(ManifestPart, LongNamesAndManyDimensionsRoundTrip) {
  ManifestPart part;
  part.file_bytes = 1 << 20;
  std::vector<uint64_t> ones(kTensorRankMax, 1);
  std::vector<uint64_t> zeros(kTensorRankMax, 0);
  TensorEntry entry =
      Tensor(std::string(kTensorNameBytesMax, 'n'), Dtype::kU8, ones);
  entry.parts = {SliceOf(entry, 0, zeros, ones)};
  part.entries = {entry};
  const auto decoded = DecodeManifestPart(EncodeManifestPart(part));
  ASSERT_OK(decoded);
  EXPECT_EQ(*decoded, part);
}

// What is wrong with a part that holds this entry.
absl::Status Check(const TensorEntry& entry) {
  ManifestPart part;
  part.file_bytes = 1 << 20;
  part.entries = {entry};
  return ValidateManifestPart(part);
}

TensorEntry GoodTensor() {
  TensorEntry entry = Tensor("t\n", Dtype::kF32, {4, 5});
  entry.parts = {SliceOf(entry, 0, {1, 0}, {2, 5})};
  return entry;
}

TEST(ManifestPart, SliceThatDoesNotFitItsTensorIsRefusedByName) {
  EXPECT_OK(Check(GoodTensor()));
  TensorEntry entry = GoodTensor();
  entry.parts[0].offset[0] = 3;
  EXPECT_THAT(Check(entry), StatusIs(kInvalid, "tensor \"t\\x0a\""));
  EXPECT_THAT(Check(entry), StatusIs(kInvalid, "not inside"));
  entry = GoodTensor();
  entry.parts[0].shape.pop_back();
  EXPECT_THAT(Check(entry), StatusIs(kInvalid, "offset"));
  entry = GoodTensor();
  entry.parts[0].length -= 1;
  EXPECT_THAT(Check(entry), StatusIs(kInvalid, "length 39"));
  entry = GoodTensor();
  entry.parts.push_back(entry.parts[0]);
  EXPECT_THAT(Check(entry), StatusIs(kInvalid, "twice"));
  entry = GoodTensor();
  entry.parts.clear();
  EXPECT_THAT(Check(entry), StatusIs(kInvalid, "no slice"));
}

TEST(ManifestPart, SliceOfAnotherRankOrBeyondTheFileIsRefused) {
  TensorEntry entry = GoodTensor();
  entry.parts[0].rank = 1;
  EXPECT_THAT(Check(entry), StatusIs(kInvalid, "rank 1"));
  entry = GoodTensor();
  entry.parts[0].file_offset = (1 << 20) - 39;
  EXPECT_THAT(Check(entry), StatusIs(kInvalid, "beyond its file"));
  entry.parts[0].file_offset = (1 << 20) - 40;
  EXPECT_OK(Check(entry));
  entry.parts[0].file_offset = ~uint64_t{0};
  EXPECT_THAT(Check(entry), StatusIs(kInvalid, "beyond its file"));
}

TEST(ManifestPart, LimitsOfNamesDimensionsAndRanksHold) {
  TensorEntry entry = GoodTensor();
  entry.name = std::string(kTensorNameBytesMax + 1, 'n');
  EXPECT_THAT(Check(entry), StatusIs(kInvalid, "name of 4097 bytes"));
  entry = GoodTensor();
  entry.shape = std::vector<uint64_t>(kTensorRankMax + 1, 1);
  EXPECT_THAT(Check(entry), StatusIs(kInvalid, "33 dimensions"));
  ManifestPart part;
  part.rank = kRanksMax;
  EXPECT_THAT(ValidateManifestPart(part), StatusIs(kInvalid, "rank"));
}

TEST(ManifestPart, ConflictingEntriesOfOneNameAreRefused) {
  ManifestPart part;
  part.file_bytes = 1 << 20;
  part.entries = {GoodTensor(), GoodTensor()};
  part.entries[1].dtype = Dtype::kI32;
  EXPECT_THAT(ValidateManifestPart(part), StatusIs(kInvalid, "two dtypes"));
}

TEST(ManifestPart, OpaqueBytesAreOneWholeVector) {
  EXPECT_OK(Check(Opaque("o", 0, 12)));
  EXPECT_OK(Check(Opaque("o", 0, 0)));
  TensorEntry entry = Opaque("o", 0, 12);
  entry.parts = {SliceOf(entry, 0, {0}, {11})};
  EXPECT_THAT(Check(entry), StatusIs(kInvalid, "opaque"));
  entry = GoodTensor();
  entry.kind = EntryKind::kOpaque;
  EXPECT_THAT(Check(entry), StatusIs(kInvalid, "opaque"));
}

}  // namespace
}  // namespace cairn::format
