// safetensors headers: strict reader, canonical writer.
//
// Layout: u64 N | N bytes of JSON | data. Accepts and refuses what the
// reference implementation does, and also refuses duplicate keys
// (docs/format.md#safetensors). Only headers are handled here; data is moved by
// whoever owns the file.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "format/base/bytes.h"
#include "format/checkpoint/dtype.h"

namespace cairn::format {

struct SafetensorsEntry {
  std::string name;  // Opaque UTF-8, may be empty.
  Dtype dtype = Dtype::kU8;
  std::vector<uint64_t> shape;
  uint64_t begin = 0;  // From the start of the data area.
  uint64_t end = 0;
};

struct SafetensorsHeader {
  std::map<std::string, std::string> metadata;
  std::vector<SafetensorsEntry> entries;  // In order of offset.
  uint64_t data_start = 0;  // 8 + N.
  uint64_t data_bytes = 0;
};

// How many bytes the header takes (8 + N), from the file's first 8 bytes.
// kInvalidArgument: HeaderTooSmall, HeaderTooLarge, InvalidHeaderLength.
absl::StatusOr<uint64_t> SafetensorsHeaderBytes(ConstBytes first8,
                                                uint64_t file_bytes);

// `bytes` are the file's first 8 + N; `file_bytes` its exact length.
// kInvalidArgument with the reference's name for the error in the message.
absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(ConstBytes bytes,
                                                         uint64_t file_bytes);

struct SafetensorsWriteOptions {
  // The data area starts at a multiple of this (8 as the reference; 4096 for
  // files in checkpoint sets), by trailing spaces in the header.
  uint64_t data_alignment = 8;
  // Keep the given order of entries instead of the reference's order.
  bool keep_order = false;
};

// Orders the entries as the reference does (dtype descending, name ascending),
// assigns begin/end, and returns the header's bytes (8 + N). `header` gets the
// final order and offsets. With 0 or 1 metadata keys the bytes equal those of
// the reference writer.
// kInvalidArgument: duplicate names, a shape whose bytes overflow, too long.
absl::StatusOr<std::string> WriteSafetensorsHeader(
    SafetensorsHeader* header, const SafetensorsWriteOptions& options);

}  // namespace cairn::format
