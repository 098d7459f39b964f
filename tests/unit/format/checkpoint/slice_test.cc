#include "format/checkpoint/slice.h"

#include <map>
#include <random>

#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace cairn::format {
namespace {

using cairn::testing::IsOk;
using cairn::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Shape = std::vector<uint64_t>;

std::string Text(const Slice& slice) {
  return absl::StrCat("offset ", absl::StrJoin(slice.offset, ","), " shape ",
                      absl::StrJoin(slice.shape, ","));
}

uint64_t Volume(const Shape& shape) {
  uint64_t volume = 1;
  for (const uint64_t dim : shape) volume *= dim;
  return volume;
}

// Every element of `slice`: its place in the global tensor, in the order in
// which the dense slice holds them.
std::vector<Shape> Elements(const Slice& slice) {
  std::vector<Shape> elements;
  for (uint64_t i = 0; i < Volume(slice.shape); ++i) {
    Shape at = slice.offset;
    uint64_t rest = i;
    for (size_t d = slice.shape.size(); d-- > 0;) {
      at[d] += rest % slice.shape[d];
      rest /= slice.shape[d];
    }
    elements.push_back(at);
  }
  return elements;
}

// Brute force: (from bit, to bit) of each bit of each common element.
std::map<uint64_t, uint64_t> BitsByToOffset(Dtype dtype, const Slice& from,
                                            const Slice& to) {
  std::map<Shape, uint64_t> place;
  const std::vector<Shape> from_elements = Elements(from);
  for (uint64_t i = 0; i < from_elements.size(); ++i) {
    place[from_elements[i]] = i;
  }
  std::map<uint64_t, uint64_t> bits;
  const std::vector<Shape> to_elements = Elements(to);
  for (uint64_t i = 0; i < to_elements.size(); ++i) {
    const auto found = place.find(to_elements[i]);
    if (found == place.end()) continue;
    for (uint64_t bit = 0; bit < DtypeBits(dtype); ++bit) {
      bits[i * DtypeBits(dtype) + bit] = found->second * DtypeBits(dtype) + bit;
    }
  }
  return bits;
}

struct BitRun {
  uint64_t from, to, length;
};

// The longest runs that the brute-force map allows.
std::vector<BitRun> RunsOf(const std::map<uint64_t, uint64_t>& bits) {
  std::vector<BitRun> runs;
  for (const auto& [to, from] : bits) {
    if (!runs.empty() && runs.back().to + runs.back().length == to &&
        runs.back().from + runs.back().length == from) {
      ++runs.back().length;
    } else {
      runs.push_back({from, to, 1});
    }
  }
  return runs;
}

void ExpectAsBruteForce(Dtype dtype, const Slice& from, const Slice& to) {
  SCOPED_TRACE(absl::StrCat(AbslText(DtypeName(dtype)), " from ", Text(from),
                            " to ", Text(to)));
  std::vector<CopyRun> expected;
  bool whole_bytes = true;
  for (const BitRun& run : RunsOf(BitsByToOffset(dtype, from, to))) {
    whole_bytes &= (run.from | run.to | run.length) % 8 == 0;
    expected.push_back({run.from / 8, run.to / 8, run.length / 8});
  }
  const auto runs = IntersectRuns(dtype, from, to);
  if (whole_bytes) {
    ASSERT_OK(runs);
    EXPECT_EQ(*runs, expected);
  } else {
    EXPECT_THAT(runs, StatusIs(absl::StatusCode::kInvalidArgument,
                               "cut inside a byte"));
  }
}

class Randomly {
 public:
  explicit Randomly(uint64_t seed) : random_(seed) {}
  uint64_t Upto(uint64_t max) { return random_() % (max + 1); }
  Slice SliceOf(const Shape& global) {
    Slice slice{Shape(global.size()), Shape(global.size())};
    for (size_t d = 0; d < global.size(); ++d) {
      // Whole dimensions often, so that runs of all depths come up.
      if (Upto(2) == 0) {
        slice.shape[d] = global[d];
      } else {
        slice.offset[d] = Upto(global[d]);
        slice.shape[d] = Upto(global[d] - slice.offset[d]);
      }
    }
    return slice;
  }
  Shape ShapeOf(size_t dims, uint64_t longest) {
    Shape shape(dims);
    for (uint64_t& dim : shape) dim = Upto(longest);
    return shape;
  }

