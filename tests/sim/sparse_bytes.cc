#include "tests/sim/sparse_bytes.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "format/base/status.h"

namespace cairn::sim {

uint64_t SparseBytes::MissingBytes(uint64_t offset, uint64_t size_bytes) const {
  if (size_bytes == 0) return 0;
  const uint64_t first = offset / kPageBytes;
  const uint64_t last = (offset + size_bytes - 1) / kPageBytes;
  uint64_t present = 0;
  for (auto it = pages_.lower_bound(first);
       it != pages_.end() && it->first <= last; ++it) {
    ++present;
  }
  return (last - first + 1 - present) * kPageBytes;
}

uint64_t SparseBytes::StoredPage(uint64_t nth) const {
  CAIRN_CHECK(nth < pages_.size());
  return std::next(pages_.begin(), static_cast<ptrdiff_t>(nth))->first;
}

void SparseBytes::Read(uint64_t offset, format::MutableBytes to) const {
  CAIRN_CHECK(offset <= size_bytes_ && to.size() <= size_bytes_ - offset);
  while (!to.empty()) {
    const uint64_t within = offset % kPageBytes;
    const size_t count = std::min<size_t>(to.size(), kPageBytes - within);
    const auto it = pages_.find(offset / kPageBytes);
    if (it == pages_.end()) {
      std::memset(to.data(), 0, count);
    } else {
      std::memcpy(to.data(), it->second->data() + within, count);
    }
    to = to.subspan(count);
    offset += count;
  }
}

void SparseBytes::Write(uint64_t offset, format::ConstBytes from) {
  CAIRN_CHECK(from.size() <= UINT64_MAX - offset);
  if (from.empty()) return;
  size_bytes_ = std::max(size_bytes_, offset + from.size());
  while (!from.empty()) {
    const uint64_t within = offset % kPageBytes;
    const size_t count = std::min<size_t>(from.size(), kPageBytes - within);
    Page* const page = MutablePage(offset / kPageBytes);
    std::memcpy(page->data() + within, from.data(), count);
    from = from.subspan(count);
    offset += count;
  }
}

void SparseBytes::Resize(uint64_t size_bytes) {
  if (size_bytes < size_bytes_) {
    const uint64_t keep = (size_bytes + kPageBytes - 1) / kPageBytes;
    pages_.erase(pages_.lower_bound(keep), pages_.end());
    const uint64_t within = size_bytes % kPageBytes;
    if (within != 0 && pages_.contains(size_bytes / kPageBytes)) {
      Page* const page = MutablePage(size_bytes / kPageBytes);
      std::fill(page->begin() + static_cast<ptrdiff_t>(within), page->end(),
                uint8_t{0});
    }
  }
  size_bytes_ = size_bytes;
}

SparseBytes::Page* SparseBytes::MutablePage(uint64_t index) {
  std::shared_ptr<Page>& page = pages_[index];
  if (page == nullptr) {
    page = std::make_shared<Page>();  // Zeros.
  } else if (page.use_count() > 1) {
    page = std::make_shared<Page>(*page);
  }
  return page.get();
}

}  // namespace cairn::sim
