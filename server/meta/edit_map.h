// EditMap: one change of the cluster map, made again on the newest map until it
// is stored.
//
// Threads: one loop. Lifetime: as the Core.
#pragma once

#include <functional>

#include "server/meta/core.h"

namespace cairn::server {

// Changes the map; the epoch is set by EditMap. False: nothing is to be
// changed. An error ends it; nothing is stored. May run several times.
using MapEdit = std::function<absl::StatusOr<bool>(format::ClusterMap* map)>;

// True: the map was changed, and is on stable storage. False: there was nothing
// to change. Errors: of `edit`, and MapHolder::Replace(); kUnavailable: the map
// changes too often, or the store failed.
io::Task<absl::StatusOr<bool>> EditMap(Core* core, MapEdit edit);

}  // namespace cairn::server