 private:
  std::mt19937_64 random_;
};

TEST(IntersectRuns, AgreesWithElementByElementCopyOnRandomSlices) {
  constexpr uint64_t kSeed = 20240607;
  Randomly randomly(kSeed);
  constexpr Dtype kTypes[] = {Dtype::kU8, Dtype::kBf16, Dtype::kF4,
                              Dtype::kF6E2M3};
  for (int round = 0; round < 4000; ++round) {
    SCOPED_TRACE(absl::StrCat("seed ", kSeed, ", round ", round));
    const size_t dims = randomly.Upto(5);
    const Shape global = randomly.ShapeOf(dims, dims > 3 ? 4 : 6);
    const Slice from = randomly.SliceOf(global);
    const Slice to = randomly.SliceOf(global);
    ExpectAsBruteForce(kTypes[randomly.Upto(3)], from, to);
    if (HasFailure()) return;
  }
}

TEST(IntersectRuns, WholeTensorIsOneRunHoweverManyDimensions) {
  const Slice whole{{0, 0, 0, 0, 0}, {2, 3, 4, 5, 6}};
  EXPECT_THAT(IntersectRuns(Dtype::kF32, whole, whole).value(),
              ElementsAre(CopyRun{0, 0, 2 * 3 * 4 * 5 * 6 * 4}));
}

TEST(IntersectRuns, ScalarIsOneRun) {
  const Slice scalar;
  EXPECT_THAT(IntersectRuns(Dtype::kF64, scalar, scalar).value(),
              ElementsAre(CopyRun{0, 0, 8}));
  EXPECT_THAT(IntersectRuns(Dtype::kF4, scalar, scalar),
              StatusIs(absl::StatusCode::kInvalidArgument, "inside a byte"));
}

TEST(IntersectRuns, ColumnsBecomeOneRunPerRow) {
  const Slice from{{0, 0}, {3, 10}};
  const Slice to{{1, 4}, {2, 2}};
  EXPECT_THAT(IntersectRuns(Dtype::kU8, from, to).value(),
              ElementsAre(CopyRun{14, 0, 2}, CopyRun{24, 2, 2}));
}

TEST(IntersectRuns, EmptyAndDisjointSlicesHaveNoRuns) {
  EXPECT_THAT(
      IntersectRuns(Dtype::kU8, {{0, 0}, {3, 0}}, {{0, 0}, {3, 3}}).value(),
      IsEmpty());
  EXPECT_THAT(
      IntersectRuns(Dtype::kU8, {{0, 0}, {3, 2}}, {{0, 2}, {3, 1}}).value(),
      IsEmpty());
}

TEST(IntersectRuns, OffsetsBeyondFourGibibytesAreExact) {
  const uint64_t rows = uint64_t{1} << 33;
  const Slice from{{0}, {rows}};
  const Slice to{{rows - 1}, {1}};
  EXPECT_THAT(IntersectRuns(Dtype::kF32, from, to).value(),
              ElementsAre(CopyRun{(rows - 1) * 4, 0, 4}));
}

TEST(IntersectRuns, SlicesOfOtherDimensionsOrOverTheNumberRangeAreRefused) {
  const uint64_t huge = ~uint64_t{0};
  EXPECT_THAT(IntersectRuns(Dtype::kU8, {{0}, {1}}, {{0, 0}, {1, 1}}),
              StatusIs(absl::StatusCode::kInvalidArgument, "dimensions"));
  EXPECT_THAT(IntersectRuns(Dtype::kU8, {{0}, {1, 1}}, {{0, 0}, {1, 1}}),
              StatusIs(absl::StatusCode::kInvalidArgument, "offset"));
  EXPECT_THAT(IntersectRuns(Dtype::kU8, {{2}, {huge}}, {{0}, {1}}),
              StatusIs(absl::StatusCode::kInvalidArgument, "2^64"));
  EXPECT_THAT(
      IntersectRuns(Dtype::kU8, {{0, 0}, {huge, huge}}, {{0, 0}, {1, 1}}),
      StatusIs(absl::StatusCode::kInvalidArgument, "overflows"));
}

TEST(ValidateSlice, InsideIsOkAndAnythingElseIsNot) {
  EXPECT_OK(ValidateSlice({4, 5}, {{0, 0}, {4, 5}}));
  EXPECT_OK(ValidateSlice({4, 5}, {{4, 5}, {0, 0}}));
  EXPECT_OK(ValidateSlice({}, {}));
  const auto refused = [](const Shape& global, const Slice& slice) {
    return ValidateSlice(global, slice).code() ==
           absl::StatusCode::kInvalidArgument;
  };
  EXPECT_TRUE(refused({4, 5}, {{0, 1}, {4, 5}}));
  EXPECT_TRUE(refused({4, 5}, {{0}, {4}}));
  EXPECT_TRUE(refused({4, 5}, {{0, 0}, {4}}));
  EXPECT_TRUE(refused({4}, {{~uint64_t{0}}, {2}}));
}

// The slices of all ranks, which must cut the tensor at whole bytes.
void ExpectExactCover(Dtype dtype, const Shape& global, uint32_t ranks) {
  SCOPED_TRACE(absl::StrCat(AbslText(DtypeName(dtype)), " ",
                            absl::StrJoin(global, ","), " on ", ranks));
  const uint64_t bytes = TensorBytes(dtype, global).value();
  std::vector<int> covered(bytes);
  const Slice whole{Shape(global.size()), global};
  int holders = 0;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    const auto slice = EvenSlice(dtype, global, rank, ranks);
    if (!slice) continue;
    ++holders;
    ASSERT_OK(ValidateSlice(global, *slice));
    const auto runs = IntersectRuns(dtype, *slice, whole);
    ASSERT_OK(runs);
    for (const CopyRun& run : *runs) {
      for (uint64_t i = 0; i < run.length; ++i) ++covered[run.to_offset + i];
    }
  }
  EXPECT_GE(holders, 1);
  EXPECT_THAT(covered, ::testing::Each(1));
}

