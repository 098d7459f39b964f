// IoVectors: a list of memory pieces on its way through a socket, cut into
// operations of at most kIoVectorsMax pieces and kIoBytesMax bytes.
//
// Lifetime: the span and the memory it names outlive the IoVectors.
#pragma once

#include <sys/uio.h>

#include <algorithm>
#include <cstdint>
#include <span>

#include "format/base/bytes.h"
#include "format/base/status.h"
#include "io/limits.h"

namespace cairn::io {

// `Bytes` is format::ConstBytes or format::MutableBytes.
template <typename Bytes>
class IoVectors {
 public:
  explicit IoVectors(std::span<const Bytes> pieces) : pieces_(pieces) {
    SkipEmpty();
  }

  bool done() const { return at_ == pieces_.size(); }

  // The pieces of the next operation; good until Advance(). Empty when done.
  std::span<iovec> Next() {
    uint32_t count = 0;
    uint64_t room_bytes = kIoBytesMax;
    uint64_t skip_bytes = offset_;
    size_t piece = at_;
    for (; piece < pieces_.size() && count < kIoVectorsMax; ++piece) {
      const Bytes rest = pieces_[piece].subspan(skip_bytes);
      skip_bytes = 0;
      if (rest.empty()) continue;
      if (room_bytes == 0) break;
      const uint64_t taken = std::min<uint64_t>(rest.size(), room_bytes);
      vectors_[count++] = {const_cast<uint8_t*>(rest.data()), taken};
      room_bytes -= taken;
      if (taken < rest.size()) break;
    }
    is_last_ = piece == pieces_.size();
    return {vectors_, count};
  }
  // The pieces of the last Next() are all there is.
  bool is_last() const { return is_last_; }

  // The first `count_bytes` of what is left have been moved.
  void Advance(uint64_t count_bytes) {
    while (count_bytes > 0) {
      CAIRN_CHECK(at_ < pieces_.size());
      const uint64_t rest = pieces_[at_].size() - offset_;
      const uint64_t step = std::min(rest, count_bytes);
      offset_ += step;
      count_bytes -= step;
      SkipEmpty();
    }
  }

 private:
  void SkipEmpty() {
    while (at_ < pieces_.size() && offset_ == pieces_[at_].size()) {
      ++at_;
      offset_ = 0;
    }
  }

  const std::span<const Bytes> pieces_;
  size_t at_ = 0;        // Current piece,
  uint64_t offset_ = 0;  // and how much of it is done.
  bool is_last_ = false;
  iovec vectors_[kIoVectorsMax];
};

}  // namespace cairn::io
