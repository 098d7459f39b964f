// Whether any file refers to a stripe of a blob: what a rebuild asks about the
// stripes that it cannot make.
#pragma once

#include "absl/status/statusor.h"
#include "server/meta/core.h"

namespace cairn::server {

// True if an extent of any file, unpublished ones too, covers a byte of the
// stripe; also if that would take too long to find out. Not for stripes that
// could still be committed: the caller has fenced their row.
io::Task<absl::StatusOr<bool>> StripeIsInUse(Core* core, format::BlobId blob,
                                             uint32_t stripe);

}  // namespace cairn::server
