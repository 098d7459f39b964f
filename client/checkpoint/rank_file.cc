#include "client/checkpoint/rank_file.h"

#include <map>

#include "absl/strings/str_cat.h"
#include "format/base/limits.h"
#include "format/base/status.h"
#include "format/path/names.h"
#include "format/safetensors/safetensors.h"

namespace cairn::client {

namespace {

bool IsOpaque(const RankItem& item) {
  return item.kind == format::EntryKind::kOpaque;
}

// Unique names inside the file: "w", "w#2", "w#3"...
absl::StatusOr<std::map<std::string, int>> NameItems(
    const std::vector<RankItem>& items) {
  std::map<std::string, int> by_name;
  for (int i = 0; i < static_cast<int>(items.size()); ++i) {
    const RankItem& item = items[static_cast<size_t>(i)];
    std::string name = item.name;
    for (int n = 2; by_name.contains(name); ++n) {
      const RankItem& other = items[static_cast<size_t>(by_name[name])];
      if (other.name == item.name && (IsOpaque(item) || IsOpaque(other))) {
        return absl::InvalidArgumentError(
            absl::StrCat("opaque entry '", format::EscapeForDisplay(item.name),
                         "': the name is taken"));
      }
      name = absl::StrCat(item.name, "#", n);
    }
    by_name[name] = i;
  }
  return by_name;
}

}  // namespace

absl::StatusOr<RankFile> PlanRankFile(const std::vector<RankItem>& items) {
  CAIRN_ASSIGN_OR_RETURN(const auto by_name, NameItems(items));
  format::SafetensorsHeader header;
  header.metadata["format"] = "pt";
  for (const auto& [name, index] : by_name) {
    const RankItem& item = items[static_cast<size_t>(index)];
    format::SafetensorsEntry entry;
    entry.name = name;
    entry.dtype = item.layout.dtype;
    entry.shape = item.layout.slice.shape;
    header.entries.push_back(std::move(entry));
  }
  RankFile file;
  format::SafetensorsWriteOptions options;
  options.data_alignment = format::kDiskAlignBytes;
  CAIRN_ASSIGN_OR_RETURN(file.header,
                         format::WriteSafetensorsHeader(&header, options));
  file.segments.push_back({0, file.header.size(), -1});
  file.size_bytes = file.header.size();
  for (const format::SafetensorsEntry& entry : header.entries) {
    const uint64_t length = entry.end - entry.begin;
    file.segments.push_back({file.header.size() + entry.begin, length,
                             by_name.find(entry.name)->second});
    file.size_bytes = file.header.size() + entry.end;
  }
  return file;
}

format::ManifestPart MakeManifestPart(uint32_t rank, const RankFile& file,
                                      const std::vector<RankItem>& items,
                                      const std::vector<uint64_t>& xxh3) {
  format::ManifestPart part;
  part.rank = rank;
  part.file_bytes = file.size_bytes;
  for (const RankSegment& segment : file.segments) {
    if (segment.item < 0) continue;
    const auto index = static_cast<size_t>(segment.item);
    const RankItem& item = items[index];
    format::TensorEntry entry;
    entry.name = item.name;
    entry.kind = item.kind;
    entry.dtype = item.layout.dtype;
    entry.shape = item.layout.global_shape;
    format::TensorPart piece;
    piece.rank = rank;
    piece.file_offset = segment.file_offset;
    piece.length = segment.length;
    piece.xxh3 = xxh3[index];
    piece.offset = item.layout.slice.offset;
    piece.shape = item.layout.slice.shape;
    entry.parts.push_back(std::move(piece));
    part.entries.push_back(std::move(entry));
  }
  return part;
}

}  // namespace cairn::client
