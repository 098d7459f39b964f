#include "format/checkpoint/dtype.h"

#include <set>
#include <string>

#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace cairn::format {
namespace {

using cairn::testing::StatusIs;

TEST(Dtype, EveryNameParsesToItsTypeAndIsUnique) {
  std::set<std::string_view> names;
  for (uint8_t i = 0; i < kDtypeCount; ++i) {
    const auto dtype = static_cast<Dtype>(i);
    names.insert(DtypeName(dtype));
    EXPECT_EQ(ParseDtype(DtypeName(dtype)), dtype);
  }
  EXPECT_EQ(names.size(), kDtypeCount);
}

TEST(Dtype, NamesOfOtherCaseAndUnknownOnesDoNotParse) {
  EXPECT_EQ(ParseDtype("f32"), std::nullopt);
  EXPECT_EQ(ParseDtype("F32 "), std::nullopt);
  EXPECT_EQ(ParseDtype(""), std::nullopt);
  EXPECT_EQ(ParseDtype("F128"), std::nullopt);
}

TEST(Dtype, WidthInTheNameIsTheWidthInBits) {
  for (uint8_t i = 0; i < kDtypeCount; ++i) {
    const auto dtype = static_cast<Dtype>(i);
    if (dtype == Dtype::kBool) continue;
    const std::string name(DtypeName(dtype));
    const size_t digit = name.find_first_of("0123456789");
    EXPECT_EQ(DtypeBits(dtype), std::stoul(name.substr(digit))) << name;
  }
  EXPECT_EQ(DtypeBits(Dtype::kBool), 8u);
}

TEST(TensorBytes, ScalarHasOneElementAndEmptyTensorNone) {
  EXPECT_EQ(TensorBytes(Dtype::kF64, {}).value(), 8u);
  EXPECT_EQ(TensorBytes(Dtype::kF64, {3, 0, 5}).value(), 0u);
  EXPECT_EQ(TensorBytes(Dtype::kBf16, {3, 5}).value(), 30u);
}

TEST(TensorBytes, SubByteTypesCountWholeBytesOnly) {
  EXPECT_EQ(TensorBytes(Dtype::kF4, {4}).value(), 2u);
  EXPECT_EQ(TensorBytes(Dtype::kF6E2M3, {4}).value(), 3u);
  EXPECT_THAT(TensorBytes(Dtype::kF4, {3}),
              StatusIs(absl::StatusCode::kInvalidArgument, "MisalignedSlice"));
  EXPECT_THAT(TensorBytes(Dtype::kF6E3M2, {2}),
              StatusIs(absl::StatusCode::kInvalidArgument, "MisalignedSlice"));
}

TEST(TensorBytes, OverflowIsAnErrorEvenBeforeAnEmptyDimension) {
  const uint64_t big = uint64_t{1} << 32;
  EXPECT_THAT(
      TensorBytes(Dtype::kU8, {big, big}),
      StatusIs(absl::StatusCode::kInvalidArgument, "ValidationOverflow"));
  EXPECT_THAT(
      TensorBytes(Dtype::kU8, {big, big, 0}),
      StatusIs(absl::StatusCode::kInvalidArgument, "ValidationOverflow"));
  EXPECT_THAT(
      TensorBytes(Dtype::kU64, {uint64_t{1} << 58}),
      StatusIs(absl::StatusCode::kInvalidArgument, "ValidationOverflow"));
  EXPECT_EQ(TensorBytes(Dtype::kU8, {0, big, big}).value(), 0u);
  EXPECT_EQ(TensorBytes(Dtype::kU8, {big * (big >> 4)}).value(),
            uint64_t{1} << 60);
}

}  // namespace
}  // namespace cairn::format
