// ParseFrameHeader and the trailer readers on arbitrary bytes. The first byte
// says whether to repair the checksum, so that the fields behind it are
// reached.
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "format/base/status.h"
#include "format/checksum/block_checksum.h"
#include "format/wire/frame.h"

namespace cairn::format {
namespace {

void CheckHeader(ConstBytes bytes, bool repair) {
  if (bytes.size() != sizeof(FrameHeader)) {
    CAIRN_CHECK(!ParseFrameHeader(bytes).ok());
    return;
  }
  FrameHeader header = LoadLe<FrameHeader>(bytes.data());
  const ConstBytes view(reinterpret_cast<const uint8_t*>(&header),
                        sizeof(header));
  if (repair) {
    header.magic = kFrameMagic;
    header.version = header.version % 3;
    header.kind = header.kind % 6;
    header.header_xxh3 = Xxh3(view.first(offsetof(FrameHeader, header_xxh3)));
  }
  const absl::StatusOr<FrameHeader> parsed = ParseFrameHeader(view);
  if (!parsed.ok()) {
    const absl::StatusCode code = parsed.status().code();
    CAIRN_CHECK(code == absl::StatusCode::kDataLoss ||
                code == absl::StatusCode::kFailedPrecondition);
    return;
  }
  CAIRN_CHECK(std::memcmp(&*parsed, &header, sizeof(header)) == 0);
  CAIRN_CHECK(parsed->version == kFrameVersion);
  CAIRN_CHECK(parsed->body_bytes <= kFrameBodyBytesMax);
  CAIRN_CHECK(parsed->payload_bytes <= kFramePayloadBytesMax);
  CAIRN_CHECK(parsed->trailer_bytes <= kFrameTrailerBytesMax);
  CAIRN_CHECK((parsed->payload_bytes == 0) == (parsed->trailer_bytes == 0));
  CAIRN_CHECK(parsed->traffic_class < kTrafficClasses);
}

void CheckTrailer(ConstBytes bytes) {
  const uint32_t count = TrailerChecksumCount(bytes);
  uint64_t sum = 0;
  for (uint32_t i = 0; i < count; ++i) sum += TrailerChecksum(bytes, i);
  if (TrailerStatus(bytes).ok()) {
    CAIRN_CHECK(bytes.size() == TrailerBytes(count));
    CAIRN_CHECK(LoadLe<uint64_t>(bytes.data()) == 0);
  }
  static volatile uint64_t sink;
  sink = sum;
  (void)sink;
}

}  // namespace
}  // namespace cairn::format

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const cairn::format::ConstBytes bytes(data + 1, size - 1);
  cairn::format::CheckHeader(bytes, (data[0] & 1) != 0);
  cairn::format::CheckTrailer(bytes);
  return 0;
}
