// Memory in which a slice of a tensor lies strided, and its dense form made
// element by element, without the client's layout code.
//
// Lifetime: the layout's offsets are from data(), which is the object's.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "client/checkpoint/tensor_layout.h"

namespace cairn::testing {

class TensorMemory {
 public:
  // `view` must be valid; its strides stay inside about 2^30 bytes. All memory,
  // also that between elements, is filled with `fill`.
  explicit TensorMemory(client::ViewShape view, char fill = '\x11');

  const client::TensorLayout& layout() const { return layout_; }
  uint8_t* data();  // The first element.
  bool Owns(const void* address) const;

  std::string Dense() const;
  void SetDense(const std::string& dense);
  // Whether the bytes between the elements are still as filled.
  bool GapsAreUntouched() const;

  // Memory offset from data() of each dense byte.
  std::vector<int64_t> places() const { return places_; }

 private:
  client::TensorLayout layout_;
  std::vector<int64_t> places_;
  uint64_t origin_ = 0;  // Of the first element, in memory_.
  std::string memory_;
  char fill_;
};

// Distances for `shape` under which no two elements overlap: dimensions in
// random order, with gaps, some backwards. Now and then: none (dense).
std::vector<int64_t> RandomStrides(const std::vector<uint64_t>& shape,
                                   std::mt19937_64* random);

// A dense view of a whole tensor.
client::ViewShape DenseView(std::string name, format::Dtype dtype,
                            std::vector<uint64_t> shape);

}  // namespace cairn::testing
