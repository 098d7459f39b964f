// Slices of row-major tensors, and which bytes of one lie in another: the
// arithmetic of resharded loads.
//
// Units:   offsets and shapes count elements; runs count bytes. Positions are
//          in bits inside, so that sub-byte types work; a cut inside a byte is
//          an error.
// Shapes:  row-major; a tensor without dimensions has one element; a dimension
//          of 0 is legal and makes the tensor empty.
// Threads: pure functions; safe from anywhere.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
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
// tensor), in ascending order of to_offset, as long as possible. Empty: they do
// not meet. Costs time and memory in proportion to the number of runs.
// kInvalidArgument: the slices have not the same number of dimensions, one ends
// over 2^64 or is larger than that, or a sub-byte type is cut inside a byte.
absl::StatusOr<std::vector<CopyRun>> IntersectRuns(Dtype dtype,
                                                   const Slice& from,
                                                   const Slice& to);

// How `ranks` ranks share a tensor: along its first dimension that is at least
// `ranks` long (else the longest, of which later ranks get nothing), as evenly
// as possible. Sub-byte types are cut at whole bytes, which may rule out a
// dimension. Every element is in exactly one rank's slice.
// nullopt: this rank holds nothing. An indivisible tensor (one without
// elements or without dimensions) is held, whole, by rank 0.
// Requires: rank < ranks, and a shape that TensorBytes() accepts.
std::optional<Slice> EvenSlice(Dtype dtype,
                               const std::vector<uint64_t>& global_shape,
                               uint32_t rank, uint32_t ranks);

}  // namespace cairn::format
