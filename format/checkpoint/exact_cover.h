// Whether boxes cover a larger box exactly: each element once.
//
// A box in one dimension is the difference of two steps, and a product of those
// in several. So the number of boxes over each element is 1 everywhere if, and
// only if, the sum over the boxes of
//     prod_d (H_d(begin) - H_d(end))
// equals the same product for the large box, as polynomials in the unknowns
// H_d(x), one for each coordinate that occurs. It is evaluated once, modulo the
// prime 2^61 - 1, at mixed values for the unknowns: one pass, no sorting, any
// number of dimensions, O(boxes * dimensions).
//   - A cover that is refused is wrong: the sums differ, so the counts do.
//   - A wrong cover passes with a probability of about dimensions / 2^61, as
//     that of a checksum; the mixing is fixed, so it is no defence against
//     somebody who searches for such a layout of his own checkpoint.
// What is wrong is then found by halving: sums over halves add up, so one half
// is wrong too, down to a region in which all boxes are the whole region.
//
// Threads: pure functions; safe from anywhere.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace cairn::format {

// A region whose elements are covered by no box, or by several.
struct CoverProblem {
  std::vector<uint64_t> at;     // Its first element.
  std::vector<uint32_t> boxes;  // Which cover it: none, or at least two.
};

// `boxes` holds for each box its offsets and then its lengths, one per
// dimension of `shape`; those named by `which` are looked at. They are inside
// `shape` and none is empty; neither is `shape` (it has elements).
// nullopt: an exact cover.
std::optional<CoverProblem> FindCoverProblem(std::span<const uint64_t> shape,
                                             std::span<const uint64_t> boxes,
                                             std::span<const uint32_t> which);

}  // namespace cairn::format
