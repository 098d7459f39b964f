// Random ways to cut a box into boxes, and counting by brute force.
#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <vector>

namespace cairn::testing {

struct Box {
  std::vector<uint64_t> offset;
  std::vector<uint64_t> shape;
  friend bool operator==(const Box&, const Box&) = default;
};

// Cuts `shape` in two, and the pieces again, at random, into at most `count`
// boxes which cover it exactly. Boxes have elements if `shape` has.
std::vector<Box> RandomCover(const std::vector<uint64_t>& shape, size_t count,
                             std::mt19937_64* random);

bool Contains(const Box& box, const std::vector<uint64_t>& at);

// Every element of `shape`, in row-major order.
std::vector<std::vector<uint64_t>> AllElements(
    const std::vector<uint64_t>& shape);

}  // namespace cairn::testing