TEST(EvenSlice, CoversEveryByteExactlyOnceForRandomShapesAndRanks) {
  constexpr uint64_t kSeed = 77;
  Randomly randomly(kSeed);
  constexpr Dtype kTypes[] = {Dtype::kU8, Dtype::kF32, Dtype::kF4,
                              Dtype::kF6E3M2};
  for (int round = 0; round < 3000; ++round) {
    SCOPED_TRACE(absl::StrCat("seed ", kSeed, ", round ", round));
    const Shape global = randomly.ShapeOf(randomly.Upto(4), 9);
    const Dtype dtype = kTypes[randomly.Upto(3)];
    if (!TensorBytes(dtype, global).ok()) continue;
    ExpectExactCover(dtype, global,
                     static_cast<uint32_t>(1 + randomly.Upto(12)));
    if (HasFailure()) return;
  }
}

TEST(EvenSlice, FirstDimensionThatIsLongEnoughIsCutAndSizesDifferByOne) {
  std::vector<uint64_t> sizes;
  for (uint32_t rank = 0; rank < 4; ++rank) {
    const auto slice = EvenSlice(Dtype::kF32, {3, 10, 50}, rank, 4);
    ASSERT_TRUE(slice);
    EXPECT_EQ(slice->shape[0], 3u);
    EXPECT_EQ(slice->shape[2], 50u);
    sizes.push_back(slice->shape[1]);
  }
  EXPECT_THAT(sizes, ElementsAre(3, 3, 2, 2));
}

TEST(EvenSlice, LaterRanksHoldNothingOfATensorShorterThanTheRanks) {
  EXPECT_TRUE(EvenSlice(Dtype::kF32, {2, 3}, 2, 5));
  EXPECT_FALSE(EvenSlice(Dtype::kF32, {2, 3}, 3, 5));
}

TEST(EvenSlice, ScalarAndEmptyTensorBelongToRankZeroAlone) {
  EXPECT_TRUE(EvenSlice(Dtype::kF32, {}, 0, 3));
  EXPECT_FALSE(EvenSlice(Dtype::kF32, {}, 1, 3));
  EXPECT_EQ(EvenSlice(Dtype::kF32, {0, 4}, 0, 3)->shape, Shape({0, 4}));
  EXPECT_FALSE(EvenSlice(Dtype::kF32, {0, 4}, 2, 3));
}

TEST(EvenSlice, SubByteTensorIsCutAtWholeBytesInsideARow) {
  // Five elements of 4 bits are no whole bytes, so rows go two at a time.
  EXPECT_EQ(EvenSlice(Dtype::kF4, {4, 5}, 1, 2)->shape, Shape({2, 5}));
  EXPECT_FALSE(EvenSlice(Dtype::kF4, {4, 5}, 2, 3));
}

}  // namespace
}  // namespace cairn::format
