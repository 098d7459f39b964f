// How a (possibly strided) slice lies in memory, as runs of bytes in the order
// of its dense row-major form.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "format/checkpoint/dtype.h"
#include "format/checkpoint/slice.h"

namespace cairn::client {

// A validated view; offset, shape and strides filled in.
struct TensorLayout {
  format::Dtype dtype = format::Dtype::kU8;
  std::vector<uint64_t> global_shape;
  format::Slice slice;
  uint64_t bytes = 0;      // Dense bytes of the slice.
  uint64_t run_bytes = 0;  // Contiguous in memory; bytes is a multiple of it.
  // Outer dimensions, slowest first: how often, and how far apart in bytes.
  std::vector<uint64_t> outer_counts;
  std::vector<int64_t> outer_strides_bytes;

  bool dense() const { return run_bytes == bytes; }
  // Memory offset, from the view's data pointer, of dense byte `at`, and how
  // many bytes are contiguous from there.
  struct Place {
    int64_t memory_offset = 0;
    uint64_t contiguous = 0;
  };
  Place Find(uint64_t at) const;  // at < bytes (checked).
};

struct ViewShape {
  std::string name;
  format::Dtype dtype;
  std::vector<uint64_t> global_shape;
  std::vector<uint64_t> offset;  // Empty: zeros.
  std::vector<uint64_t> shape;   // Empty: global_shape.
  std::vector<int64_t> strides;  // Empty: dense.
  bool has_data = false;
};

// kInvalidArgument: names the tensor and what does not fit.
absl::StatusOr<TensorLayout> MakeLayout(const ViewShape& view);

}  // namespace cairn::client
