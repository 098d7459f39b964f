#include "format/checkpoint/exact_cover.h"

#include <algorithm>

#include "format/base/ids.h"
#include "format/base/status.h"

namespace cairn::format {
namespace {

constexpr uint64_t kPrime = (uint64_t{1} << 61) - 1;
constexpr uint64_t kGolden = 0x9e3779b97f4a7c15ULL;

uint64_t Multiply(uint64_t a, uint64_t b) {
  const auto product = static_cast<unsigned __int128>(a) * b;
  const uint64_t sum = (static_cast<uint64_t>(product) & kPrime) +
                       static_cast<uint64_t>(product >> 61);
  return sum >= kPrime ? sum - kPrime : sum;
}
uint64_t Add(uint64_t a, uint64_t b) {
  const uint64_t sum = a + b;
  return sum >= kPrime ? sum - kPrime : sum;
}
uint64_t Subtract(uint64_t a, uint64_t b) {
  return a >= b ? a - b : a + kPrime - b;
}

// The value of the unknown H_d(x), below kPrime.
uint64_t Unknown(uint64_t dimension_key, uint64_t x) {
  const uint64_t mixed = Mix64(dimension_key + x * kGolden);
  return (mixed & kPrime) % kPrime;
}

// A box, or a region: [begin, end) in each dimension that matters.
struct Bounds {
  std::vector<uint64_t> begin;
  std::vector<uint64_t> end;
};

class CoverCheck {
 public:
  CoverCheck(std::span<const uint64_t> shape, std::span<const uint64_t> boxes)
      : shape_(shape), boxes_(boxes) {}

  std::optional<CoverProblem> Run(std::span<const uint32_t> which);

 private:
  uint64_t Offset(uint32_t box, size_t d) const {
    return boxes_[box * 2 * shape_.size() + d];
  }
  uint64_t End(uint32_t box, size_t d) const {
    return Offset(box, d) + boxes_[(box * 2 + 1) * shape_.size() + d];
  }
  // Only dimensions that some box cuts matter: the others are a factor that
  // all products share.
  void FindCutDimensions(std::span<const uint32_t> which);
  // Whether the boxes, cut to the region, do not cover it exactly.
  bool IsWrong(const Bounds& region, std::span<const uint32_t> which) const;
  bool Meets(const Bounds& region, uint32_t box) const;
  bool Covers(const Bounds& region, uint32_t box) const;
  std::vector<uint32_t> Meeting(const Bounds& region,
                                std::span<const uint32_t> which) const;
  // The half of a wrong region that is wrong; keeps those that meet it.
  void Halve(Bounds* region, std::vector<uint32_t>* which) const;

  const std::span<const uint64_t> shape_;
  const std::span<const uint64_t> boxes_;
  std::vector<size_t> cut_;     // Dimensions.
  std::vector<uint64_t> keys_;  // One for each of those.
};

void CoverCheck::FindCutDimensions(std::span<const uint32_t> which) {
  for (size_t d = 0; d < shape_.size(); ++d) {
    const bool cut = std::any_of(which.begin(), which.end(), [&](uint32_t box) {
      return Offset(box, d) != 0 || End(box, d) != shape_[d];
    });
    if (!cut) continue;
    cut_.push_back(d);
    keys_.push_back(Mix64(kGolden * (d + 1)));
  }
}

bool CoverCheck::IsWrong(const Bounds& region,
                         std::span<const uint32_t> which) const {
  uint64_t due = 1;
  for (size_t i = 0; i < cut_.size(); ++i) {
    due = Multiply(due, Subtract(Unknown(keys_[i], region.begin[i]),
                                 Unknown(keys_[i], region.end[i])));
  }
  uint64_t sum = 0;
  for (const uint32_t box : which) {
    uint64_t product = 1;
    for (size_t i = 0; i < cut_.size(); ++i) {
      const uint64_t begin = std::max(Offset(box, cut_[i]), region.begin[i]);
      const uint64_t end = std::min(End(box, cut_[i]), region.end[i]);
      product = Multiply(
          product, Subtract(Unknown(keys_[i], begin), Unknown(keys_[i], end)));
    }
    sum = Add(sum, product);
  }
  return sum != due;
}

bool CoverCheck::Meets(const Bounds& region, uint32_t box) const {
  for (size_t i = 0; i < cut_.size(); ++i) {
    if (Offset(box, cut_[i]) >= region.end[i] ||
        End(box, cut_[i]) <= region.begin[i]) {
      return false;
    }
  }
  return true;
}

bool CoverCheck::Covers(const Bounds& region, uint32_t box) const {
  for (size_t i = 0; i < cut_.size(); ++i) {
    if (Offset(box, cut_[i]) > region.begin[i] ||
        End(box, cut_[i]) < region.end[i]) {
      return false;
    }
  }
  return true;
}

std::vector<uint32_t> CoverCheck::Meeting(
    const Bounds& region, std::span<const uint32_t> which) const {
  std::vector<uint32_t> meeting;
  std::copy_if(which.begin(), which.end(), std::back_inserter(meeting),
               [&](uint32_t box) { return Meets(region, box); });
  return meeting;
}

void CoverCheck::Halve(Bounds* region, std::vector<uint32_t>* which) const {
  size_t widest = 0;
  for (size_t i = 1; i < cut_.size(); ++i) {
    if (region->end[i] - region->begin[i] >
        region->end[widest] - region->begin[widest]) {
      widest = i;
    }
  }
  const uint64_t middle =
      region->begin[widest] + (region->end[widest] - region->begin[widest]) / 2;
  CAIRN_CHECK(middle > region->begin[widest]);
  Bounds lower = *region;
  lower.end[widest] = middle;
  std::vector<uint32_t> in_lower = Meeting(lower, *which);
  if (IsWrong(lower, in_lower)) {
    *region = std::move(lower);
    *which = std::move(in_lower);
    return;
  }
  region->begin[widest] = middle;
  *which = Meeting(*region, *which);
}

std::optional<CoverProblem> CoverCheck::Run(std::span<const uint32_t> which) {
  FindCutDimensions(which);
  Bounds region;
  for (const size_t d : cut_) {
    region.begin.push_back(0);
    region.end.push_back(shape_[d]);
  }
  if (!IsWrong(region, which)) return std::nullopt;
  CoverProblem problem;
  problem.boxes.assign(which.begin(), which.end());
  const auto covers = [&](uint32_t box) { return Covers(region, box); };
  while (!std::all_of(problem.boxes.begin(), problem.boxes.end(), covers)) {
    Halve(&region, &problem.boxes);
  }
  CAIRN_CHECK(problem.boxes.size() != 1);
  problem.at.resize(shape_.size());
  for (size_t i = 0; i < cut_.size(); ++i) {
    problem.at[cut_[i]] = region.begin[i];
  }
  return problem;
}

}  // namespace

std::optional<CoverProblem> FindCoverProblem(std::span<const uint64_t> shape,
                                             std::span<const uint64_t> boxes,
                                             std::span<const uint32_t> which) {
  return CoverCheck(shape, boxes).Run(which);
}

}  // namespace cairn::format
