// Walks over the entries of an encoded manifest part, in order of name, without
// decoding more than one of them at a time.
//
//   Open ; while !AtEnd { name ; ReadEntryHead ; ReadSlices ; NextName }
//
// Lifetime: the encoded bytes must outlive the cursor.
// Errors:   kDataLoss and kFailedPrecondition as DecodeManifestPart().
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "format/checkpoint/byte_codec.h"
#include "format/checkpoint/manifest_entry.h"

namespace cairn::format {

class PartCursor {
 public:
  // Checks the envelope and stands on the first entry.
  absl::Status Open(std::string_view part);

  uint32_t rank() const { return rank_; }
  uint64_t file_bytes() const { return file_bytes_; }
  bool AtEnd() const { return at_end_; }
  const std::string& name() const { return name_; }  // Unless AtEnd().

  // The three steps over an entry, each once and in this order.
  absl::StatusOr<EntryHead> ReadEntryHead();
  // Appends; `out->dims` must be those of `head`.
  absl::Status ReadSlices(const EntryHead& head, FlatParts* out);
  absl::Status NextName();

 private:
  ByteReader reader_;
  std::string name_;
  uint64_t file_bytes_ = 0;
  uint64_t slices_ = 0;   // Of the entry whose head was read.
  uint64_t entries_ = 0;  // Whose names were read.
  uint32_t rank_ = 0;
  bool at_end_ = false;
};

}  // namespace cairn::format
