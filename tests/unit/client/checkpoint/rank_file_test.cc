#include "client/checkpoint/rank_file.h"

#include <random>
#include <set>
#include <string>

#include "format/base/limits.h"
#include "format/safetensors/safetensors.h"
#include "gmock/gmock.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/client/checkpoint/rank_items.h"

namespace cairn::client {
namespace {

using format::Dtype;
using testing::DenseView;
using ::testing::ElementsAre;
using testing::IsOk;
using testing::RankItems;
using testing::StatusIs;

RankFile PlanOf(const RankItems& items) {
  absl::StatusOr<RankFile> file = PlanRankFile(items.items());
  EXPECT_OK(file);
  return file.ok() ? *std::move(file) : RankFile();
}

// What a reader of safetensors files sees.
format::SafetensorsHeader HeaderOf(const RankFile& file) {
  auto header = format::ParseSafetensorsHeader(format::AsBytes(file.header),
                                               file.size_bytes);
  EXPECT_OK(header);
  return header.ok() ? *std::move(header) : format::SafetensorsHeader();
}

std::vector<std::string> NamesOf(const format::SafetensorsHeader& header) {
  std::vector<std::string> names;
  for (const auto& entry : header.entries) names.push_back(entry.name);
  return names;
}

TEST(PlanRankFile, HeaderIsValidAndDescribesEverySegment) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 50; ++round) {
    const RankItems items = testing::RandomItems(&random);
    const RankFile file = PlanOf(items);
    const format::SafetensorsHeader header = HeaderOf(file);
    ASSERT_EQ(header.data_start, file.header.size());
    ASSERT_EQ(header.entries.size(), items.items().size());
    ASSERT_EQ(file.segments.size(), items.items().size() + 1);
    for (size_t i = 0; i < header.entries.size(); ++i) {
      const format::SafetensorsEntry& entry = header.entries[i];
      const RankSegment& segment = file.segments[i + 1];
      const RankItem& item = items.items()[static_cast<size_t>(segment.item)];
      ASSERT_EQ(segment.file_offset, header.data_start + entry.begin);
      ASSERT_EQ(segment.length, entry.end - entry.begin);
      ASSERT_EQ(segment.length, item.layout.bytes);
      ASSERT_EQ(entry.dtype, item.layout.dtype);
      ASSERT_EQ(entry.shape, item.layout.slice.shape);
      ASSERT_EQ(entry.name.substr(0, item.name.size()), item.name);
    }
  }
}

TEST(PlanRankFile, SegmentsFollowEachOtherAndHoldEachItemOnce) {
  std::mt19937_64 random(2);
  const RankItems items = testing::RandomItems(&random);
  const RankFile file = PlanOf(items);
  uint64_t end = 0;
  std::set<int> seen;
  for (const RankSegment& segment : file.segments) {
    EXPECT_EQ(segment.file_offset, end);
    end += segment.length;
    EXPECT_TRUE(seen.insert(segment.item).second) << segment.item;
  }
  EXPECT_EQ(end, file.size_bytes);
  EXPECT_EQ(file.segments.front().item, -1);
  EXPECT_EQ(*seen.rbegin(), static_cast<int>(items.items().size()) - 1);
}

TEST(PlanRankFile, DataAreaStartsAtAPageWhateverTheHeadersLength) {
  for (size_t length = 1; length < 200; length += 13) {
    RankItems items;
    items.AddTensor(DenseView(std::string(length, 'n'), Dtype::kU8, {1}), "x");
    items.AddOpaque(std::string(20 * length, 'o'), "y");
    const RankFile file = PlanOf(items);
    EXPECT_EQ(file.header.size() % format::kDiskAlignBytes, 0u) << length;
    EXPECT_EQ(HeaderOf(file).data_start % 4096, 0u);
  }
}

TEST(PlanRankFile, TensorsAreInTheReferencesOrder) {
  RankItems items;
  items.AddTensor(DenseView("b", Dtype::kU8, {1}), "1");
  items.AddTensor(DenseView("c", Dtype::kF32, {1}), "1234");
  items.AddTensor(DenseView("a", Dtype::kF32, {1}), "1234");
  items.AddTensor(DenseView("d", Dtype::kF64, {1}), "12345678");
  const RankFile file = PlanOf(items);
  EXPECT_THAT(NamesOf(HeaderOf(file)), ElementsAre("d", "a", "c", "b"));
  std::vector<int> order;
  for (const RankSegment& segment : file.segments) {
    order.push_back(segment.item);
  }
  EXPECT_THAT(order, ElementsAre(-1, 3, 2, 1, 0));
}

