#include "tests/unit/client/checkpoint/tensor_memory.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "format/base/status.h"
#include "tests/support/random_boxes.h"

namespace cairn::testing {

namespace {

client::TensorLayout LayoutOf(const client::ViewShape& view) {
  auto layout = client::MakeLayout(view);
  CAIRN_CHECK(layout.ok());
  return *std::move(layout);
}

// By the definition of strides: one element after the other.
std::vector<int64_t> PlacesOf(const client::ViewShape& view,
                              const client::TensorLayout& layout) {
  std::vector<int64_t> places(layout.bytes);
  std::iota(places.begin(), places.end(), 0);
  if (view.strides.empty()) return places;
  const int64_t item = format::DtypeBits(view.dtype) / 8;
  places.clear();
  for (const auto& at : AllElements(layout.slice.shape)) {
    int64_t place = 0;
    for (size_t d = 0; d < at.size(); ++d) {
      place += static_cast<int64_t>(at[d]) * view.strides[d] * item;
    }
    for (int64_t byte = 0; byte < item; ++byte) places.push_back(place + byte);
  }
  return places;
}

}  // namespace

TensorMemory::TensorMemory(client::ViewShape view, char fill) : fill_(fill) {
  view.has_data = true;
  layout_ = LayoutOf(view);
  places_ = PlacesOf(view, layout_);
  if (places_.empty()) return;
  const auto [low, high] = std::minmax_element(places_.begin(), places_.end());
  origin_ = static_cast<uint64_t>(-*low);
  memory_.assign(static_cast<uint64_t>(*high - *low) + 1, fill_);
}

uint8_t* TensorMemory::data() {
  return reinterpret_cast<uint8_t*>(memory_.data()) + origin_;
}

bool TensorMemory::Owns(const void* address) const {
  const auto* const byte = static_cast<const char*>(address);
  return byte >= memory_.data() && byte < memory_.data() + memory_.size();
}

std::string TensorMemory::Dense() const {
  std::string dense;
  for (const int64_t place : places_) {
    dense.push_back(memory_[origin_ + static_cast<uint64_t>(place)]);
  }
  return dense;
}

void TensorMemory::SetDense(const std::string& dense) {
  CAIRN_CHECK(dense.size() == places_.size());
  for (size_t i = 0; i < dense.size(); ++i) {
    memory_[origin_ + static_cast<uint64_t>(places_[i])] = dense[i];
  }
}

bool TensorMemory::GapsAreUntouched() const {
  std::vector<bool> is_gap(memory_.size(), true);
  for (const int64_t place : places_) {
    is_gap[origin_ + static_cast<uint64_t>(place)] = false;
  }
  for (size_t i = 0; i < memory_.size(); ++i) {
    if (is_gap[i] && memory_[i] != fill_) return false;
  }
  return true;
}

std::vector<int64_t> RandomStrides(const std::vector<uint64_t>& shape,
                                   std::mt19937_64* random) {
  if (shape.empty() || (*random)() % 4 == 0) return {};
  std::vector<size_t> order(shape.size());
  std::iota(order.begin(), order.end(), size_t{0});
  // Row-major often: then there are runs to find.
  std::reverse(order.begin(), order.end());
  if ((*random)() % 2 == 0) std::shuffle(order.begin(), order.end(), *random);
  std::vector<int64_t> strides(shape.size());
  uint64_t step = (*random)() % 3 == 0 ? 2 : 1;
  for (const size_t d : order) {
    const int64_t sign = (*random)() % 5 == 0 ? -1 : 1;
    strides[d] = sign * static_cast<int64_t>(step);
    step = step * std::max<uint64_t>(shape[d], 1) + (*random)() % 2 * 3;
  }
  return strides;
}

client::ViewShape DenseView(std::string name, format::Dtype dtype,
                            std::vector<uint64_t> shape) {
  client::ViewShape view;
  view.name = std::move(name);
  view.dtype = dtype;
  view.global_shape = std::move(shape);
  view.has_data = true;
  return view;
}

}  // namespace cairn::testing
