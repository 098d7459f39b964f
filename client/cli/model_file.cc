#include "client/cli/model_file.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "format/base/status.h"

namespace cairn::client::cli {

absl::StatusOr<std::unique_ptr<ModelFile>> ModelFile::Open(
    const std::string& path) {
  CAIRN_ASSIGN_OR_RETURN(std::unique_ptr<LocalFile> file,
                         LocalFile::OpenForRead(path));
  const uint64_t size = file->size_bytes();
  std::vector<uint8_t> bytes(std::min<uint64_t>(size, 8));
  CAIRN_RETURN_IF_ERROR(file->ReadAt(0, bytes));
  absl::StatusOr<uint64_t> header_bytes =
      format::SafetensorsHeaderBytes(bytes, size);
  if (!header_bytes.ok()) return Annotate(header_bytes.status(), path);
  bytes.resize(*header_bytes);
  CAIRN_RETURN_IF_ERROR(file->ReadAt(0, bytes));
  absl::StatusOr<format::SafetensorsHeader> header =
      format::ParseSafetensorsHeader(bytes, size);
  if (!header.ok()) return Annotate(header.status(), path);
  return std::unique_ptr<ModelFile>(
      new ModelFile(path, std::move(file), *std::move(header)));
}

absl::Status ModelFile::ReadSlice(const format::SafetensorsEntry& entry,
                                  const format::Slice& slice,
                                  std::span<uint8_t> to) {
  const format::Slice whole{std::vector<uint64_t>(entry.shape.size(), 0),
                            entry.shape};
  CAIRN_ASSIGN_OR_RETURN(const std::vector<format::CopyRun> runs,
                         format::IntersectRuns(entry.dtype, whole, slice));
  for (const format::CopyRun& run : runs) {
    CAIRN_RETURN_IF_ERROR(
        file_->ReadAt(header_.data_start + entry.begin + run.from_offset,
                      to.subspan(run.to_offset, run.length)));
  }
  return absl::OkStatus();
}

}  // namespace cairn::client::cli
