// Which rows of a PG table may be closed to new stripes (Pool::closed_pgs)
// without leaving writers nowhere to go.
//
// Pure. A row takes new stripes if it is open and all its targets are up or
// being emptied.
#pragma once

#include <cstdint>

#include "format/cluster/cluster_map.h"

namespace cairn::server {

// True if every blob with stripes in the row has another row that takes new
// ones: no stripe_width rows after each other are without. Always true in pools
// whose blobs have one row each: their writers wait while it is closed.
bool WritersHaveOthers(const format::ClusterMap& map, const format::Pool& pool,
                       uint32_t pg);

// That, and the row is open, few of the pool's are closed already, and the pool
// keeps redundancy: a stripe that was put and not committed before is put
// elsewhere, and so must be read without the shard that moves.
bool MayClose(const format::ClusterMap& map, const format::Pool& pool,
              uint32_t pg);

}  // namespace cairn::server
