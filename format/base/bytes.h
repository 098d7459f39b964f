// Views of raw memory, and the fixed-width little-endian integers in it.
//
// Lifetime: a view owns nothing; whoever made it says how long it is good.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

namespace cairn::format {

using ConstBytes = std::span<const uint8_t>;
using MutableBytes = std::span<uint8_t>;

static_assert(std::endian::native == std::endian::little,
              "on-disk and wire structs are copied as they lie in memory");

inline ConstBytes AsBytes(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

inline std::string_view AsText(ConstBytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Copies a trivially copyable value out of, or into, unaligned memory. The
// caller has checked that `from`/`to` has sizeof(T) bytes.
template <typename T>
T LoadLe(const void* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}
template <typename T>
void StoreLe(void* to, T value) {
  std::memcpy(to, &value, sizeof(T));
}

}  // namespace cairn::format
