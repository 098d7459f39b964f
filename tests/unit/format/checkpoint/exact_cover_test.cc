#include "format/checkpoint/exact_cover.h"

#include <algorithm>
#include <numeric>
#include <random>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/random_boxes.h"

namespace cairn::format {
namespace {

using cairn::testing::AllElements;
using cairn::testing::Box;
using cairn::testing::Contains;
using cairn::testing::RandomCover;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAreArray;
using Shape = std::vector<uint64_t>;

std::optional<CoverProblem> Find(const Shape& shape,
                                 const std::vector<Box>& boxes) {
  std::vector<uint64_t> flat;
  for (const Box& box : boxes) {
    flat.insert(flat.end(), box.offset.begin(), box.offset.end());
    flat.insert(flat.end(), box.shape.begin(), box.shape.end());
  }
  std::vector<uint32_t> which(boxes.size());
  std::iota(which.begin(), which.end(), 0);
  return FindCoverProblem(shape, flat, which);
}

std::vector<uint32_t> Covering(const std::vector<Box>& boxes, const Shape& at) {
  std::vector<uint32_t> covering;
  for (uint32_t i = 0; i < boxes.size(); ++i) {
    if (Contains(boxes[i], at)) covering.push_back(i);
  }
  return covering;
}

// The check must agree with counting every element; if it finds a problem, the
// boxes it names must be those that cover the element it names.
void ExpectAsCounted(const Shape& shape, const std::vector<Box>& boxes) {
  const std::vector<Shape> elements = AllElements(shape);
  const bool exact = std::all_of(
      elements.begin(), elements.end(),
      [&](const Shape& at) { return Covering(boxes, at).size() == 1; });
  const auto problem = Find(shape, boxes);
  ASSERT_EQ(!problem.has_value(), exact);
  if (!problem) return;
  EXPECT_NE(problem->boxes.size(), 1u);
  EXPECT_THAT(problem->boxes,
              UnorderedElementsAreArray(Covering(boxes, problem->at)));
}

// One random change: remove, repeat, move, grow or shrink.
void Damage(const Shape& shape, std::vector<Box>* boxes,
            std::mt19937_64* random) {
  const size_t i = (*random)() % boxes->size();
  Box& box = (*boxes)[i];
  const size_t kind = (*random)() % 4;
  if (kind == 0) {
    boxes->erase(boxes->begin() + static_cast<ptrdiff_t>(i));
    return;
  }
  if (kind == 1 || shape.empty()) {
    const Box copy = box;
    boxes->push_back(copy);
    return;
  }
  const size_t d = (*random)() % shape.size();
  if (kind == 2) {
    box.offset[d] = (*random)() % shape[d];
    box.shape[d] = 1 + (*random)() % (shape[d] - box.offset[d]);
  } else if (box.shape[d] > 1) {
    --box.shape[d];
  }
}

TEST(ExactCover, AgreesWithCountingEveryElementOfRandomCuts) {
  constexpr uint64_t kSeed = 99;
  std::mt19937_64 random(kSeed);
  for (int round = 0; round < 2000; ++round) {
    SCOPED_TRACE(absl::StrCat("seed ", kSeed, ", round ", round));
    Shape shape(random() % 5);
    for (uint64_t& dim : shape) dim = 1 + random() % 5;
    std::vector<Box> boxes = RandomCover(shape, 1 + random() % 30, &random);
    ASSERT_FALSE(Find(shape, boxes));
    for (int change = 0; change < 3 && !boxes.empty(); ++change) {
      Damage(shape, &boxes, &random);
      ExpectAsCounted(shape, boxes);
      if (HasFailure()) return;
    }
  }
}

TEST(ExactCover, EqualVolumesDoNotHideAGapAndAnOverlap) {
  const auto problem = Find({4, 4}, {{{0, 0}, {2, 4}}, {{1, 0}, {2, 4}}});
  ASSERT_TRUE(problem);
}

TEST(ExactCover, NoBoxesLeaveAGapAtTheFirstElement) {
  const auto problem = Find({3, 3}, {});
  ASSERT_TRUE(problem);
  EXPECT_THAT(problem->boxes, IsEmpty());
  EXPECT_THAT(problem->at, ElementsAre(0, 0));
}

// Boxes around a hole, none of which can be cut off by one plane.
TEST(ExactCover, PinwheelIsACoverOnlyWithItsCentre) {
  std::vector<Box> pinwheel = {
      {{0, 0}, {1, 2}}, {{0, 2}, {2, 1}}, {{2, 1}, {1, 2}}, {{1, 0}, {2, 1}}};
  const auto problem = Find({3, 3}, pinwheel);
  ASSERT_TRUE(problem);
  EXPECT_THAT(problem->at, ElementsAre(1, 1));
  pinwheel.push_back({{1, 1}, {1, 1}});
  EXPECT_FALSE(Find({3, 3}, pinwheel));
}

TEST(ExactCover, HugeCoordinatesAreExact) {
  const uint64_t huge = uint64_t{1} << 60;
  EXPECT_FALSE(Find({huge}, {{{0}, {huge - 1}}, {{huge - 1}, {1}}}));
  const auto gap = Find({huge}, {{{0}, {huge - 2}}, {{huge - 1}, {1}}});
  ASSERT_TRUE(gap);
  EXPECT_THAT(gap->at, ElementsAre(huge - 2));
}

// 1,024 x 1,024 slices: what took other systems minutes (pytorch #163548).
TEST(ExactCover, MillionBoxesInAGridAreCheckedAndOneMovedIsFound) {
  constexpr uint64_t kSide = 1024;
  std::vector<uint64_t> boxes;
  std::vector<uint32_t> which;
  for (uint64_t i = 0; i < kSide * kSide; ++i) {
    boxes.insert(boxes.end(), {i / kSide * 4, i % kSide * 8, 4, 8});
    which.push_back(static_cast<uint32_t>(i));
  }
  const Shape shape = {kSide * 4, kSide * 8};
  EXPECT_FALSE(FindCoverProblem(shape, boxes, which));
  ++boxes[4 * (517 * kSide + 233)];  // Down by one, onto its neighbour.
  const auto problem = FindCoverProblem(shape, boxes, which);
  ASSERT_TRUE(problem);
  const bool gap = problem->boxes.empty();
  EXPECT_THAT(problem->at, ElementsAre(gap ? 517 * 4 : 518 * 4, 233 * 8));
}

}  // namespace
}  // namespace cairn::format
