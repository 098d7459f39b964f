#include "client/checkpoint/load_plan.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "format/checkpoint/slice.h"
#include "tests/support/random_boxes.h"
#include "tests/support/scattered_bytes.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/client/checkpoint/rank_items.h"
#include "tests/unit/client/checkpoint/tensor_memory.h"

namespace cairn::client {
namespace {

using format::Dtype;
using format::TensorEntry;
using testing::Box;
using testing::DenseView;
using testing::IsOk;
using testing::RandomBytes;
using testing::RankItems;
using testing::StatusIs;
using testing::TensorMemory;
using Shape = std::vector<uint64_t>;

// The bytes of a box of the dense tensor `all`, element by element.
std::string BytesOfBox(const std::string& all, const Shape& global_shape,
                       const Box& box, uint64_t item) {
  std::string bytes;
  for (const Shape& at : testing::AllElements(box.shape)) {
    uint64_t index = 0;
    for (size_t d = 0; d < at.size(); ++d) {
      index = index * global_shape[d] + box.offset[d] + at[d];
    }
    bytes += all.substr(index * item, item);
  }
  return bytes;
}

ViewShape ViewOf(Dtype dtype, const Shape& global_shape, const Box& box) {
  ViewShape view = DenseView("w", dtype, global_shape);
  view.offset = box.offset;
  view.shape = box.shape;
  return view;
}

// A set of one tensor that several ranks saved, each some of `boxes`.
struct SavedSet {
  std::vector<std::string> files;  // By rank.
  TensorEntry entry;
};

SavedSet Save(Dtype dtype, const Shape& global_shape, const std::string& all,
              const std::vector<std::vector<Box>>& boxes_by_rank,
              std::mt19937_64* random) {
  SavedSet set;
  std::vector<std::string> parts;
  for (const std::vector<Box>& boxes : boxes_by_rank) {
    RankItems items;
    items.AddOpaque("rank." + std::to_string(parts.size()), "state");
    for (const Box& box : boxes) {
      ViewShape view = ViewOf(dtype, global_shape, box);
      view.strides = testing::RandomStrides(box.shape, random);
      items.AddTensor(view, BytesOfBox(all, global_shape, box,
                                       format::DtypeBits(dtype) / 8));
    }
    const auto file = PlanRankFile(items.items());
    EXPECT_OK(file);
    set.files.push_back(items.Serialise(*file));
    const std::vector<uint64_t> checksums(items.items().size(), 1);
    parts.push_back(format::EncodeManifestPart(MakeManifestPart(
        static_cast<uint32_t>(parts.size()), *file, items.items(), checksums)));
  }
  const auto manifest =
      format::MergeManifest(static_cast<uint32_t>(parts.size()), parts);
  EXPECT_OK(manifest);
  auto entries = format::DecodeManifestBlock(manifest->blocks.at(0));
  EXPECT_OK(entries);
  set.entry = entries->back();  // "w" sorts behind "rank.N".
  EXPECT_EQ(set.entry.name, "w");
  return set;
}

// What reading the plan's runs does to memory.
void CarryOut(const LoadPlan& plan, const std::vector<std::string>& files) {
  for (const auto& [rank, runs] : plan) {
    for (const LoadRun& run : runs) {
      ASSERT_LE(run.file_offset + run.length, files.at(rank).size());
      std::memcpy(run.to, files[rank].data() + run.file_offset, run.length);
    }
  }
}

Shape RandomShape(std::mt19937_64* random) {
  Shape shape;
  for (uint64_t d = (*random)() % 4; d > 0; --d) {
    shape.push_back(1 + (*random)() % 9);
  }
  return shape;
}

Box RandomBox(const Shape& shape, std::mt19937_64* random) {
  Box box;
  for (const uint64_t dim : shape) {
    const uint64_t first = (*random)() % dim;
    box.offset.push_back(first);
    box.shape.push_back(1 + (*random)() % (dim - first));
  }
  return box;
}

TEST(AddToPlan, AnySliceOfAnyLayoutIsFilledExactly) {
  std::mt19937_64 random(1);
  const Dtype dtypes[] = {Dtype::kU8, Dtype::kBf16, Dtype::kF32, Dtype::kF64};
  for (int round = 0; round < 400; ++round) {
    const Dtype dtype = dtypes[random() % 4];
    const uint64_t item = format::DtypeBits(dtype) / 8;
    const Shape shape = RandomShape(&random);
    uint64_t elements = 1;
    for (const uint64_t dim : shape) elements *= dim;
    const std::string all = RandomBytes(elements * item, &random);
    // Cut at random, each piece on one rank or on two.
    std::vector<std::vector<Box>> boxes(1 + random() % 4);
    for (const Box& box :
         testing::RandomCover(shape, 1 + random() % 6, &random)) {
      const size_t rank = random() % boxes.size();
      boxes[rank].push_back(box);
      if (boxes.size() > 1 && random() % 2 == 0) {
        boxes[(rank + 1) % boxes.size()].push_back(box);
      }
    }
    const SavedSet set = Save(dtype, shape, all, boxes, &random);

    const Box wanted = RandomBox(shape, &random);
    ViewShape view = ViewOf(dtype, shape, wanted);
    view.strides = testing::RandomStrides(wanted.shape, &random);
    TensorMemory memory(view);
    LoadPlan plan;
    ASSERT_OK(
        AddToPlan(set.entry, memory.layout(), memory.data(), random(), &plan));
    EXPECT_EQ(PlanBytes(plan), memory.layout().bytes);
    SortPlan(&plan);
    CarryOut(plan, set.files);
    ASSERT_TRUE(memory.Dense() == BytesOfBox(all, shape, wanted, item))
        << "round " << round;
    ASSERT_TRUE(memory.GapsAreUntouched()) << "round " << round;
  }
}

// "w" of 4 x 2 bytes, rows 0-1 on rank 0 and rows 2-3 on rank 1.
TensorEntry TwoRanks() {
  TensorEntry entry;
  entry.name = "w";
  entry.shape = {4, 2};
  entry.parts = {{.rank = 0,
                  .file_offset = 100,
                  .length = 4,
                  .offset = {0, 0},
                  .shape = {2, 2}},
                 {.rank = 1,
                  .file_offset = 200,
                  .length = 4,
                  .offset = {2, 0},
                  .shape = {2, 2}}};
  return entry;
}

absl::Status PlanOf(const TensorEntry& entry, const ViewShape& view,
                    LoadPlan* plan, uint64_t seed = 0) {
  TensorMemory memory(view);
  return AddToPlan(entry, memory.layout(), memory.data(), seed, plan);
}

std::set<uint32_t> RanksOf(const LoadPlan& plan) {
  std::set<uint32_t> ranks;
  for (const auto& [rank, runs] : plan) ranks.insert(rank);
  return ranks;
}

TEST(AddToPlan, RanksThatTheSliceDoesNotTouchAreNotRead) {
  LoadPlan plan;
  ASSERT_OK(
      PlanOf(TwoRanks(), ViewOf(Dtype::kU8, {4, 2}, {{2, 0}, {1, 2}}), &plan));
  EXPECT_EQ(RanksOf(plan), (std::set<uint32_t>{1}));
  ASSERT_EQ(plan[1].size(), 1u);
  EXPECT_EQ(plan[1][0].file_offset, 200u);
  EXPECT_EQ(plan[1][0].length, 2u);
}

TEST(AddToPlan, SliceWithoutElementsReadsNothing) {
  LoadPlan plan;
  ASSERT_OK(
      PlanOf(TwoRanks(), ViewOf(Dtype::kU8, {4, 2}, {{4, 0}, {0, 2}}), &plan));
  EXPECT_EQ(PlanBytes(plan), 0u);
}

TEST(AddToPlan, SeveralTensorsShareAPlan) {
  LoadPlan plan;
  const ViewShape view = DenseView("w", Dtype::kU8, {4, 2});
  ASSERT_OK(PlanOf(TwoRanks(), view, &plan));
  ASSERT_OK(PlanOf(TwoRanks(), view, &plan));
  EXPECT_EQ(PlanBytes(plan), 16u);
}

// The whole of "w" on each of `ranks` ranks.
TensorEntry Replicated(uint32_t ranks) {
  TensorEntry entry;
  entry.name = "w";
  entry.shape = {8};
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    entry.parts.push_back(
        {.rank = rank, .length = 8, .offset = {0}, .shape = {8}});
  }
  return entry;
}

TEST(AddToPlan, ReadersSpreadOverTheCopiesOfASlice) {
  std::set<uint32_t> used;
  for (uint64_t seed = 0; seed < 8; ++seed) {
    LoadPlan plan;
    ASSERT_OK(
        PlanOf(Replicated(4), DenseView("w", Dtype::kU8, {8}), &plan, seed));
    EXPECT_EQ(PlanBytes(plan), 8u);  // From one of them only.
    ASSERT_EQ(plan.size(), 1u);
    used.insert(plan.begin()->first);
  }
  EXPECT_EQ(used, (std::set<uint32_t>{0, 1, 2, 3}));
}

TEST(AddToPlan, CopiesOfATensorWithoutDimensionsAreReadOnce) {
  TensorEntry entry = Replicated(3);
  entry.shape = {};
  for (format::TensorPart& part : entry.parts) {
    part.length = 1;
    part.offset = part.shape = {};
  }
  LoadPlan plan;
  ASSERT_OK(PlanOf(entry, DenseView("w", Dtype::kU8, {}), &plan, 7));
  EXPECT_EQ(PlanBytes(plan), 1u);
  EXPECT_EQ(RanksOf(plan), (std::set<uint32_t>{1}));
}

TEST(AddToPlan, OtherDtypeThanSavedIsRefused) {
  LoadPlan plan;
  EXPECT_THAT(PlanOf(TwoRanks(), DenseView("w", Dtype::kI8, {4, 2}), &plan),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "tensor 'w' was saved as U8, asked for as I8"));
  EXPECT_TRUE(plan.empty());
}

