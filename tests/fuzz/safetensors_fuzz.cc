// A header that reads is written again and reads the same; its entries tile
// the data area.
#include <cstddef>
#include <cstdint>
#include <string>

#include "format/base/bytes.h"
#include "format/base/status.h"
#include "format/safetensors/safetensors.h"

namespace {

using cairn::format::AsBytes;
using cairn::format::ParseSafetensorsHeader;
using cairn::format::SafetensorsHeader;

void CheckTiling(const SafetensorsHeader& header) {
  uint64_t end = 0;
  for (const auto& entry : header.entries) {
    CAIRN_CHECK(entry.begin == end);
    const auto bytes = cairn::format::TensorBytes(entry.dtype, entry.shape);
    CAIRN_CHECK(bytes.ok() && entry.end == end + *bytes);
    end = entry.end;
  }
  CAIRN_CHECK(end == header.data_bytes);
}

void CheckRewrite(const SafetensorsHeader& header, uint64_t alignment) {
  SafetensorsHeader again = header;
  cairn::format::SafetensorsWriteOptions options;
  options.keep_order = true;
  options.data_alignment = alignment;
  const auto written = WriteSafetensorsHeader(&again, options);
  CAIRN_CHECK(written.ok());
  CAIRN_CHECK(written->size() % alignment == 0);
  CAIRN_CHECK(again.entries == header.entries);
  const auto read = ParseSafetensorsHeader(AsBytes(*written),
                                           written->size() + header.data_bytes);
  CAIRN_CHECK(read.ok() && *read == again);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // The input is the JSON, after the number of data bytes behind it: random
  // bytes would hardly ever get the two lengths of a file right.
  if (size < 2) return 0;
  const uint64_t data_bytes = cairn::format::LoadLe<uint16_t>(data);
  std::string file(8, '\0');
  cairn::format::StoreLe(file.data(), uint64_t{size - 2});
  file.append(reinterpret_cast<const char*>(data) + 2, size - 2);
  const auto header =
      ParseSafetensorsHeader(AsBytes(file), file.size() + data_bytes);
  if (!header.ok()) return 0;
  CAIRN_CHECK(header->data_bytes == data_bytes);
  CheckTiling(*header);
  CheckRewrite(*header, 8);
  CheckRewrite(*header, 4096);
  return 0;
}
