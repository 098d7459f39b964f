#include "tests/support/scattered_bytes.h"

#include <algorithm>

namespace cairn::testing {

std::string RandomBytes(uint64_t size, std::mt19937_64* random) {
  std::string bytes(size, '\0');
  for (char& byte : bytes) byte = static_cast<char>((*random)());
  return bytes;
}

ScatteredBytes::ScatteredBytes(const std::string& flat, uint64_t pieces,
                               std::mt19937_64* random) {
  std::vector<uint64_t> cuts = {0, flat.size()};
  while (cuts.size() < pieces + 1) {
    // One cut in four is doubled: an empty piece.
    const uint64_t cut = (*random)() % (flat.size() + 1);
    cuts.push_back(cut);
    if ((*random)() % 4 == 0) cuts.push_back(cut);
  }
  std::sort(cuts.begin(), cuts.end());
  for (size_t i = 0; i + 1 < cuts.size(); ++i) {
    pieces_.emplace_back(flat.begin() + static_cast<int64_t>(cuts[i]),
                         flat.begin() + static_cast<int64_t>(cuts[i + 1]));
  }
}

std::vector<std::span<const uint8_t>> ScatteredBytes::gather() const {
  return {pieces_.begin(), pieces_.end()};
}

std::vector<std::span<uint8_t>> ScatteredBytes::mutable_gather() {
  return {pieces_.begin(), pieces_.end()};
}

std::string ScatteredBytes::Flat() const { return Flatten(gather()); }

}  // namespace cairn::testing
