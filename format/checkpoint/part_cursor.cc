#include "format/checkpoint/part_cursor.h"

#include "format/base/status.h"
#include "format/checkpoint/manifest_envelope.h"

namespace cairn::format {

absl::Status PartCursor::Open(std::string_view part) {
  CAIRN_ASSIGN_OR_RETURN(
      const std::string_view body,
      OpenEnvelope(kManifestPartMagic, part, kManifestPartBytesMax));
  reader_ = ByteReader(body);
  const uint64_t rank = reader_.Varint();
  file_bytes_ = reader_.Varint();
  if (!reader_.ok() || rank >= kRanksMax) {
    return absl::DataLossError("manifest part: bad rank or file size");
  }
  rank_ = static_cast<uint32_t>(rank);
  return NextName();
}

absl::Status PartCursor::NextName() {
  if (reader_.AtEnd()) {
    at_end_ = true;
    return absl::OkStatus();
  }
  if (entries_ == kManifestEntriesPerPartMax) {
    return absl::DataLossError("manifest part: too many entries");
  }
  CAIRN_RETURN_IF_ERROR(ReadName(&reader_, entries_ == 0, &name_));
  ++entries_;
  return absl::OkStatus();
}

absl::StatusOr<EntryHead> PartCursor::ReadEntryHead() {
  CAIRN_CHECK(!at_end_);
  CAIRN_ASSIGN_OR_RETURN(HeadAndCount read, ReadHead(&reader_));
  slices_ = read.parts;
  return read.head;
}

absl::Status PartCursor::ReadSlices(const EntryHead& head, FlatParts* out) {
  return ReadParts(&reader_, head, slices_, rank_, file_bytes_, out);
}

}  // namespace cairn::format
