// Gather lists: many spans of user memory read as one run of bytes.
//
// Lifetime: the lists name memory; they own none of it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "format/base/bytes.h"

namespace cairn::client {

using ConstGather = std::vector<format::ConstBytes>;
using MutableGather = std::vector<format::MutableBytes>;

template <typename Byte>
uint64_t TotalBytes(const std::vector<std::span<Byte>>& list) {
  uint64_t total = 0;
  for (const std::span<Byte>& part : list) total += part.size();
  return total;
}

// Walks over a gather list front to back.
template <typename Byte>
class GatherCursor {
 public:
  GatherCursor() = default;
  explicit GatherCursor(std::span<const std::span<Byte>> list) : list_(list) {
    SkipEmpty();
  }

  bool done() const { return list_.empty(); }
  // What is left of the current span; never empty unless done().
  std::span<Byte> current() const {
    return list_.empty() ? std::span<Byte>() : list_[0].subspan(offset_);
  }
  // `bytes` is at most current().size().
  void Advance(uint64_t bytes) {
    offset_ += bytes;
    SkipEmpty();
  }
  // Appends to `out` the spans of the next `bytes` (or fewer, at the end).
  // Stops early when `out` has `spans_max` spans. Returns the bytes taken.
  uint64_t Take(uint64_t bytes, uint64_t spans_max,
                std::vector<std::span<Byte>>* out) {
    uint64_t taken = 0;
    while (taken < bytes && !done() && out->size() < spans_max) {
      std::span<Byte> part = current();
      if (part.size() > bytes - taken) part = part.first(bytes - taken);
      out->push_back(part);
      taken += part.size();
      Advance(part.size());
    }
    return taken;
  }

 private:
  void SkipEmpty() {
    while (!list_.empty() && offset_ >= list_[0].size()) {
      offset_ -= list_[0].size();
      list_ = list_.subspan(1);
    }
  }
  std::span<const std::span<Byte>> list_;
  uint64_t offset_ = 0;
};

// The part [offset, offset + length) of the list (shorter past its end).
template <typename Byte>
std::vector<std::span<Byte>> SubGather(const std::vector<std::span<Byte>>& list,
                                       uint64_t offset, uint64_t length) {
  std::vector<std::span<Byte>> out;
  for (std::span<Byte> part : list) {
    if (length == 0) break;
    if (offset >= part.size()) {
      offset -= part.size();
      continue;
    }
    part = part.subspan(offset);
    offset = 0;
    if (part.size() > length) part = part.first(length);
    out.push_back(part);
    length -= part.size();
  }
  return out;
}

}  // namespace cairn::client
