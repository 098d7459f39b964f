// A rank's tensors and opaque entries to test with, and the file they make,
// written down without the client's code.
#pragma once

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "client/checkpoint/rank_file.h"
#include "tests/unit/client/checkpoint/tensor_memory.h"

namespace cairn::testing {

class RankItems {
 public:
  // A tensor in memory of its own, filled with random bytes.
  void AddTensor(client::ViewShape view, std::mt19937_64* random);
  void AddTensor(client::ViewShape view, const std::string& dense);
  // Bytes, `rows` x `row_bytes`, with 8 bytes between the rows in memory.
  void AddPaddedRows(std::string name, uint64_t rows, uint64_t row_bytes,
                     std::mt19937_64* random);
  void AddOpaque(std::string name, std::string bytes);

  const std::vector<client::RankItem>& items() const { return items_; }
  // The dense bytes of items()[index].
  const std::string& Content(size_t index) const { return contents_[index]; }
  // Whether `address` is inside the memory of the tensor items()[index].
  bool Owns(size_t index, const void* address) const;
  // The header, and then the content of each item in the file's order.
  std::string Serialise(const client::RankFile& file) const;

 private:
  std::vector<client::RankItem> items_;
  std::vector<std::string> contents_;
  // Of one item each; what holds the memory of another kind is null.
  std::vector<std::unique_ptr<TensorMemory>> memory_;
  std::vector<std::unique_ptr<std::string>> rows_;
};

// Small tensors of all kinds: strided, scalars, empty ones, sub-byte, several
// slices of one, and opaque entries.
RankItems RandomItems(std::mt19937_64* random);

}  // namespace cairn::testing
