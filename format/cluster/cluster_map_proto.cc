// The cluster map on the wire: docs/format/cluster-map.md.
#include <algorithm>
#include <limits>

#include "format/base/bytes.h"
#include "format/base/status.h"
#include "format/cluster/cluster_map.h"
#include "format/wire/common.pb.h"

namespace cairn::format {
namespace {

void TargetToProto(const TargetInfo& target, wire::Target* proto) {
  proto->set_id(target.id.value);
  proto->set_address(target.address);
  proto->set_host(target.host);
  proto->set_rack(target.rack);
  proto->set_state(static_cast<uint32_t>(target.state));
  proto->set_capacity_bytes(target.capacity_bytes);
  proto->set_directory(target.directory);
}

void PoolToProto(const Pool& pool, wire::Pool* proto) {
  proto->set_id(pool.id.value);
  proto->set_name(pool.name);
  wire::Scheme* scheme = proto->mutable_scheme();
  scheme->set_data_shards(pool.scheme.data_shards);
  scheme->set_parity_shards(pool.scheme.parity_shards);
  scheme->set_kind(static_cast<uint32_t>(pool.scheme.kind));
  proto->set_chunk_size(pool.chunk_size);
  proto->set_stripe_width(pool.stripe_width);
  proto->set_failure_domain(static_cast<uint32_t>(pool.failure_domain));
  proto->set_pg_count(pool.pg_count);
  proto->mutable_pg_targets()->Reserve(
      static_cast<int>(pool.pg_targets.size()));
  for (const TargetId id : pool.pg_targets) proto->add_pg_targets(id.value);
  for (const Epoch epoch : pool.pg_epochs) proto->add_pg_epochs(epoch.value);
  for (const uint32_t pg : pool.closed_pgs) proto->add_closed_pgs(pg);
}

absl::Status Corrupt(std::string_view what) {
  return absl::DataLossError(absl::StrCat("cluster map: ", AbslText(what)));
}

// Enum values are taken as they are; ValidateMap() knows which exist.
TargetInfo TargetFromProto(const wire::Target& proto) {
  TargetInfo target;
  target.id = TargetId(proto.id());
  target.address = proto.address();
  target.host = proto.host();
  target.rack = proto.rack();
  target.state = static_cast<TargetState>(proto.state());
  target.capacity_bytes = proto.capacity_bytes();
  target.directory = proto.directory();
  return target;
}

Pool PoolFromProto(const wire::Pool& proto) {
  Pool pool;
  pool.id = PoolId(static_cast<uint16_t>(proto.id()));
  pool.name = proto.name();
  pool.scheme.kind = static_cast<SchemeKind>(proto.scheme().kind());
  pool.scheme.data_shards = proto.scheme().data_shards();
  pool.scheme.parity_shards = proto.scheme().parity_shards();
  pool.chunk_size = proto.chunk_size();
  pool.stripe_width = proto.stripe_width();
  pool.failure_domain = static_cast<FailureDomain>(proto.failure_domain());
  pool.pg_count = proto.pg_count();
  pool.pg_targets.reserve(static_cast<size_t>(proto.pg_targets_size()));
  for (const uint32_t id : proto.pg_targets()) pool.pg_targets.emplace_back(id);
  for (const uint64_t epoch : proto.pg_epochs()) {
    pool.pg_epochs.emplace_back(epoch);
  }
  pool.closed_pgs.assign(proto.closed_pgs().begin(), proto.closed_pgs().end());
  return pool;
}

}  // namespace

void MapToProto(const ClusterMap& map, wire::ClusterMap* proto) {
  proto->Clear();
  proto->set_cluster_id(std::string(AsText(map.cluster_id.bytes)));
  proto->set_epoch(map.epoch.value);
  for (const auto& [id, target] : map.targets) {
    CAIRN_CHECK(id == target.id);
    TargetToProto(target, proto->add_targets());
  }
  for (const auto& [id, pool] : map.pools) {
    CAIRN_CHECK(id == pool.id);
    PoolToProto(pool, proto->add_pools());
  }
}

absl::StatusOr<ClusterMap> MapFromProto(const wire::ClusterMap& proto) {
  ClusterMap map;
  if (proto.cluster_id().size() != map.cluster_id.bytes.size()) {
    return Corrupt(absl::StrCat("the cluster id has ",
                                proto.cluster_id().size(),
                                " bytes instead of 16"));
  }
  std::copy(proto.cluster_id().begin(), proto.cluster_id().end(),
            map.cluster_id.bytes.begin());
  map.epoch = Epoch(proto.epoch());
  for (const wire::Target& wire_target : proto.targets()) {
    TargetInfo target = TargetFromProto(wire_target);
    const TargetId id = target.id;
    if (!map.targets.emplace(id, std::move(target)).second) {
      return Corrupt(absl::StrCat("target ", id.value, " is listed twice"));
    }
  }
  for (const wire::Pool& wire_pool : proto.pools()) {
    if (wire_pool.id() > std::numeric_limits<uint16_t>::max()) {
      return Corrupt(
          absl::StrCat("pool id ", wire_pool.id(), " has more than 16 bits"));
    }
    Pool pool = PoolFromProto(wire_pool);
    const PoolId id = pool.id;
    if (!map.pools.emplace(id, std::move(pool)).second) {
      return Corrupt(absl::StrCat("pool ", id.value, " is listed twice"));
    }
  }
  const absl::Status valid = ValidateMap(map);
  if (!valid.ok()) return Corrupt(StdText(valid.message()));
  return map;
}

}  // namespace cairn::format
