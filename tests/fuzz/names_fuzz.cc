// Any bytes as a name, a path and a text for the terminal.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "format/base/limits.h"
#include "format/base/status.h"
#include "format/path/names.h"

namespace cairn::format {
namespace {

void CheckDisplay(std::string_view text) {
  const std::string shown = EscapeForDisplay(text);
  CAIRN_CHECK(IsValidUtf8(shown));
  CAIRN_CHECK(EscapeForDisplay(shown) == shown);  // Nothing left to escape.
  for (const char c : shown) {
    CAIRN_CHECK(static_cast<uint8_t>(c) >= 0x20 && c != 0x7f);
  }
}

void CheckName(std::string_view text) {
  if (!ValidateName(text).ok()) return;
  CAIRN_CHECK(!text.empty() && text.size() <= kNameBytesMax);
  CAIRN_CHECK(IsValidUtf8(text));
  CAIRN_CHECK(text != "." && text != "..");
  CAIRN_CHECK(text.find('/') == std::string_view::npos);
  CAIRN_CHECK(text.find('\0') == std::string_view::npos);
  const auto names = SplitPath("/" + std::string(text));
  CAIRN_CHECK(names.ok() && names->size() == 1 && names->front() == text);
}

void CheckPath(std::string_view text) {
  const auto names = SplitPath(text);
  if (!names.ok()) return;
  std::string joined = "/";
  for (const std::string& name : *names) {
    CAIRN_CHECK(ValidateName(name).ok());
    if (joined.size() > 1) joined += '/';
    joined += name;
  }
  CAIRN_CHECK(joined.size() <= text.size());
  const auto again = SplitPath(joined);
  CAIRN_CHECK(again.ok() && *again == *names);
}

}  // namespace
}  // namespace cairn::format

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  cairn::format::CheckDisplay(text);
  cairn::format::CheckName(text);
  cairn::format::CheckPath(text);
  return 0;
}
