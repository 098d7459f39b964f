#include <algorithm>
#include <map>
#include <random>

#include "format/base/limits.h"
#include "format/checkpoint/manifest.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/manifest_samples.h"
#include "tests/support/random_boxes.h"
#include "tests/support/status_matchers.h"

namespace cairn::format {
namespace {

using cairn::testing::Box;
using cairn::testing::IsOk;
using cairn::testing::Opaque;
using cairn::testing::RandomCover;
using cairn::testing::SliceOf;
using cairn::testing::StatusIs;
using cairn::testing::Tensor;
using ::testing::HasSubstr;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
using Entries = std::vector<TensorEntry>;

// The parts that ranks would commit to end up with `entries`.
std::vector<std::string> PartsOf(const Entries& entries, uint32_t world_size) {
  std::vector<ManifestPart> parts(world_size);
  for (uint32_t rank = 0; rank < world_size; ++rank) {
    parts[rank].rank = rank;
    parts[rank].file_bytes = uint64_t{1} << 30;
  }
  for (const TensorEntry& entry : entries) {
    for (const TensorPart& part : entry.parts) {
      TensorEntry mine = Tensor(entry.name, entry.dtype, entry.shape);
      mine.kind = entry.kind;
      mine.parts = {part};
      parts[part.rank].entries.push_back(std::move(mine));
    }
  }
  std::vector<std::string> encoded;
  for (const ManifestPart& part : parts) {
    encoded.push_back(EncodeManifestPart(part));
  }
  return encoded;
}

Entries AllEntries(const Manifest& manifest) {
  Entries entries;
  for (const std::string& block : manifest.blocks) {
    Entries decoded = DecodeManifestBlock(block).value();
    std::move(decoded.begin(), decoded.end(), std::back_inserter(entries));
  }
  return entries;
}

absl::StatusOr<Manifest> Merge(const Entries& entries, uint32_t world_size) {
  return MergeManifest(world_size, PartsOf(entries, world_size));
}

// A tensor cut at random, its pieces on random ranks, some on several.
TensorEntry RandomTensor(std::string name, uint32_t world_size,
                         std::mt19937_64* random) {
  std::vector<uint64_t> shape((*random)() % 4);
  for (uint64_t& dim : shape) dim = 1 + (*random)() % 12;
  TensorEntry entry = Tensor(std::move(name), Dtype::kBf16, shape);
  for (const Box& box : RandomCover(shape, 1 + (*random)() % 20, random)) {
    const uint32_t first = static_cast<uint32_t>((*random)() % world_size);
    const uint32_t copies = 1 + static_cast<uint32_t>((*random)() % 2);
    const uint64_t xxh3 = (*random)();
    for (uint32_t rank = first; rank < std::min(first + copies, world_size);
         ++rank) {
      entry.parts.push_back(SliceOf(entry, rank, box.offset, box.shape, xxh3));
    }
  }
  std::sort(entry.parts.begin(), entry.parts.end(),
            [](const TensorPart& a, const TensorPart& b) {
              return std::tie(a.offset, a.shape, a.rank) <
                     std::tie(b.offset, b.shape, b.rank);
            });
  return entry;
}

TEST(MergeManifest, RandomSetsComeBackWholeAndSorted) {
  constexpr uint64_t kSeed = 4711;
  std::mt19937_64 random(kSeed);
  for (int round = 0; round < 60; ++round) {
    SCOPED_TRACE(absl::StrCat("seed ", kSeed, ", round ", round));
    const auto world_size = static_cast<uint32_t>(1 + random() % 9);
    std::map<std::string, TensorEntry> by_name;
    for (int i = 0; i < 40; ++i) {
      const std::string name = absl::StrCat("layer.", random() % 60, ".w");
      by_name.try_emplace(name, RandomTensor(name, world_size, &random));
    }
    Entries expected;
    uint64_t bytes = 0;
    for (const auto& [name, entry] : by_name) {
      expected.push_back(entry);
      bytes += TensorBytes(entry.dtype, entry.shape).value();
    }
    std::vector<std::string> parts = PartsOf(expected, world_size);
    std::shuffle(parts.begin(), parts.end(), random);
    const auto manifest = MergeManifest(world_size, parts);
    ASSERT_OK(manifest);
    EXPECT_EQ(AllEntries(*manifest), expected);
    EXPECT_EQ(manifest->header.tensors, expected.size());
    EXPECT_EQ(manifest->header.tensor_bytes, bytes);
    EXPECT_EQ(manifest->header.file_bytes, world_size * (uint64_t{1} << 30));
    EXPECT_EQ(manifest->header.world_size, world_size);
  }
}

TEST(MergeManifest, BlocksAreAboutTheAimedSizeAndEveryNameIsFound) {
  Entries entries;
  for (int i = 10000; i < 30000; ++i) {
    TensorEntry entry = Tensor(absl::StrCat("t", i), Dtype::kU8, {8});
    entry.parts = {SliceOf(entry, 0, {0}, {8})};
    entries.push_back(entry);
  }
  const auto manifest = Merge(entries, 1);
  ASSERT_OK(manifest);
  ASSERT_GT(manifest->blocks.size(), 3u);
  for (const std::string& block : manifest->blocks) {
    EXPECT_LT(block.size(), kManifestBlockBytesAim + 100);
  }
  for (size_t i = 0; i < entries.size(); i += 777) {
    const auto index = FindBlock(manifest->header, entries[i].name);
    ASSERT_TRUE(index);
    const Entries found = DecodeManifestBlock(manifest->blocks[*index]).value();
    EXPECT_THAT(found, ::testing::Contains(entries[i]));
  }
  const auto header =
      DecodeManifestHeader(EncodeManifestHeader(manifest->header));
  ASSERT_OK(header);
  EXPECT_EQ(*header, manifest->header);
}

TEST(MergeManifest, SetWithoutTensorsHasNoBlocks) {
  const auto manifest = Merge({}, 3);
  ASSERT_OK(manifest);
  EXPECT_TRUE(manifest->blocks.empty());
  EXPECT_OK(DecodeManifestHeader(EncodeManifestHeader(manifest->header)));
}

TEST(MergeManifest, ScalarsEmptyTensorsAndOpaqueBytesAreKept) {
  TensorEntry empty = Tensor("empty", Dtype::kF32, {0, 4});
  empty.parts = {SliceOf(empty, 1, {0, 0}, {0, 4})};
  TensorEntry scalar = Tensor("scalar", Dtype::kF32, {});
  scalar.parts = {SliceOf(scalar, 0, {}, {}), SliceOf(scalar, 1, {}, {})};
  const Entries entries = {empty, Opaque("opaque", 1, 5), scalar};
  const auto manifest = Merge(entries, 2);
  ASSERT_OK(manifest);
  EXPECT_EQ(AllEntries(*manifest), entries);
}

TEST(MergeManifest, SlicesWithoutElementsAreDropped) {
  TensorEntry entry = Tensor("t", Dtype::kF32, {4});
  entry.parts = {SliceOf(entry, 0, {0}, {4})};
  TensorEntry with_empty = entry;
  with_empty.parts.push_back(SliceOf(entry, 1, {4}, {0}));
  with_empty.parts.push_back(SliceOf(entry, 0, {2}, {0}));
  const auto manifest = Merge({with_empty}, 2);
  ASSERT_OK(manifest);
  EXPECT_EQ(AllEntries(*manifest), Entries({entry}));
}

TEST(MergeManifest, GapIsRefusedWithTensorAndPlace) {
  TensorEntry entry = Tensor("layer.7", Dtype::kF32, {4, 6});
  entry.parts = {SliceOf(entry, 0, {0, 0}, {4, 3}),
                 SliceOf(entry, 1, {0, 3}, {3, 3})};
  EXPECT_THAT(Merge({entry}, 2), StatusIs(kInvalid, "tensor \"layer.7\""));
  EXPECT_THAT(Merge({entry}, 2),
              StatusIs(kInvalid, "no rank holds the element at [3,3]"));
}

TEST(MergeManifest, OverlapIsRefusedWithTensorRanksAndPlace) {
  TensorEntry entry = Tensor("layer.7", Dtype::kF32, {4, 6});
  entry.parts = {SliceOf(entry, 2, {0, 0}, {4, 4}),
                 SliceOf(entry, 1, {0, 3}, {4, 3})};
  EXPECT_THAT(Merge({entry}, 3), StatusIs(kInvalid, "tensor \"layer.7\""));
  EXPECT_THAT(Merge({entry}, 3),
              StatusIs(kInvalid, "ranks 2, 1 overlap at [0,3]"));
}

TEST(MergeManifest, OtherDtypeShapeOrKindIsRefusedWithBothRanks) {
  TensorEntry a = Tensor("t", Dtype::kF32, {4});
  a.parts = {SliceOf(a, 0, {0}, {4})};
  TensorEntry b = Tensor("t", Dtype::kBf16, {4});
  b.parts = {SliceOf(b, 1, {0}, {4})};
  EXPECT_THAT(
      Merge({a, b}, 2),
      StatusIs(kInvalid, "\"t\": rank 0 has F32 [4], rank 1 has BF16 [4]"));
  b = Tensor("t", Dtype::kF32, {4, 1});
  b.parts = {SliceOf(b, 1, {0, 0}, {4, 1})};
  EXPECT_THAT(Merge({a, b}, 2),
              StatusIs(kInvalid, "rank 0 has F32 [4], rank 1 has F32 [4,1]"));
  a = Tensor("t", Dtype::kU8, {4});
  a.parts = {SliceOf(a, 0, {0}, {4})};
  EXPECT_THAT(Merge({a, Opaque("t", 1, 4)}, 2),
              StatusIs(kInvalid, "rank 1 has 4 opaque bytes"));
}

TEST(MergeManifest, ReplicasWithOtherBytesAreRefusedWithBothRanks) {
  TensorEntry entry = Tensor("t", Dtype::kF32, {4});
  entry.parts = {SliceOf(entry, 0, {0}, {4}, 1), SliceOf(entry, 2, {0}, {4}, 1),
                 SliceOf(entry, 1, {0}, {4}, 2)};
  EXPECT_THAT(Merge({entry}, 3), StatusIs(kInvalid, "\"t\": ranks 0 and 1"));
}

TEST(MergeManifest, OpaqueBytesOfTwoRanksAreRefused) {
  EXPECT_THAT(Merge({Opaque("o", 0, 4), Opaque("o", 1, 4)}, 2),
              StatusIs(kInvalid, "opaque bytes of two ranks, 0 and 1"));
}

TEST(MergeManifest, MissingDoubledAndForeignRanksAreRefused) {
  std::vector<std::string> parts = PartsOf({}, 4);
  parts.erase(parts.begin() + 1);
  EXPECT_THAT(MergeManifest(4, parts),
              StatusIs(kInvalid, "1 ranks are missing, first of all 1"));
  parts.push_back(parts[0]);
  EXPECT_THAT(MergeManifest(4, parts), StatusIs(kInvalid, "parts of rank 0"));
  EXPECT_THAT(MergeManifest(3, PartsOf({}, 4)), StatusIs(kInvalid, "4 man"));
  parts = PartsOf({}, 4);
  EXPECT_THAT(MergeManifest(3, std::span(parts).subspan(1)),
              StatusIs(kInvalid, "rank 3 in a set of 3"));
  EXPECT_THAT(MergeManifest(0, {}), StatusIs(kInvalid, "0 ranks"));
}

TEST(MergeManifest, DamagedPartIsDataLoss) {
  std::vector<std::string> parts = PartsOf({Opaque("o", 1, 4)}, 2);
  parts[1].back() ^= 1;
  EXPECT_THAT(MergeManifest(2, parts),
              StatusIs(absl::StatusCode::kDataLoss, "manifest part 1"));
}

// Ranks that hold other tensors each (pipeline stages, experts) still merge in
// order of name.
TEST(MergeManifest, TensorsOfOneRankEachInterleave) {
  Entries entries;
  for (uint32_t i = 0; i < 1000; ++i) {
    TensorEntry entry = Tensor(absl::StrCat("e", 1000 + i), Dtype::kU8, {2});
    entry.parts = {SliceOf(entry, i % 17, {0}, {2})};
    entries.push_back(entry);
  }
  const auto manifest = Merge(entries, 17);
  ASSERT_OK(manifest);
  EXPECT_EQ(AllEntries(*manifest), entries);
}

TEST(MergeManifest, GridOfManySlicesOnManyRanksMerges) {
  constexpr uint32_t kSide = 128;
  TensorEntry entry = Tensor("grid", Dtype::kF32, {kSide * 2, kSide * 3});
  for (uint32_t i = 0; i < kSide * kSide; ++i) {
    entry.parts.push_back(SliceOf(
        entry, i % 64, {i / kSide * 2, i % kSide * uint64_t{3}}, {2, 3}));
  }
  auto manifest = Merge({entry}, 64);
  ASSERT_OK(manifest);
  EXPECT_EQ(AllEntries(*manifest), Entries({entry}));
  entry.parts.erase(entry.parts.begin() + 100 * kSide + 7);
  EXPECT_THAT(Merge({entry}, 64),
              StatusIs(kInvalid, "no rank holds the element at [200,21]"));
}

}  // namespace
}  // namespace cairn::format
