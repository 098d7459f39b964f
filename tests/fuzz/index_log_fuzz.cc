// Whatever bytes the log index holds: a frame is refused, or encodes to the
// bytes it was read from, up to its padding.
#include <cstddef>
#include <cstdint>
#include <string>

#include "format/base/status.h"
#include "format/checksum/block_checksum.h"
#include "format/target/index_log.h"

namespace {

using namespace cairn::format;  // NOLINT: a fuzz target is its own program.

void CheckFrame(ConstBytes bytes) {
  const auto frame = DecodeIndexFrame(bytes);
  if (!frame.ok()) return;
  CAIRN_CHECK(!frame->ops.empty() && frame->size_bytes <= bytes.size());
  const std::string again = EncodeIndexFrame(frame->sequence, frame->ops);
  CAIRN_CHECK(again.size() == frame->size_bytes);
  const auto body_bytes = LoadLe<uint32_t>(bytes.data() + 12);
  const uint64_t used = kIndexFrameHeaderBytes + body_bytes;
  CAIRN_CHECK(again.substr(0, used) == AsText(bytes.first(used)));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  CheckFrame({data, size});
  // A fuzzer cannot guess checksums: frame its bytes as a body.
  if (size == 0 || size > kIndexFrameBodyBytesMax) return 0;
  std::string frame = EncodeIndexFrame(1, {{IndexOp::Kind::kErase, "k", ""}});
  frame.resize((kIndexFrameHeaderBytes + size + kDiskAlignBytes - 1) /
               kDiskAlignBytes * kDiskAlignBytes);
  frame.replace(kIndexFrameHeaderBytes, size, AsText({data, size}));
  StoreLe(frame.data() + 12, static_cast<uint32_t>(size));
  StoreLe(frame.data() + 24, Xxh3({data, size}));
  StoreLe(frame.data() + 32, Xxh3(AsBytes(frame).first(32)));
  CheckFrame(AsBytes(frame));
  return 0;
}
