#include <algorithm>
#include <cstring>
#include <numeric>

#include "format/base/limits.h"
#include "format/base/status.h"
#include "format/path/names.h"
#include "format/safetensors/header_sax.h"
#include "format/safetensors/safetensors.h"

namespace cairn::format {
namespace {

constexpr uint64_t kLengthBytes = 8;

std::string Quoted(std::string_view text) {
  return absl::StrCat("\"", EscapeForDisplay(text), "\"");
}

absl::Status ParseJson(std::string_view json, SafetensorsHeaderSax* sax) {
  if (!IsValidUtf8(json)) {
    return absl::InvalidArgumentError("InvalidHeader: not UTF-8");
  }
  // The parser takes a byte order mark, and a NUL for the end of its input.
  // Neither is JSON. (Inside strings control bytes are illegal too.)
  const size_t nul = json.find('\0');
  if (nul != std::string_view::npos) {
    return absl::InvalidArgumentError(absl::StrCat(
        "InvalidHeaderDeserialization: NUL at byte ", nul, " of the JSON"));
  }
  if (json.starts_with("\xef\xbb\xbf")) {
    return absl::InvalidArgumentError(
        "InvalidHeaderDeserialization: starts with a byte order mark");
  }
  const bool strict = true;  // Nothing but white space after the object.
  if (nlohmann::json::sax_parse(json.begin(), json.end(), sax,
                                nlohmann::json::input_format_t::json, strict)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("InvalidHeaderDeserialization: ", sax->error()));
}

absl::Status CheckUniqueNames(const std::vector<SafetensorsEntry>& entries) {
  std::vector<std::string_view> names;
  names.reserve(entries.size());
  for (const SafetensorsEntry& entry : entries) names.push_back(entry.name);
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice == names.end()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("DuplicateKey: tensor ", Quoted(*twice)));
}

// Entries in order of offset must follow each other without a hole.
absl::Status CheckEntry(const SafetensorsEntry& entry, uint64_t start) {
  if (entry.begin != start || entry.end < entry.begin) {
    return absl::InvalidArgumentError(
        absl::StrCat("InvalidOffset: [", entry.begin, ",", entry.end,
                     ") where ", start, " is due"));
  }
  CAIRN_ASSIGN_OR_RETURN(const uint64_t bytes,
                         TensorBytes(entry.dtype, entry.shape));
  if (entry.end - entry.begin != bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("TensorInvalidInfo: ", entry.end - entry.begin,
                     " bytes of data for a tensor of ", bytes));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<uint64_t> SafetensorsHeaderBytes(ConstBytes first8,
                                                uint64_t file_bytes) {
  if (first8.size() < kLengthBytes || file_bytes < kLengthBytes) {
    return absl::InvalidArgumentError("HeaderTooSmall: file under 8 bytes");
  }
  const auto json_bytes = LoadLe<uint64_t>(first8.data());
  if (json_bytes > kSafetensorsHeaderBytesMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("HeaderTooLarge: ", json_bytes, " bytes, over ",
                     kSafetensorsHeaderBytesMax));
  }
  if (json_bytes > file_bytes - kLengthBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("InvalidHeaderLength: header of ", json_bytes,
                     " bytes in a file of ", file_bytes));
  }
  return kLengthBytes + json_bytes;
}

absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(ConstBytes bytes,
                                                         uint64_t file_bytes) {
  CAIRN_ASSIGN_OR_RETURN(const uint64_t data_start,
                         SafetensorsHeaderBytes(bytes, file_bytes));
  if (bytes.size() != data_start) {
    return absl::InvalidArgumentError(
        absl::StrCat("InvalidHeaderLength: given ", bytes.size(),
                     " bytes of a header of ", data_start));
  }
  SafetensorsHeaderSax sax;
  CAIRN_RETURN_IF_ERROR(ParseJson(AsText(bytes.subspan(kLengthBytes)), &sax));

  SafetensorsHeader header;
  header.metadata = std::move(sax.metadata());
  header.entries = std::move(sax.entries());
  header.data_start = data_start;
  CAIRN_RETURN_IF_ERROR(CheckUniqueNames(header.entries));
  // Stable, so that empty tensors at one offset keep the file's order.
  std::stable_sort(header.entries.begin(), header.entries.end(),
                   [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
                     return std::pair(a.begin, a.end) <
                            std::pair(b.begin, b.end);
                   });
  for (const SafetensorsEntry& entry : header.entries) {
    absl::Status checked = CheckEntry(entry, header.data_bytes);
    if (!checked.ok()) {
      return Annotate(std::move(checked),
                      absl::StrCat("tensor ", Quoted(entry.name)));
    }
    header.data_bytes = entry.end;
  }
  if (file_bytes - data_start != header.data_bytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "MetadataIncompleteBuffer: ", file_bytes - data_start,
        " bytes of data where the header says ", header.data_bytes));
  }
  return header;
}

}  // namespace cairn::format
