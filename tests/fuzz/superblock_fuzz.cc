// Whatever bytes a superblock file holds: it is refused, or what is read from
// it encodes to a file that reads the same.
#include <cstddef>
#include <cstdint>

#include "format/base/status.h"
#include "format/checksum/block_checksum.h"
#include "format/target/superblock.h"

namespace {

using namespace cairn::format;  // NOLINT: a fuzz target is its own program.

void CheckStable(ConstBytes bytes) {
  const auto decoded = DecodeSuperblock(bytes);
  if (!decoded.ok()) return;
  CAIRN_CHECK(ValidateSuperblock(decoded->superblock).ok());
  CAIRN_CHECK(decoded->good_copies >= 1);
  const auto again =
      DecodeSuperblock(AsBytes(EncodeSuperblock(decoded->superblock)));
  CAIRN_CHECK(again.ok() && again->superblock == decoded->superblock);
  CAIRN_CHECK(again->good_copies == kSuperblockCopies);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  CheckStable({data, size});
  // A fuzzer cannot guess checksums: seal its bytes as a first copy.
  std::string copy(kSuperblockBytes, '\0');
  const size_t used = std::min<size_t>(size, 88);
  std::copy_n(data, used, copy.begin());
  const uint64_t xxh3 = Xxh3(AsBytes(copy).first(kSuperblockBytes - 8));
  StoreLe(copy.data() + kSuperblockBytes - 8, xxh3);
  CheckStable(AsBytes(copy));
  return 0;
}
