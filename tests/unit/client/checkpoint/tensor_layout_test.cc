#include "client/checkpoint/tensor_layout.h"

#include <limits>
#include <random>
#include <string>

#include "format/base/limits.h"
#include "tests/support/random_boxes.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/client/checkpoint/tensor_memory.h"

namespace cairn::client {
namespace {

using format::Dtype;
using testing::DenseView;
using testing::IsOk;
using testing::StatusIs;
using testing::TensorMemory;

constexpr absl::StatusCode kInvalid = absl::StatusCode::kInvalidArgument;

TensorLayout LayoutOf(const ViewShape& view) {
  absl::StatusOr<TensorLayout> layout = MakeLayout(view);
  EXPECT_OK(layout);
  return layout.ok() ? *std::move(layout) : TensorLayout();
}

ViewShape StridedView(Dtype dtype, std::vector<uint64_t> shape,
                      std::vector<int64_t> strides) {
  ViewShape view = DenseView("w", dtype, std::move(shape));
  view.strides = std::move(strides);
  return view;
}

TEST(MakeLayout, WithoutStridesTheWholeSliceIsOneRun) {
  const TensorLayout layout = LayoutOf(DenseView("w", Dtype::kBf16, {3, 5}));
  EXPECT_EQ(layout.bytes, 30u);
  EXPECT_EQ(layout.run_bytes, 30u);
  EXPECT_TRUE(layout.dense());
  EXPECT_EQ(layout.slice.offset, (std::vector<uint64_t>{0, 0}));
  EXPECT_EQ(layout.slice.shape, (std::vector<uint64_t>{3, 5}));
  EXPECT_EQ(layout.Find(7).memory_offset, 7);
  EXPECT_EQ(layout.Find(7).contiguous, 23u);
}

TEST(MakeLayout, BytesAreThoseOfTheSliceNotOfTheTensor) {
  ViewShape view = DenseView("w", Dtype::kF32, {8, 10});
  view.offset = {6, 0};
  view.shape = {2, 10};
  const TensorLayout layout = LayoutOf(view);
  EXPECT_EQ(layout.bytes, 80u);
  EXPECT_EQ(layout.global_shape, (std::vector<uint64_t>{8, 10}));
  EXPECT_EQ(layout.slice.offset, (std::vector<uint64_t>{6, 0}));
}

TEST(MakeLayout, PaddedRowsAreRunsOfOneRow) {
  const TensorLayout layout =
      LayoutOf(StridedView(Dtype::kF32, {3, 4}, {10, 1}));
  EXPECT_EQ(layout.bytes, 48u);
  EXPECT_EQ(layout.run_bytes, 16u);
  EXPECT_FALSE(layout.dense());
  EXPECT_EQ(layout.Find(15).memory_offset, 15);
  EXPECT_EQ(layout.Find(15).contiguous, 1u);
  EXPECT_EQ(layout.Find(16).memory_offset, 40);
  EXPECT_EQ(layout.Find(16).contiguous, 16u);
}

TEST(MakeLayout, TransposedTensorIsRunsOfOneElement) {
  const TensorLayout layout =
      LayoutOf(StridedView(Dtype::kF32, {3, 4}, {1, 3}));
  EXPECT_EQ(layout.run_bytes, 4u);
  EXPECT_EQ(layout.Find(4).memory_offset, 12);
  EXPECT_EQ(layout.Find(4).contiguous, 4u);
}

TEST(MakeLayout, StridesOfADenseTensorAreOneRun) {
  EXPECT_TRUE(
      LayoutOf(StridedView(Dtype::kF32, {2, 3, 4}, {12, 4, 1})).dense());
}

TEST(MakeLayout, StrideOfADimensionWithOneElementDoesNotMatter) {
  const int64_t any = std::numeric_limits<int64_t>::max();
  EXPECT_TRUE(
      LayoutOf(StridedView(Dtype::kF64, {1, 2, 1, 3}, {any, 3, -any, 1}))
          .dense());
  // Outside a run too.
  const TensorLayout layout =
      LayoutOf(StridedView(Dtype::kF64, {2, 1, 3}, {100, any, 2}));
  EXPECT_EQ(layout.run_bytes, 8u);
  EXPECT_EQ(layout.Find(24).memory_offset, 800);
}

TEST(MakeLayout, NegativeStridesWalkBackwards) {
  const TensorLayout layout =
      LayoutOf(StridedView(Dtype::kI16, {2, 3}, {-3, 1}));
  EXPECT_EQ(layout.run_bytes, 6u);
  EXPECT_EQ(layout.Find(6).memory_offset, -6);
  EXPECT_EQ(LayoutOf(StridedView(Dtype::kI16, {3}, {-1})).Find(5).memory_offset,
            -3);
}

TEST(MakeLayout, StrideOfZeroRepeatsTheElement) {
  const TensorLayout layout = LayoutOf(StridedView(Dtype::kU8, {3, 2}, {0, 1}));
  EXPECT_EQ(layout.Find(4).memory_offset, 0);
  EXPECT_EQ(layout.Find(5).memory_offset, 1);
}

TEST(MakeLayout, EveryByteIsFoundWhereTheStridesSay) {
  std::mt19937_64 random(1);
  const Dtype dtypes[] = {Dtype::kU8, Dtype::kBf16, Dtype::kF32, Dtype::kC64};
  for (int round = 0; round < 500; ++round) {
    ViewShape view;
    view.dtype = dtypes[random() % 4];
    for (uint64_t d = random() % 5; d > 0; --d) {
      view.global_shape.push_back(1 + random() % 5);
    }
    view.strides = testing::RandomStrides(view.global_shape, &random);
    const TensorMemory memory(view);
    const TensorLayout& layout = memory.layout();
    const std::vector<int64_t> places = memory.places();
    ASSERT_EQ(places.size(), layout.bytes);
    ASSERT_EQ(layout.bytes % layout.run_bytes, 0u);
    ASSERT_EQ(layout.dense(), layout.run_bytes == layout.bytes);
    for (uint64_t at = 0; at < layout.bytes; ++at) {
      const TensorLayout::Place place = layout.Find(at);
      ASSERT_EQ(place.contiguous, layout.run_bytes - at % layout.run_bytes);
      for (uint64_t i = 0; i < place.contiguous; ++i) {
        ASSERT_EQ(places[at + i], place.memory_offset + static_cast<int64_t>(i))
            << "round " << round << " byte " << at << "+" << i;
      }
    }
  }
}

TEST(MakeLayout, TensorWithoutDimensionsHasOneElement) {
  const TensorLayout layout = LayoutOf(DenseView("w", Dtype::kF64, {}));
  EXPECT_EQ(layout.bytes, 8u);
  EXPECT_EQ(layout.Find(3).memory_offset, 3);
  EXPECT_EQ(layout.Find(3).contiguous, 5u);
}

TEST(MakeLayout, TensorWithoutElementsNeedsNoData) {
  ViewShape view = StridedView(Dtype::kF32, {4, 0}, {1, 1});
  view.has_data = false;
  EXPECT_EQ(LayoutOf(view).bytes, 0u);
  view.strides = {};
  const TensorLayout layout = LayoutOf(view);
  EXPECT_EQ(layout.bytes, 0u);
  EXPECT_TRUE(layout.dense());
  EXPECT_DEATH((void)layout.Find(0), "at < bytes");
}

TEST(MakeLayout, SliceWithoutElementsNeedsNoData) {
  ViewShape view = DenseView("w", Dtype::kF32, {4, 4});
  view.offset = {4, 0};
  view.shape = {0, 4};
  view.has_data = false;
  EXPECT_EQ(LayoutOf(view).bytes, 0u);
}

TEST(MakeLayout, SubByteTypesArePackedAndDense) {
  EXPECT_EQ(LayoutOf(DenseView("w", Dtype::kF4, {3, 2})).bytes, 3u);
  EXPECT_EQ(LayoutOf(DenseView("w", Dtype::kF6E2M3, {4})).bytes, 3u);
  EXPECT_THAT(MakeLayout(DenseView("w", Dtype::kF4, {3})),
              StatusIs(kInvalid, "tensor 'w'"));
  EXPECT_THAT(MakeLayout(StridedView(Dtype::kF4, {2, 2}, {2, 1})),
              StatusIs(kInvalid, "must be dense"));
}

TEST(MakeLayout, SubByteSliceMustBeWholeBytes) {
  ViewShape view = DenseView("w", Dtype::kF4, {4, 4});
  view.shape = {1, 3};
  EXPECT_THAT(MakeLayout(view), StatusIs(kInvalid, "tensor 'w'"));
  view.shape = {2, 3};
  EXPECT_EQ(LayoutOf(view).bytes, 3u);
}

TEST(MakeLayout, OffsetsOverFourGibibytesAreExact) {
  const TensorLayout dense =
      LayoutOf(DenseView("w", Dtype::kF32, {1u << 20, 1u << 20}));
  EXPECT_EQ(dense.bytes, uint64_t{1} << 42);
  EXPECT_EQ(dense.Find((uint64_t{1} << 41) + 5).memory_offset,
            (int64_t{1} << 41) + 5);
  const int64_t row = (1 << 20) + 8;
  const TensorLayout padded =
      LayoutOf(StridedView(Dtype::kF32, {1u << 20, 1u << 20}, {row, 1}));
  const uint64_t last = (uint64_t{1} << 20) - 1;
  EXPECT_EQ(padded.run_bytes, uint64_t{4} << 20);
  EXPECT_EQ(padded.Find(padded.run_bytes * last + 7).memory_offset,
            4 * row * static_cast<int64_t>(last) + 7);
}

TEST(MakeLayout, SizeThatOverflowsIsRefused) {
  EXPECT_THAT(MakeLayout(DenseView("w", Dtype::kF32, {1ull << 40, 1ull << 40})),
              StatusIs(kInvalid, "tensor 'w'"));
  EXPECT_THAT(MakeLayout(DenseView("w", Dtype::kF32, {1ull << 60})),
              StatusIs(kInvalid, "tensor 'w'"));
}

TEST(MakeLayout, StridesThatReachOverTheAddressSpaceAreRefused) {
  const int64_t far = int64_t{1} << 62;
  EXPECT_THAT(MakeLayout(StridedView(Dtype::kF32, {2, 2}, {far, 1})),
              StatusIs(kInvalid, "tensor 'w'"));
  EXPECT_THAT(MakeLayout(StridedView(Dtype::kU8, {4, 2}, {-far, 1})),
              StatusIs(kInvalid, "tensor 'w'"));
  EXPECT_THAT(MakeLayout(StridedView(Dtype::kU8, {2, 2}, {far, far})),
              StatusIs(kInvalid, "tensor 'w'"));
  EXPECT_OK(MakeLayout(StridedView(Dtype::kU8, {2, 2}, {far, -far})));
}

TEST(MakeLayout, SliceOutsideTheTensorIsRefused) {
  ViewShape view = DenseView("w", Dtype::kF32, {4, 4});
  view.offset = {3, 0};
  view.shape = {2, 4};
  EXPECT_THAT(MakeLayout(view), StatusIs(kInvalid, "tensor 'w'"));
  view.offset = {std::numeric_limits<uint64_t>::max(), 0};
  EXPECT_THAT(MakeLayout(view), StatusIs(kInvalid, "tensor 'w'"));
}

TEST(MakeLayout, OtherNumberOfDimensionsIsRefused) {
  ViewShape view = DenseView("w", Dtype::kF32, {4, 4});
  view.offset = {0};
  EXPECT_THAT(MakeLayout(view), StatusIs(kInvalid, "tensor 'w'"));
  view.offset = {};
  view.shape = {4, 4, 1};
  EXPECT_THAT(MakeLayout(view), StatusIs(kInvalid, "tensor 'w'"));
  EXPECT_THAT(MakeLayout(StridedView(Dtype::kF32, {4, 4}, {1})),
              StatusIs(kInvalid, "1 strides for 2 dimensions"));
  EXPECT_THAT(MakeLayout(StridedView(Dtype::kF32, {}, {1})),
              StatusIs(kInvalid, "1 strides for 0 dimensions"));
}

TEST(MakeLayout, ElementsWithoutDataAreRefused) {
  ViewShape view = DenseView("w", Dtype::kF32, {4});
  view.has_data = false;
  EXPECT_THAT(MakeLayout(view), StatusIs(kInvalid, "data is null"));
}

TEST(MakeLayout, NamesBeyondTheLimitsAreRefused) {
  using format::kTensorNameBytesMax;
  const std::string longest(kTensorNameBytesMax, 'a');
  EXPECT_OK(MakeLayout(DenseView(longest, Dtype::kU8, {1})));
  EXPECT_OK(MakeLayout(DenseView("", Dtype::kU8, {1})));
  EXPECT_THAT(MakeLayout(DenseView(longest + "a", Dtype::kU8, {1})),
              StatusIs(kInvalid, "the name is longer than"));
  EXPECT_THAT(MakeLayout(DenseView("w\xff", Dtype::kU8, {1})),
              StatusIs(kInvalid, "not valid UTF-8"));
}

TEST(MakeLayout, MoreDimensionsThanTheLimitAreRefused) {
  const std::vector<uint64_t> most(format::kTensorRankMax, 1);
  std::vector<uint64_t> more = most;
  more.push_back(1);
  EXPECT_OK(MakeLayout(DenseView("w", Dtype::kU8, most)));
  EXPECT_THAT(MakeLayout(DenseView("w", Dtype::kU8, more)),
              StatusIs(kInvalid, "dimensions"));
}

}  // namespace
}  // namespace cairn::client
