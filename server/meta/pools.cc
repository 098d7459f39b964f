#include "server/meta/pools.h"

#include <utility>

#include "format/cluster/placement.h"
#include "format/path/names.h"
#include "format/wire/common.pb.h"
#include "server/meta/edit_map.h"
#include "spdlog/spdlog.h"

namespace cairn::server {

using format::Pool;
using format::PoolId;
using format::TargetState;

namespace {

// What is asked for; counts that are 0 are left to MakePool().
Pool Wanted(const wire::CreatePoolRequest& request) {
  Pool pool;
  pool.name = request.name();
  pool.scheme.kind = static_cast<format::SchemeKind>(request.scheme().kind());
  pool.scheme.data_shards = request.scheme().data_shards();
  pool.scheme.parity_shards = request.scheme().parity_shards();
  pool.chunk_size = request.chunk_size();
  pool.stripe_width = request.stripe_width();
  pool.failure_domain =
      static_cast<format::FailureDomain>(request.failure_domain());
  pool.pg_count = request.pg_count();
  return pool;
}

bool IsAsWanted(const Pool& pool, const Pool& wanted) {
  return pool.scheme == wanted.scheme && pool.chunk_size == wanted.chunk_size &&
         pool.failure_domain == wanted.failure_domain &&
         (wanted.pg_count == 0 || pool.pg_count == wanted.pg_count) &&
         (wanted.stripe_width == 0 || pool.stripe_width == wanted.stripe_width);
}

absl::Status CheckWanted(const Pool& wanted) {
  CAIRN_RETURN_IF_ERROR(format::ValidateName(wanted.name));
  const uint32_t shards = wanted.scheme.shards();
  if (shards < 1 || shards > format::kShardsMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("a scheme of ", shards, " shards"));
  }
  if (wanted.stripe_width > wanted.pg_count && wanted.pg_count != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a stripe width of ", wanted.stripe_width, " is more than the ",
        wanted.pg_count, " placement groups"));
  }
  return absl::OkStatus();
}

absl::StatusOr<Pool> MakePool(const format::ClusterMap& map, Pool pool) {
  const uint32_t last = map.pools.empty() ? 0 : map.pools.rbegin()->first.value;
  if (last >= format::kPoolsMax) {
    return absl::ResourceExhaustedError("there are too many pools");
  }
  pool.id = PoolId(static_cast<uint16_t>(last + 1));
  format::PlacementRequest placement = PlacementOf(map, pool);
  if (pool.pg_count == 0) {
    pool.pg_count = format::DefaultPgCount(
        static_cast<uint32_t>(placement.targets.size()), pool.scheme.shards());
    placement.pg_count = pool.pg_count;
  }
  if (pool.stripe_width == 0) pool.stripe_width = pool.pg_count;
  CAIRN_ASSIGN_OR_RETURN(pool.pg_targets, format::MakePgTable(placement));
  return pool;
}

absl::StatusOr<bool> AddPool(const Pool& wanted, format::ClusterMap* map) {
  if (const Pool* const there = map->FindPool(wanted.name)) {
    if (IsAsWanted(*there, wanted)) return false;
    return absl::AlreadyExistsError(
        absl::StrCat("there is a pool ", format::EscapeForDisplay(wanted.name),
                     " with other options; see: cairn pool ls"));
  }
  CAIRN_ASSIGN_OR_RETURN(Pool pool, MakePool(*map, wanted));
  map->pools[pool.id] = std::move(pool);
  // Options that the table does not depend on are checked here.
  CAIRN_RETURN_IF_ERROR(format::ValidateMap(*map));
  return true;
}

}  // namespace

format::PlacementRequest PlacementOf(const format::ClusterMap& map,
                                     const Pool& pool) {
  format::PlacementRequest placement;
  for (const auto& [id, target] : map.targets) {
    if (target.state == TargetState::kOut ||
        target.state == TargetState::kDraining) {
      continue;
    }
    placement.targets.push_back(target);
  }
  placement.scheme = pool.scheme;
  placement.failure_domain = pool.failure_domain;
  placement.pg_count = pool.pg_count;
  placement.seed = format::Mix64(pool.id.value);
  return placement;
}

io::Task<absl::StatusOr<wire::CreatePoolResponse>> Pools::Create(
    wire::CreatePoolRequest request) {
  const io::Gate::Hold hold = core_->gate.Enter();
  const Pool wanted = Wanted(request);
  CAIRN_CO_RETURN_IF_ERROR(CheckWanted(wanted));
  MapEdit edit = [wanted](format::ClusterMap* map) {
    return AddPool(wanted, map);
  };
  const absl::StatusOr<bool> made = co_await EditMap(core_, std::move(edit));
  if (!made.ok()) co_return made.status();
  const auto map = core_->map.map();
  wire::CreatePoolResponse response;
  response.set_existed(!*made);
  response.set_epoch(map->epoch.value);
  wire::ClusterMap all;
  format::MapToProto(*map, &all);
  for (wire::Pool& pool : *all.mutable_pools()) {
    if (pool.name() != request.name()) continue;
    pool.clear_pg_targets();
    pool.clear_pg_epochs();
    pool.clear_closed_pgs();
    *response.mutable_pool() = pool;
  }
  if (*made) {
    spdlog::info("metadata: made pool {} of {} placement groups",
                 request.name(), response.pool().pg_count());
  }
  co_return response;
}

}  // namespace cairn::server
