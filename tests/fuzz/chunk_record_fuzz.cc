// Whatever bytes the index holds: a record is refused, or encodes to exactly
// the bytes it was read from.
#include <cstddef>
#include <cstdint>
#include <string>

#include "format/base/status.h"
#include "format/checksum/block_checksum.h"
#include "format/target/chunk_record.h"

namespace {

using namespace cairn::format;  // NOLINT: a fuzz target is its own program.

void CheckRecord(const ChunkKey& key, std::string_view bytes) {
  const auto chunk = DecodeStoredChunk(key, AsBytes(bytes));
  if (chunk.ok()) CAIRN_CHECK(EncodeStoredChunk(key, *chunk) == bytes);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes = AsText({data, size});
  const auto key = DecodeChunkKey(bytes.substr(0, kChunkKeyBytes));
  if (key.ok()) {
    CAIRN_CHECK(EncodeChunkKey(*key) == bytes.substr(0, kChunkKeyBytes));
    CheckRecord(*key, bytes.substr(kChunkKeyBytes));
    // A fuzzer cannot guess checksums: seal what follows the key.
    const std::string sealed = std::string(bytes.substr(kChunkKeyBytes));
    std::string xxh3(8, '\0');
    StoreLe(xxh3.data(), Xxh3({data, size}));
    CheckRecord(*key, sealed + xxh3);
  }
  const auto state = DecodeStoreState({data, size});
  if (state.ok()) CAIRN_CHECK(EncodeStoreState(*state) == bytes);
  return 0;
}
