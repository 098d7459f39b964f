#include "tests/support/random_boxes.h"

namespace cairn::testing {

std::vector<Box> RandomCover(const std::vector<uint64_t>& shape, size_t count,
                             std::mt19937_64* random) {
  std::vector<Box> boxes = {{std::vector<uint64_t>(shape.size()), shape}};
  for (size_t i = 0; i < 4 * count && boxes.size() < count; ++i) {
    if (shape.empty()) break;
    Box& box = boxes[(*random)() % boxes.size()];
    const size_t d = (*random)() % shape.size();
    if (box.shape[d] < 2) continue;
    const uint64_t first = 1 + (*random)() % (box.shape[d] - 1);
    Box rest = box;
    rest.offset[d] += first;
    rest.shape[d] -= first;
    box.shape[d] = first;
    boxes.push_back(rest);
  }
  return boxes;
}

bool Contains(const Box& box, const std::vector<uint64_t>& at) {
  for (size_t d = 0; d < at.size(); ++d) {
    if (at[d] < box.offset[d] || at[d] - box.offset[d] >= box.shape[d]) {
      return false;
    }
  }
  return true;
}

std::vector<std::vector<uint64_t>> AllElements(
    const std::vector<uint64_t>& shape) {
  uint64_t count = 1;
  for (const uint64_t dim : shape) count *= dim;
  std::vector<std::vector<uint64_t>> elements;
  for (uint64_t i = 0; i < count; ++i) {
    std::vector<uint64_t> at(shape.size());
    uint64_t rest = i;
    for (size_t d = shape.size(); d-- > 0; rest /= shape[d]) {
      at[d] = rest % shape[d];
    }
    elements.push_back(at);
  }
  return elements;
}

}  // namespace cairn::testing
