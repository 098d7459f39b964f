#include "format/checkpoint/byte_codec.h"

namespace cairn::format {

void AppendVarint(uint64_t value, std::string* out) {
  while (value >= 0x80) {
    out->push_back(static_cast<char>(value | 0x80));
    value >>= 7;
  }
  out->push_back(static_cast<char>(value));
}

void AppendU64(uint64_t value, std::string* out) {
  char bytes[sizeof(value)];
  StoreLe(bytes, value);
  out->append(bytes, sizeof(bytes));
}

uint64_t ByteReader::LongVarint() {
  uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    if (next_ == end_) return Fail();
    const uint64_t byte = *next_++;
    if (shift == 63 && byte > 1) return Fail();  // Over 64 bits.
    if (shift > 0 && byte == 0) return Fail();   // Padded.
    value |= (byte & 0x7f) << shift;
    if (byte < 0x80) return value;
  }
  return Fail();
}

uint8_t ByteReader::U8() {
  if (next_ == end_) return static_cast<uint8_t>(Fail());
  return *next_++;
}

uint64_t ByteReader::U64() {
  if (Left() < sizeof(uint64_t)) return Fail();
  const auto value = LoadLe<uint64_t>(next_);
  next_ += sizeof(uint64_t);
  return value;
}

std::string_view ByteReader::Bytes(uint64_t count) {
  if (Left() < count) {
    Fail();
    return {};
  }
  const auto size = static_cast<size_t>(count);
  const std::string_view bytes = AsText({next_, size});
  next_ += size;
  return bytes;
}

}  // namespace cairn::format
