// From errno to the status codes of io/env.h; the one table.
//
// Threads: any.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace cairn::io {

// "ENOENT", or "errno 4711" for one that has no name.
std::string ErrnoName(int error);

// `error` is an errno (positive). The message: "what: ENOENT (No such file or
// directory)".
absl::Status ErrnoStatus(int error, std::string_view what);

// The call was interrupted or would have had to wait: do it again.
bool IsTransient(int error);

}  // namespace cairn::io
