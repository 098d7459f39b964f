#include "format/checkpoint/slice.h"

#include <algorithm>
#include <numeric>
#include <string>

#include "absl/strings/str_join.h"
#include "format/base/status.h"

namespace cairn::format {
namespace {

std::string DebugText(const std::vector<uint64_t>& numbers) {
  return absl::StrCat("[", absl::StrJoin(numbers, ","), "]");
}

// What IntersectRuns walks: along dimensions before `run_dim` one step a time,
// everything from it on is one run.
struct Walk {
  std::vector<uint64_t> extent;       // Of the intersection.
  std::vector<uint64_t> from_stride;  // In bits.
  std::vector<uint64_t> to_stride;
  uint64_t from_bit = 0;  // Of the intersection's first element.
  uint64_t to_bit = 0;
  uint64_t run_bits = 0;
  size_t run_dim = 0;
  bool empty = false;
};

// Row-major strides, in bits, of a dense slice without empty dimensions.
absl::StatusOr<std::vector<uint64_t>> BitStrides(
    Dtype dtype, const std::vector<uint64_t>& shape) {
  std::vector<uint64_t> strides(shape.size());
  uint64_t stride = DtypeBits(dtype);
  for (size_t i = shape.size(); i-- > 0;) {
    strides[i] = stride;
    if (__builtin_mul_overflow(stride, shape[i], &stride)) {
      return absl::InvalidArgumentError(
          absl::StrCat("slice of shape ", DebugText(shape), " overflows"));
    }
  }
  return strides;
}

absl::Status CheckBounds(const Slice& slice) {
  if (slice.offset.size() != slice.shape.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("slice has offset ", DebugText(slice.offset),
                     " but shape ", DebugText(slice.shape)));
  }
  for (size_t i = 0; i < slice.shape.size(); ++i) {
    uint64_t end = 0;
    if (__builtin_add_overflow(slice.offset[i], slice.shape[i], &end)) {
      return absl::InvalidArgumentError("slice ends over 2^64");
    }
  }
  return absl::OkStatus();
}

bool IsEmpty(const Slice& slice) {
  return std::find(slice.shape.begin(), slice.shape.end(), 0) !=
         slice.shape.end();
}

absl::StatusOr<Walk> PlanWalk(Dtype dtype, const Slice& from, const Slice& to) {
  const size_t dims = from.shape.size();
  Walk walk;
  walk.empty = IsEmpty(from) || IsEmpty(to);
  if (walk.empty) return walk;
  CAIRN_ASSIGN_OR_RETURN(walk.from_stride, BitStrides(dtype, from.shape));
  CAIRN_ASSIGN_OR_RETURN(walk.to_stride, BitStrides(dtype, to.shape));
  walk.extent.resize(dims);
  for (size_t i = 0; i < dims; ++i) {
    const uint64_t begin = std::max(from.offset[i], to.offset[i]);
    const uint64_t end =
        std::min(from.offset[i] + from.shape[i], to.offset[i] + to.shape[i]);
    walk.empty |= begin >= end;
    if (walk.empty) return walk;
    walk.extent[i] = end - begin;
    walk.from_bit += (begin - from.offset[i]) * walk.from_stride[i];
    walk.to_bit += (begin - to.offset[i]) * walk.to_stride[i];
  }
  // A run goes on over dimension d if all dimensions after it are whole in both
  // slices. It cannot be longer: two runs touch in both slices only then.
  size_t d = dims;
  while (d > 0) {
    --d;
    if (walk.extent[d] != from.shape[d] || walk.extent[d] != to.shape[d]) break;
  }
  walk.run_dim = d;
  walk.run_bits =
      dims == 0 ? DtypeBits(dtype) : walk.extent[d] * walk.from_stride[d];
  return walk;
}

// Moves to the next run; false after the last.
bool Step(const Walk& walk, std::vector<uint64_t>* index, uint64_t* from_bit,
          uint64_t* to_bit) {
  for (size_t d = walk.run_dim; d-- > 0;) {
    *from_bit += walk.from_stride[d];
    *to_bit += walk.to_stride[d];
    if (++(*index)[d] < walk.extent[d]) return true;
    *from_bit -= walk.from_stride[d] * walk.extent[d];
    *to_bit -= walk.to_stride[d] * walk.extent[d];
    (*index)[d] = 0;
  }
  return false;
}

uint64_t RunCount(const Walk& walk) {
  uint64_t count = 1;
  for (size_t d = 0; d < walk.run_dim; ++d) count *= walk.extent[d];
  return count;
}

// A way to cut: along `dim`, in `units` steps of `unit` elements each, all of
// which start and end at whole bytes.
struct Cut {
  size_t dim = 0;
  uint64_t unit = 1;
  uint64_t units = 0;
};

Cut ChooseCut(Dtype dtype, const std::vector<uint64_t>& shape, uint32_t ranks) {
  // Bits of everything after dimension i, modulo 8: all that alignment needs.
  std::vector<uint64_t> inner_bits(shape.size());
  uint64_t inner = DtypeBits(dtype);
  for (size_t i = shape.size(); i-- > 0;) {
    inner_bits[i] = inner;
    inner = inner * (shape[i] % 8) % 8;
  }
  Cut best;
  uint64_t outer = 1;
  for (size_t i = 0; i < shape.size(); ++i) {
    const bool rows_are_bytes = inner_bits[i] * (shape[i] % 8) % 8 == 0;
    if (outer == 1 || rows_are_bytes) {
      const uint64_t unit = 8 / std::gcd(uint64_t{8}, inner_bits[i]);
      const Cut cut{i, unit, shape[i] / unit};
      CAIRN_CHECK(cut.units * unit == shape[i]);
      if (cut.units >= ranks) return cut;
      if (cut.units > best.units) best = cut;
    }
    outer *= shape[i];
  }
  return best;
}

}  // namespace

