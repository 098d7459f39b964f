// safetensors headers: strict reader, canonical writer.
//
// Layout: u64 N | N bytes of JSON | data. Accepts and refuses what the
// reference implementation does, and also refuses duplicate keys
// (docs/format/safetensors.md). Only headers are handled here; data is moved by
// whoever owns the file.
//
// Units:   offsets and lengths are bytes; shapes count elements.
// Threads: pure functions; safe from anywhere.
// Memory:  a header is at most kSafetensorsHeaderBytesMax bytes and
//          kTensorsPerFileMax tensors of kTensorRankMax dimensions; reading one
//          needs a small multiple of its bytes. Check SafetensorsHeaderBytes()
//          before reading so much of an untrusted file.
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
  friend bool operator==(const SafetensorsEntry&,
                         const SafetensorsEntry&) = default;
};

struct SafetensorsHeader {
  std::map<std::string, std::string> metadata;
  std::vector<SafetensorsEntry> entries;  // In order of offset.
  uint64_t data_start = 0;                // 8 + N.
  uint64_t data_bytes = 0;
  friend bool operator==(const SafetensorsHeader&,
                         const SafetensorsHeader&) = default;
};

// How many bytes the header takes (8 + N), from the file's first 8 bytes.
// kInvalidArgument: HeaderTooSmall, HeaderTooLarge, InvalidHeaderLength.
absl::StatusOr<uint64_t> SafetensorsHeaderBytes(ConstBytes first8,
                                                uint64_t file_bytes);

// `bytes` are the file's first 8 + N; `file_bytes` its exact length.
// OK: every entry lies in the file, they follow each other without holes, and
// each is as long as its dtype and shape say. Entries without bytes that share
// an offset keep the order of the file.
// kInvalidArgument with the reference's name for the error in the message:
// InvalidHeader (not UTF-8), InvalidHeaderDeserialization (not the right JSON),
// InvalidOffset, ValidationOverflow, MisalignedSlice, TensorInvalidInfo,
// MetadataIncompleteBuffer; or with a name of our own: DuplicateKey,
// TooManyTensors, TooManyDimensions.
absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(ConstBytes bytes,
                                                         uint64_t file_bytes);

struct SafetensorsWriteOptions {
  // The data area starts at a multiple of this (8 as the reference; 4096 for
  // files in checkpoint sets), by trailing spaces in the header. A power of
  // two, 8 to 1 MiB.
  uint64_t data_alignment = 8;
  // Keep the given order of entries instead of the reference's order.
  bool keep_order = false;
};

// Orders the entries as the reference does (dtype descending, name ascending),
// assigns begin/end, and returns the header's bytes (8 + N). `header` gets the
// final order, offsets, data_start and data_bytes. With 0 or 1 metadata keys
// the bytes equal those of the reference writer; more are sorted. No metadata:
// no
// `__metadata__`.
// kInvalidArgument: duplicate, reserved or non-UTF-8 names, a shape whose bytes
// overflow or are not whole, too long, or a bad alignment.
absl::StatusOr<std::string> WriteSafetensorsHeader(
    SafetensorsHeader* header, const SafetensorsWriteOptions& options);

}  // namespace cairn::format
