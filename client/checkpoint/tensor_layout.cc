#include "client/checkpoint/tensor_layout.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "format/base/limits.h"
#include "format/base/status.h"
#include "format/path/names.h"

namespace cairn::client {

namespace {

absl::Status Bad(const ViewShape& view, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat(
      "tensor '", format::EscapeForDisplay(view.name), "': ", what));
}

absl::Status CheckNames(const ViewShape& view) {
  if (view.name.size() > format::kTensorNameBytesMax) {
    return Bad(view, absl::StrCat("the name is longer than ",
                                  format::kTensorNameBytesMax, " bytes"));
  }
  if (!format::IsValidUtf8(view.name)) {
    return Bad(view, "the name is not valid UTF-8");
  }
  if (view.global_shape.size() > format::kTensorRankMax) {
    return Bad(view, absl::StrCat("more than ", format::kTensorRankMax,
                                  " dimensions"));
  }
  return absl::OkStatus();
}

// Collapses dimensions that are contiguous into the run, from the innermost.
// False: the offsets of some elements are over 2^63 bytes.
bool MakeRuns(const ViewShape& view, TensorLayout* layout) {
  const std::vector<uint64_t>& shape = layout->slice.shape;
  const int64_t item = format::DtypeBits(layout->dtype) / 8;
  uint64_t run_items = 1;
  size_t dim = shape.size();
  while (dim > 0 &&
         (shape[dim - 1] == 1 ||
          view.strides[dim - 1] == static_cast<int64_t>(run_items))) {
    run_items *= shape[dim - 1];
    --dim;
  }
  layout->run_bytes = run_items * static_cast<uint64_t>(item);
  int64_t lowest = 0;
  int64_t highest = static_cast<int64_t>(layout->run_bytes);
  for (size_t i = 0; i < dim; ++i) {
    if (shape[i] == 1) continue;  // Its stride may be anything.
    const auto steps = static_cast<int64_t>(shape[i] - 1);
    int64_t stride_bytes = 0;
    int64_t reach = 0;
    int64_t* const end = view.strides[i] < 0 ? &lowest : &highest;
    if (__builtin_mul_overflow(view.strides[i], item, &stride_bytes) ||
        __builtin_mul_overflow(stride_bytes, steps, &reach) ||
        __builtin_add_overflow(*end, reach, end)) {
      return false;
    }
    layout->outer_counts.push_back(shape[i]);
    layout->outer_strides_bytes.push_back(stride_bytes);
  }
  return true;
}

}  // namespace

absl::StatusOr<TensorLayout> MakeLayout(const ViewShape& view) {
  CAIRN_RETURN_IF_ERROR(CheckNames(view));
  TensorLayout layout;
  layout.dtype = view.dtype;
  layout.global_shape = view.global_shape;
  const size_t rank = view.global_shape.size();
  layout.slice.offset =
      view.offset.empty() ? std::vector<uint64_t>(rank, 0) : view.offset;
  layout.slice.shape = view.shape.empty() ? view.global_shape : view.shape;
  absl::Status fits = format::ValidateSlice(view.global_shape, layout.slice);
  if (!fits.ok()) return Bad(view, std::string(fits.message()));
  const auto global = format::TensorBytes(view.dtype, view.global_shape);
  if (!global.ok()) return Bad(view, std::string(global.status().message()));
  const auto bytes = format::TensorBytes(view.dtype, layout.slice.shape);
  if (!bytes.ok()) return Bad(view, std::string(bytes.status().message()));
  layout.bytes = *bytes;
  layout.run_bytes = *bytes;
  if (layout.bytes > 0 && !view.has_data) return Bad(view, "data is null");
  if (view.strides.empty() || layout.bytes == 0) return layout;
  if (view.strides.size() != rank) {
    return Bad(view, absl::StrCat(view.strides.size(), " strides for ", rank,
                                  " dimensions"));
  }
  if (format::DtypeBits(view.dtype) % 8 != 0) {
    return Bad(view, "sub-byte types must be dense: leave strides empty");
  }
  if (!MakeRuns(view, &layout)) return Bad(view, "the strides reach too far");
  return layout;
}

TensorLayout::Place TensorLayout::Find(uint64_t at) const {
  CAIRN_CHECK(at < bytes);
  Place place;
  uint64_t run = at / run_bytes;
  const uint64_t inside = at % run_bytes;
  for (size_t i = outer_counts.size(); i > 0; --i) {
    const uint64_t index = run % outer_counts[i - 1];
    run /= outer_counts[i - 1];
    place.memory_offset +=
        static_cast<int64_t>(index) * outer_strides_bytes[i - 1];
  }
  place.memory_offset += static_cast<int64_t>(inside);
  place.contiguous = run_bytes - inside;
  return place;
}

}  // namespace cairn::client
