// Reading and writing the variable-width integers of manifests.
//
// A varint holds 7 bits a byte, low bits first; the top bit says that more
// follow. Each number has one encoding: the reader refuses padded ones.
// Threads: a reader belongs to one thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "format/base/bytes.h"

namespace cairn::format {

inline constexpr uint64_t kVarintBytesMax = 10;

void AppendVarint(uint64_t value, std::string* out);
void AppendU64(uint64_t value, std::string* out);

// Reads from the front of `bytes`, which must outlive it. A read past the end,
// or of a bad number, fails the reader for good: it answers 0 from then on and
// ok() is false. So a caller may read a whole record and check once.
class ByteReader {
 public:
  ByteReader() = default;
  explicit ByteReader(std::string_view bytes)
      : next_(AsBytes(bytes).data()), end_(next_ + bytes.size()) {}

  bool ok() const { return ok_; }
  bool AtEnd() const { return next_ == end_; }

  uint64_t Varint() {
    if (next_ != end_ && *next_ < 0x80) return *next_++;
    return LongVarint();
  }
  uint8_t U8();
  uint64_t U64();
  std::string_view Bytes(uint64_t count);

  uint64_t Fail() {
    ok_ = false;
    next_ = end_;
    return 0;
  }

 private:
  uint64_t LongVarint();
  size_t Left() const { return static_cast<size_t>(end_ - next_); }

  const uint8_t* next_ = nullptr;
  const uint8_t* end_ = nullptr;
  bool ok_ = true;
};

}  // namespace cairn::format
