// Slices of row-major tensors, and which bytes of one lie in another: the
// arithmetic of resharded loads.
//
// Offsets and lengths are in bits inside, so that sub-byte types work; results
// are in bytes, and a cut inside a byte is an error.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "format/checkpoint/dtype.h"

namespace cairn::format {

struct Slice {
  std::vector<uint64_t> offset;  // One per dimension, in the global tensor.
  std::vector<uint64_t> shape;
};

// A run of bytes that is contiguous both in `from` and in `to`.
struct CopyRun {
  uint64_t from_offset = 0;  // Bytes from the start of the dense `from` slice.
  uint64_t to_offset = 0;    // Bytes from the start of the dense `to` slice.
  uint64_t length = 0;
  friend bool operator==(const CopyRun&, const CopyRun&) = default;
};

// kInvalidArgument: other rank count, or outside the global shape.
absl::Status ValidateSlice(const std::vector<uint64_t>& global_shape,
                           const Slice& slice);

// The runs of the intersection of `from` and `to` (both slices of one global
// tensor), in ascending order of to_offset, neighbours merged. Empty: they do
// not meet. kInvalidArgument: a sub-byte type is cut inside a byte.
absl::StatusOr<std::vector<CopyRun>> IntersectRuns(Dtype dtype,
                                                   const Slice& from,
                                                   const Slice& to);

// How `ranks` ranks share a tensor: along its first dimension that is at least
// `ranks` long (else the longest), as evenly as possible; later ranks may get
// empty slices. Sub-byte types are cut at whole bytes.
Slice EvenSlice(Dtype dtype, const std::vector<uint64_t>& global_shape,
                uint32_t rank, uint32_t ranks);

}  // namespace cairn::format
