#include "tests/unit/client/checkpoint/rank_items.h"

#include <utility>

#include "format/base/status.h"
#include "tests/support/scattered_bytes.h"

namespace cairn::testing {

void RankItems::AddTensor(client::ViewShape view, const std::string& dense) {
  client::RankItem item;
  item.name = view.name;
  auto memory = std::make_unique<TensorMemory>(std::move(view));
  memory->SetDense(dense);
  item.layout = memory->layout();
  item.data = memory->data();
  items_.push_back(std::move(item));
  contents_.push_back(dense);
  memory_.push_back(std::move(memory));
  rows_.push_back(nullptr);
}

void RankItems::AddTensor(client::ViewShape view, std::mt19937_64* random) {
  view.has_data = true;
  auto layout = client::MakeLayout(view);
  CAIRN_CHECK(layout.ok());
  AddTensor(std::move(view), RandomBytes(layout->bytes, random));
}

void RankItems::AddPaddedRows(std::string name, uint64_t rows,
                              uint64_t row_bytes, std::mt19937_64* random) {
  client::RankItem item;
  item.name = name;
  client::ViewShape view =
      DenseView(std::move(name), format::Dtype::kU8, {rows, row_bytes});
  const uint64_t stride = row_bytes + 8;
  view.strides = {static_cast<int64_t>(stride), 1};
  auto layout = client::MakeLayout(view);
  CAIRN_CHECK(layout.ok());
  item.layout = *std::move(layout);
  auto bytes =
      std::make_unique<std::string>(RandomBytes(rows * stride, random));
  item.data = reinterpret_cast<const uint8_t*>(bytes->data());
  std::string dense;
  for (uint64_t row = 0; row < rows; ++row) {
    dense.append(*bytes, row * stride, row_bytes);
  }
  items_.push_back(std::move(item));
  contents_.push_back(std::move(dense));
  memory_.push_back(nullptr);
  rows_.push_back(std::move(bytes));
}

bool RankItems::Owns(size_t index, const void* address) const {
  if (memory_[index] != nullptr) return memory_[index]->Owns(address);
  if (rows_[index] == nullptr) return false;
  const std::string& rows = *rows_[index];
  const auto* const byte = static_cast<const char*>(address);
  return byte >= rows.data() && byte < rows.data() + rows.size();
}

void RankItems::AddOpaque(std::string name, std::string bytes) {
  client::RankItem item;
  item.name = name;
  item.kind = format::EntryKind::kOpaque;
  auto layout = client::MakeLayout(
      DenseView(std::move(name), format::Dtype::kU8, {bytes.size()}));
  CAIRN_CHECK(layout.ok());
  item.layout = *std::move(layout);
  item.opaque = bytes;
  items_.push_back(std::move(item));
  contents_.push_back(std::move(bytes));
  memory_.push_back(nullptr);
  rows_.push_back(nullptr);
}

std::string RankItems::Serialise(const client::RankFile& file) const {
  std::string bytes = file.header;
  for (const client::RankSegment& segment : file.segments) {
    if (segment.item < 0) continue;
    bytes += contents_[static_cast<size_t>(segment.item)];
  }
  return bytes;
}

RankItems RandomItems(std::mt19937_64* random) {
  using format::Dtype;
  const Dtype dtypes[] = {Dtype::kU8, Dtype::kBf16, Dtype::kF32, Dtype::kI64};
  RankItems items;
  const uint64_t count = 1 + (*random)() % 12;
  for (uint64_t i = 0; i < count; ++i) {
    client::ViewShape view;
    view.name = "tensor." + std::to_string(i);
    view.dtype = dtypes[(*random)() % 4];
    for (uint64_t d = (*random)() % 4; d > 0; --d) {
      view.global_shape.push_back((*random)() % 24);
    }
    view.strides = RandomStrides(view.global_shape, random);
    items.AddTensor(std::move(view), random);
  }
  items.AddTensor(DenseView("packed", Dtype::kF4, {2, 7}), random);
  items.AddTensor(DenseView("empty", Dtype::kF32, {0, 3}), random);
  items.AddTensor(DenseView("scalar", Dtype::kF32, {}), random);
  items.AddTensor(DenseView("last.empty", Dtype::kBool, {0}), random);
  items.AddOpaque("step", RandomBytes((*random)() % 300, random));
  for (uint64_t row = 0; row < 3; ++row) {
    client::ViewShape slice = DenseView("sliced", Dtype::kF32, {3, 50});
    slice.offset = {row, 0};
    slice.shape = {1, 50};
    items.AddTensor(std::move(slice), random);
  }
  return items;
}

}  // namespace cairn::testing
