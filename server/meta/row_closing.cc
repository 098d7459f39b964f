#include "server/meta/row_closing.h"

#include <algorithm>

#include "server/meta/limits.h"

namespace cairn::server {

using format::ClusterMap;
using format::Pool;
using format::TargetId;
using format::TargetState;

namespace {

bool TakesStripes(const ClusterMap& map, const Pool& pool, uint32_t pg) {
  if (pool.IsClosed(pg)) return false;
  const auto row = pool.PgTargets(pg);
  return std::all_of(row.begin(), row.end(), [&map](TargetId id) {
    const format::TargetInfo* const target = map.FindTarget(id);
    return target != nullptr && (target->state == TargetState::kUp ||
                                 target->state == TargetState::kDraining);
  });
}

// How many rows further, by `step` at a time, the next is that takes stripes;
// more than stripe_width if none of those near does.
uint32_t WayToNext(const ClusterMap& map, const Pool& pool, uint32_t pg,
                   uint32_t step) {
  uint64_t row = pg;
  for (uint32_t way = 1; way < pool.stripe_width; ++way) {
    row = (row + step) % pool.pg_count;
    if (TakesStripes(map, pool, static_cast<uint32_t>(row))) return way;
  }
  return pool.stripe_width + 1;
}

}  // namespace

bool WritersHaveOthers(const ClusterMap& map, const Pool& pool, uint32_t pg) {
  if (pool.stripe_width < 2) return true;
  const uint32_t after = WayToNext(map, pool, pg, 1);
  const uint32_t before = WayToNext(map, pool, pg, pool.pg_count - 1);
  // The rows between those two, this one included, are fewer than a blob has.
  return after + before <= pool.stripe_width;
}

bool MayClose(const ClusterMap& map, const Pool& pool, uint32_t pg) {
  if (pool.scheme.parity_shards == 0) return false;
  const uint64_t most = std::max(1u, pool.pg_count / kClosedRowsShare);
  return !pool.IsClosed(pg) && pool.closed_pgs.size() < most &&
         WritersHaveOthers(map, pool, pg);
}

}  // namespace cairn::server