TEST(PlanRankFile, RankWithoutItemsHasAFileOfOnlyAHeader) {
  const RankFile file = PlanOf(RankItems());
  EXPECT_TRUE(HeaderOf(file).entries.empty());
  EXPECT_EQ(file.size_bytes, file.header.size());
  EXPECT_EQ(file.segments.size(), 1u);
}

TEST(PlanRankFile, FurtherSlicesOfATensorGetNumberedNames) {
  RankItems items;
  for (uint64_t row = 0; row < 3; ++row) {
    ViewShape view = DenseView("w", Dtype::kU8, {3, 2});
    view.offset = {row, 0};
    view.shape = {1, 2};
    items.AddTensor(view, "ab");
  }
  EXPECT_THAT(NamesOf(HeaderOf(PlanOf(items))), ElementsAre("w", "w#2", "w#3"));
}

TEST(PlanRankFile, TensorNamedAsAFurtherSliceGetsANameOfItsOwn) {
  RankItems items;
  items.AddTensor(DenseView("w", Dtype::kU8, {1}), "a");
  items.AddTensor(DenseView("w", Dtype::kU8, {1}), "b");
  items.AddTensor(DenseView("w#2", Dtype::kU8, {1}), "c");
  EXPECT_THAT(NamesOf(HeaderOf(PlanOf(items))),
              ElementsAre("w", "w#2", "w#2#2"));
}

TEST(PlanRankFile, TwoOpaqueEntriesOfOneNameAreRefused) {
  RankItems items;
  items.AddOpaque("step", "1");
  items.AddOpaque("step", "2");
  EXPECT_THAT(PlanRankFile(items.items()),
              StatusIs(absl::StatusCode::kInvalidArgument, "'step'"));
}

TEST(PlanRankFile, OpaqueEntryAndTensorOfOneNameAreRefusedInEitherOrder) {
  RankItems tensor_first;
  tensor_first.AddTensor(DenseView("w", Dtype::kU8, {1}), "a");
  tensor_first.AddOpaque("w", "b");
  EXPECT_THAT(PlanRankFile(tensor_first.items()),
              StatusIs(absl::StatusCode::kInvalidArgument, "'w'"));
  RankItems opaque_first;
  opaque_first.AddOpaque("w", "b");
  opaque_first.AddTensor(DenseView("w", Dtype::kU8, {1}), "a");
  EXPECT_THAT(PlanRankFile(opaque_first.items()),
              StatusIs(absl::StatusCode::kInvalidArgument, "'w'"));
}

TEST(PlanRankFile, OpaqueNameIsNotTakenByAFurtherSlice) {
  RankItems items;
  items.AddTensor(DenseView("w", Dtype::kU8, {1}), "a");
  items.AddTensor(DenseView("w", Dtype::kU8, {1}), "b");
  items.AddOpaque("w#2", "c");
  EXPECT_OK(PlanRankFile(items.items()));
}

TEST(PlanRankFile, ReservedNameIsRefused) {
  RankItems items;
  items.AddOpaque("__metadata__", "1");
  EXPECT_THAT(PlanRankFile(items.items()),
              StatusIs(absl::StatusCode::kInvalidArgument, "__metadata__"));
}

TEST(MakeManifestPart, SaysWhereEachItemLiesUnderItsTrueName) {
  std::mt19937_64 random(3);
  const RankItems items = testing::RandomItems(&random);
  const RankFile file = PlanOf(items);
  std::vector<uint64_t> checksums;
  for (size_t i = 0; i < items.items().size(); ++i) checksums.push_back(70 + i);
  const format::ManifestPart part =
      MakeManifestPart(5, file, items.items(), checksums);
  EXPECT_OK(format::ValidateManifestPart(part));
  EXPECT_EQ(part.rank, 5u);
  EXPECT_EQ(part.file_bytes, file.size_bytes);
  ASSERT_EQ(part.entries.size(), items.items().size());
  const std::string bytes = items.Serialise(file);
  for (const format::TensorEntry& entry : part.entries) {
    ASSERT_EQ(entry.parts.size(), 1u);
    const format::TensorPart& piece = entry.parts[0];
    const size_t index = piece.xxh3 - 70;
    const RankItem& item = items.items()[index];
    EXPECT_EQ(entry.name, item.name);
    EXPECT_EQ(entry.kind, item.kind);
    EXPECT_EQ(entry.dtype, item.layout.dtype);
    EXPECT_EQ(entry.shape, item.layout.global_shape);
    EXPECT_EQ(piece.rank, 5u);
    EXPECT_EQ(piece.offset, item.layout.slice.offset);
    EXPECT_EQ(piece.shape, item.layout.slice.shape);
    EXPECT_EQ(bytes.substr(piece.file_offset, piece.length),
              items.Content(index));
  }
}

}  // namespace
}  // namespace cairn::client
