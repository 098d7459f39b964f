// Listing and removing checkpoint sets, as tasks on the loop. Contracts:
// ListSets() and RemoveSet() in api/checkpoint.h.
#pragma once

#include <string>
#include <vector>

#include "client/api/checkpoint.h"
#include "client/core/core.h"
#include "io/task.h"

namespace cairn::client {

io::Task<absl::StatusOr<std::vector<SetSummary>>> FetchSets(
    Core* core, std::string path, bool unpublished, io::TimeNs deadline);

io::Task<absl::Status> RemoveSetAt(Core* core, std::string path,
                                   io::TimeNs deadline);

}  // namespace cairn::client
