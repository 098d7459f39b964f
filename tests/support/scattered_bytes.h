// Bytes cut at random into separate allocations, and flat random bytes.
//
// Lifetime: the gather lists name the object's memory.
#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <vector>

namespace cairn::testing {

std::string RandomBytes(uint64_t size, std::mt19937_64* random);

class ScatteredBytes {
 public:
  // About `pieces` pieces of `flat`, some of them empty.
  ScatteredBytes(const std::string& flat, uint64_t pieces,
                 std::mt19937_64* random);

  std::vector<std::span<const uint8_t>> gather() const;
  std::vector<std::span<uint8_t>> mutable_gather();
  std::string Flat() const;

 private:
  std::vector<std::vector<uint8_t>> pieces_;
};

// The bytes that a gather list names.
template <typename Byte>
std::string Flatten(std::span<const std::span<Byte>> list) {
  std::string flat;
  for (const std::span<Byte>& part : list) {
    flat.append(reinterpret_cast<const char*>(part.data()), part.size());
  }
  return flat;
}
template <typename Byte>
std::string Flatten(const std::vector<std::span<Byte>>& list) {
  return Flatten(std::span<const std::span<Byte>>(list));
}

}  // namespace cairn::testing
