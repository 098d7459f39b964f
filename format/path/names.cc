#include "format/path/names.h"

#include <algorithm>

#include "format/base/limits.h"
#include "format/base/status.h"

namespace cairn::format {
namespace {

// What one lead byte of UTF-8 promises (Unicode, table 3-7). Only the second
// byte has a range of its own: it keeps out overlong forms (C0, C1, E0 80..9F,
// F0 80..8F), surrogates (ED A0..BF) and what lies above U+10FFFF (F4 90..).
struct Lead {
  size_t bytes;
  uint8_t second_min;
  uint8_t second_max;
};

Lead LeadOf(uint8_t byte) {
  if (byte < 0x80) return {1, 0, 0};
  if (byte < 0xc2) return {0, 0, 0};
  if (byte < 0xe0) return {2, 0x80, 0xbf};
  if (byte == 0xe0) return {3, 0xa0, 0xbf};
  if (byte == 0xed) return {3, 0x80, 0x9f};
  if (byte < 0xf0) return {3, 0x80, 0xbf};
  if (byte == 0xf0) return {4, 0x90, 0xbf};
  if (byte < 0xf4) return {4, 0x80, 0xbf};
  if (byte == 0xf4) return {4, 0x80, 0x8f};
  return {0, 0, 0};
}

// Bytes of the code point at the start of `text`, which is not empty; 0 if it
// is not valid UTF-8.
size_t CodePointBytes(std::string_view text) {
  const Lead lead = LeadOf(static_cast<uint8_t>(text[0]));
  if (lead.bytes <= 1) return lead.bytes;
  if (text.size() < lead.bytes) return 0;
  const auto second = static_cast<uint8_t>(text[1]);
  if (second < lead.second_min || second > lead.second_max) return 0;
  for (size_t i = 2; i < lead.bytes; ++i) {
    if ((static_cast<uint8_t>(text[i]) & 0xc0) != 0x80) return 0;
  }
  return lead.bytes;
}

// C0, DEL, and C1 (U+0080 to U+009F), which terminals obey too.
bool IsControl(std::string_view code_point) {
  const auto first = static_cast<uint8_t>(code_point[0]);
  if (code_point.size() == 1) return first < 0x20 || first == 0x7f;
  return first == 0xc2 && static_cast<uint8_t>(code_point[1]) < 0xa0;
}

void AppendHex(std::string_view bytes, std::string* out) {
  constexpr char kDigits[] = "0123456789abcdef";
  for (const char c : bytes) {
    const auto byte = static_cast<uint8_t>(c);
    *out += "\\x";
    *out += kDigits[byte >> 4];
    *out += kDigits[byte & 15];
  }
}

absl::Status BadName(std::string_view name, std::string_view why) {
  constexpr size_t kShownBytes = 64;  // Enough to recognise it by.
  std::string shown = EscapeForDisplay(name.substr(0, kShownBytes));
  if (name.size() > kShownBytes) shown += "...";
  return absl::InvalidArgumentError(
      absl::StrCat("name \"", shown, "\": ", AbslText(why)));
}

}  // namespace

bool IsValidUtf8(std::string_view text) {
  while (!text.empty()) {
    const size_t bytes = CodePointBytes(text);
    if (bytes == 0) return false;
    text.remove_prefix(bytes);
  }
  return true;
}

absl::Status ValidateName(std::string_view name) {
  if (name.empty()) return BadName(name, "it is empty");
  if (name == "." || name == "..") {
    return BadName(name, "it is reserved");
  }
  if (name.size() > kNameBytesMax) {
    return BadName(name, absl::StrCat("it has ", name.size(),
                                      " bytes; at most ", kNameBytesMax));
  }
  if (name.find('/') != std::string_view::npos) {
    return BadName(name, "it contains '/'");
  }
  if (name.find('\0') != std::string_view::npos) {
    return BadName(name, "it contains a zero byte");
  }
  if (!IsValidUtf8(name)) return BadName(name, "it is not valid UTF-8");
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> SplitPath(std::string_view path) {
  if (path.size() > kPathBytesMax) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the path has ", path.size(), " bytes; at most ", kPathBytesMax));
  }
  if (path.empty() || path[0] != '/') {
    return absl::InvalidArgumentError(absl::StrCat(
        "path \"", EscapeForDisplay(path), "\" does not start with '/'"));
  }
  std::vector<std::string> names;
  while (!path.empty()) {
    const std::string_view name = path.substr(0, path.find('/'));
    path.remove_prefix(std::min(name.size() + 1, path.size()));
    if (name.empty()) continue;  // Repeated or trailing slash.
    CAIRN_RETURN_IF_ERROR(ValidateName(name));
    names.emplace_back(name);
  }
  return names;
}

std::string EscapeForDisplay(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const size_t bytes = CodePointBytes(text);
    const std::string_view piece = text.substr(0, std::max<size_t>(bytes, 1));
    if (bytes == 0 || IsControl(piece)) {
      AppendHex(piece, &out);
    } else {
      out += piece;
    }
    text.remove_prefix(piece.size());
  }
  return out;
}

}  // namespace cairn::format
