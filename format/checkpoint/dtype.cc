#include "format/checkpoint/dtype.h"

#include <array>
#include <limits>

#include "format/base/status.h"

namespace cairn::format {
namespace {

struct DtypeInfo {
  Dtype dtype;
  uint8_t bits;
  std::string_view name;
};

// Indexed by the persisted value.
constexpr std::array<DtypeInfo, kDtypeCount> kDtypes = {{
    {Dtype::kBool, 8, "BOOL"},
    {Dtype::kF4, 4, "F4"},
    {Dtype::kF6E2M3, 6, "F6_E2M3"},
    {Dtype::kF6E3M2, 6, "F6_E3M2"},
    {Dtype::kU8, 8, "U8"},
    {Dtype::kI8, 8, "I8"},
    {Dtype::kF8E5M2, 8, "F8_E5M2"},
    {Dtype::kF8E4M3, 8, "F8_E4M3"},
    {Dtype::kF8E8M0, 8, "F8_E8M0"},
    {Dtype::kF8E4M3Fnuz, 8, "F8_E4M3FNUZ"},
    {Dtype::kF8E5M2Fnuz, 8, "F8_E5M2FNUZ"},
    {Dtype::kI16, 16, "I16"},
    {Dtype::kU16, 16, "U16"},
    {Dtype::kF16, 16, "F16"},
    {Dtype::kBf16, 16, "BF16"},
    {Dtype::kI32, 32, "I32"},
    {Dtype::kU32, 32, "U32"},
    {Dtype::kF32, 32, "F32"},
    {Dtype::kC64, 64, "C64"},
    {Dtype::kF64, 64, "F64"},
    {Dtype::kI64, 64, "I64"},
    {Dtype::kU64, 64, "U64"},
}};

constexpr bool TableIsInOrder() {
  for (size_t i = 0; i < kDtypes.size(); ++i) {
    if (static_cast<size_t>(kDtypes[i].dtype) != i) return false;
  }
  return true;
}
static_assert(TableIsInOrder());

const DtypeInfo& Info(Dtype dtype) {
  const auto index = static_cast<size_t>(dtype);
  CAIRN_CHECK(index < kDtypes.size());
  return kDtypes[index];
}

}  // namespace

uint32_t DtypeBits(Dtype dtype) { return Info(dtype).bits; }

std::string_view DtypeName(Dtype dtype) { return Info(dtype).name; }

std::optional<Dtype> ParseDtype(std::string_view name) {
  for (const DtypeInfo& info : kDtypes) {
    if (info.name == name) return info.dtype;
  }
  return std::nullopt;
}

// Today the persisted values are the reference's order. A type added at the
// end may belong elsewhere in it: then this becomes a column of the table.
int DtypeOrder(Dtype dtype) {
  CAIRN_CHECK(static_cast<size_t>(dtype) < kDtypes.size());
  return static_cast<int>(dtype);
}

absl::StatusOr<uint64_t> TensorBytes(Dtype dtype,
                                     absl::Span<const uint64_t> shape) {
  uint64_t bits = 0;
  uint64_t elements = 1;
  bool overflow = false;
  for (const uint64_t dim : shape) {
    overflow |= __builtin_mul_overflow(elements, dim, &elements);
  }
  overflow |=
      __builtin_mul_overflow(elements, uint64_t{DtypeBits(dtype)}, &bits);
  if (overflow) {
    return absl::InvalidArgumentError(
        "ValidationOverflow: the tensor's size in bits is over 2^64");
  }
  if (bits % 8 != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("MisalignedSlice: ", elements, " elements of ",
                     AbslText(DtypeName(dtype)), " are no whole bytes"));
  }
  return bits / 8;
}

}  // namespace cairn::format
