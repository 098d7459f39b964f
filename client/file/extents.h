// A file's extents from the metadata service, page by page.
#pragma once

#include "client/core/core.h"
#include "format/extent/extent_map.h"
#include "format/wire/meta.pb.h"
#include "io/task.h"

namespace cairn::client {

void FillExtent(const format::Extent& extent, wire::Extent* out);

// All of them. `attributes`, if not null, receives the file's.
// kDataLoss: the answer is impossible (order, overflow, emptiness).
io::Task<absl::StatusOr<format::ExtentMap>> FetchExtents(
    Core* core, uint64_t inode, io::TimeNs deadline,
    wire::Attributes* attributes = nullptr);

}  // namespace cairn::client
