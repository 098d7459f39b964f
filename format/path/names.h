// Rules for names and paths, in one place for servers and clients.
//
// A name is one component: 1 to 255 bytes of valid UTF-8, not "." or "..",
// without '/' and NUL. A path is absolute, its components are names; repeated
// and trailing slashes are ignored; "/" is the root.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace cairn::format {

bool IsValidUtf8(std::string_view text);

// kInvalidArgument says which rule `name` breaks (control bytes escaped).
absl::Status ValidateName(std::string_view name);

// The components of `path`. kInvalidArgument as above, also when it is not
// absolute or longer than kPathBytesMax.
absl::StatusOr<std::vector<std::string>> SplitPath(std::string_view path);

// For messages and terminals: control bytes and invalid UTF-8 as \xNN.
std::string EscapeForDisplay(std::string_view text);

}  // namespace cairn::format
