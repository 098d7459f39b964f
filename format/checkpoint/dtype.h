// Tensor element types: all of safetensors, the sub-byte ones included.
//
// Units:   widths in bits, because F4 and F6 are narrower than a byte; sizes of
//          tensors in bytes. Sub-byte elements are packed without gaps.
// Threads: pure functions and constant tables; safe from anywhere.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace cairn::format {

// In the reference's order: safetensors files list tensors by descending
// dtype. Persisted in manifests: add at the end, never renumber.
enum class Dtype : uint8_t {
  kBool = 0,
  kF4,
  kF6E2M3,
  kF6E3M2,
  kU8,
  kI8,
  kF8E5M2,
  kF8E4M3,
  kF8E8M0,
  kF8E4M3Fnuz,
  kF8E5M2Fnuz,
  kI16,
  kU16,
  kF16,
  kBf16,
  kI32,
  kU32,
  kF32,
  kC64,
  kF64,
  kI64,
  kU64,
};
inline constexpr uint8_t kDtypeCount = 22;

uint32_t DtypeBits(Dtype dtype);          // 4 to 64.
std::string_view DtypeName(Dtype dtype);  // "BF16", "F8_E4M3", ...
std::optional<Dtype> ParseDtype(std::string_view name);  // Exact, upper case.
int DtypeOrder(Dtype dtype);  // Position in the reference's enum.

// Bytes of a dense tensor; a tensor without dimensions has one element.
// kInvalidArgument: the element count, multiplied from the first dimension on
// as the reference does, overflows on the way, even if a later dimension is 0
// (ValidationOverflow); or the bits are no multiple of 8 (MisalignedSlice).
absl::StatusOr<uint64_t> TensorBytes(Dtype dtype,
                                     absl::Span<const uint64_t> shape);

}  // namespace cairn::format
