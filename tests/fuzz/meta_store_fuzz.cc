// Keys and records of the metadata store: what parses must be made again from
// its parts, byte for byte.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "format/base/status.h"
#include "format/meta/keys.h"
#include "format/meta/records.h"

namespace {

using namespace cairn::format;  // NOLINT: a test.

std::string Rebuild(const ParsedKey& key) {
  switch (KeyNumbers(key.kind)) {
    case 1:
      return MakeKey(key.kind, {key.numbers[0]}, key.name);
    case 2:
      return MakeKey(key.kind, {key.numbers[0], key.numbers[1]}, key.name);
    default:
      return MakeKey(key.kind, {key.numbers[0], key.numbers[1], key.numbers[2]},
                     key.name);
  }
}

void CheckKey(std::string_view bytes) {
  const auto key = ParseKey(bytes);
  if (!key.ok()) return;
  CAIRN_CHECK(Rebuild(*key) == bytes);
  const KeyRange range = RangeOf(key->kind, {key->numbers[0]});
  CAIRN_CHECK(range.begin <= bytes && bytes < range.end);
}

void CheckRecord(std::string_view key, std::string_view bytes) {
  if (key.empty()) return;
  const auto opened = OpenRecord(key, bytes);
  if (opened.ok()) CAIRN_CHECK(SealRecord(key, *opened) == bytes);
  const std::string sealed = SealRecord(key, bytes);
  const auto again = OpenRecord(key, sealed);
  CAIRN_CHECK(again.ok() && *again == bytes);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  CheckKey(bytes);
  const size_t cut = size == 0 ? 0 : data[0] % size;
  CheckRecord(bytes.substr(0, cut), bytes.substr(cut));
  return 0;
}