absl::Status ValidateSlice(const std::vector<uint64_t>& global_shape,
                           const Slice& slice) {
  CAIRN_RETURN_IF_ERROR(CheckBounds(slice));
  bool inside = slice.shape.size() == global_shape.size();
  for (size_t i = 0; inside && i < global_shape.size(); ++i) {
    inside = slice.offset[i] + slice.shape[i] <= global_shape[i];
  }
  if (inside) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "slice at ", DebugText(slice.offset), " of shape ",
      DebugText(slice.shape), " is not inside ", DebugText(global_shape)));
}

absl::StatusOr<std::vector<CopyRun>> IntersectRuns(Dtype dtype,
                                                   const Slice& from,
                                                   const Slice& to) {
  CAIRN_RETURN_IF_ERROR(CheckBounds(from));
  CAIRN_RETURN_IF_ERROR(CheckBounds(to));
  if (from.shape.size() != to.shape.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("slices have ", from.shape.size(), " and ",
                     to.shape.size(), " dimensions"));
  }
  CAIRN_ASSIGN_OR_RETURN(const Walk walk, PlanWalk(dtype, from, to));
  std::vector<CopyRun> runs;
  if (walk.empty) return runs;
  runs.reserve(RunCount(walk));
  std::vector<uint64_t> index(walk.run_dim);
  uint64_t from_bit = walk.from_bit;
  uint64_t to_bit = walk.to_bit;
  do {
    if ((from_bit | to_bit | walk.run_bits) % 8 != 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "a slice of ", AbslText(DtypeName(dtype)), " is cut inside a byte"));
    }
    runs.push_back({from_bit / 8, to_bit / 8, walk.run_bits / 8});
  } while (Step(walk, &index, &from_bit, &to_bit));
  CAIRN_DCHECK(runs.size() == RunCount(walk));
  return runs;
}

std::optional<Slice> EvenSlice(Dtype dtype,
                               const std::vector<uint64_t>& global_shape,
                               uint32_t rank, uint32_t ranks) {
  CAIRN_CHECK(rank < ranks);
  const absl::StatusOr<uint64_t> bytes = TensorBytes(dtype, global_shape);
  CAIRN_CHECK(bytes.ok());
  Slice slice{std::vector<uint64_t>(global_shape.size()), global_shape};
  if (*bytes == 0 || global_shape.empty()) {
    return rank == 0 ? std::optional<Slice>(std::move(slice)) : std::nullopt;
  }
  const Cut cut = ChooseCut(dtype, global_shape, ranks);
  CAIRN_CHECK(cut.units > 0);
  const uint64_t each = cut.units / ranks;
  const uint64_t longer = cut.units % ranks;  // So many get one unit more.
  const uint64_t mine = each + (rank < longer ? 1 : 0);
  if (mine == 0) return std::nullopt;
  const uint64_t first = each * rank + std::min<uint64_t>(rank, longer);
  slice.offset[cut.dim] = first * cut.unit;
  slice.shape[cut.dim] = mine * cut.unit;
  return slice;
}

}  // namespace cairn::format
