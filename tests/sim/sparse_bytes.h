// The bytes of a simulated file: pages in memory, holes read as zeros.
//
// Copies share pages until one side writes, so copying a large file is cheap.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>

#include "format/base/bytes.h"
#include "format/base/limits.h"

namespace cairn::sim {

class SparseBytes {
 public:
  static constexpr uint64_t kPageBytes = 4 * format::kKiB;

  uint64_t size_bytes() const { return size_bytes_; }
  // Memory held by pages: the file's use of its disk.
  uint64_t stored_bytes() const { return pages_.size() * kPageBytes; }
  // What stored_bytes() would grow by if the range were written.
  uint64_t MissingBytes(uint64_t offset, uint64_t size_bytes) const;

  // The index in the file of the n-th page in memory.
  uint64_t StoredPage(uint64_t nth) const;

  // The range must lie within size_bytes().
  void Read(uint64_t offset, format::MutableBytes to) const;
  // Grows the size when it ends later.
  void Write(uint64_t offset, format::ConstBytes from);
  // What a shrink cuts off reads as zeros after a later growth.
  void Resize(uint64_t size_bytes);

 private:
  using Page = std::array<uint8_t, kPageBytes>;
  Page* MutablePage(uint64_t index);

  uint64_t size_bytes_ = 0;
  // shared_ptr: cached and durable copies of a file share what is the same.
  std::map<uint64_t, std::shared_ptr<Page>> pages_;
};

}  // namespace cairn::sim