TEST(AddToPlan, OtherGlobalShapeThanSavedIsRefused) {
  LoadPlan plan;
  EXPECT_THAT(PlanOf(TwoRanks(), DenseView("w", Dtype::kU8, {2, 4}), &plan),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "global shape [4, 2], asked for with [2, 4]"));
  EXPECT_THAT(PlanOf(TwoRanks(), DenseView("w", Dtype::kU8, {4, 2, 1}), &plan),
              StatusIs(absl::StatusCode::kInvalidArgument, "[4, 2, 1]"));
  EXPECT_TRUE(plan.empty());
}

TEST(AddToPlan, SliceThatThePartsDoNotCoverIsDataLoss) {
  TensorEntry entry = TwoRanks();
  entry.parts.pop_back();
  LoadPlan plan;
  EXPECT_THAT(PlanOf(entry, DenseView("w", Dtype::kU8, {4, 2}), &plan),
              StatusIs(absl::StatusCode::kDataLoss,
                       "tensor 'w': the set holds 4 of the 8 bytes"));
  LoadPlan covered;
  EXPECT_OK(
      PlanOf(entry, ViewOf(Dtype::kU8, {4, 2}, {{0, 0}, {2, 2}}), &covered));
}

TEST(AddToPlan, SubByteTensorsAreCutAtWholeBytesOnly) {
  TensorEntry entry;
  entry.name = "w";
  entry.dtype = Dtype::kF4;
  entry.shape = {4, 3};
  entry.parts = {
      {.file_offset = 50, .length = 6, .offset = {0, 0}, .shape = {4, 3}}};
  LoadPlan plan;
  ASSERT_OK(PlanOf(entry, ViewOf(Dtype::kF4, {4, 3}, {{2, 0}, {2, 3}}), &plan));
  ASSERT_EQ(plan[0].size(), 1u);
  EXPECT_EQ(plan[0][0].file_offset, 53u);
  EXPECT_EQ(plan[0][0].length, 3u);
  EXPECT_THAT(
      PlanOf(entry, ViewOf(Dtype::kF4, {4, 3}, {{1, 0}, {2, 3}}), &plan),
      StatusIs(absl::StatusCode::kInvalidArgument, ""));
}

TEST(SortPlan, OrdersEachRanksRunsByFileOffset) {
  LoadPlan plan;
  plan[0] = {{30, 1, nullptr}, {10, 1, nullptr}, {20, 1, nullptr}};
  plan[2] = {{2, 5, nullptr}, {1, 5, nullptr}};
  EXPECT_EQ(PlanBytes(plan), 13u);
  SortPlan(&plan);
  EXPECT_EQ(plan[0][0].file_offset, 10u);
  EXPECT_EQ(plan[0][1].file_offset, 20u);
  EXPECT_EQ(plan[0][2].file_offset, 30u);
  EXPECT_EQ(plan[2][0].file_offset, 1u);
  EXPECT_EQ(PlanBytes(plan), 13u);
}

}  // namespace
}  // namespace cairn::client
