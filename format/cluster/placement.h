// Makes a pool's PG table: which ordered targets each placement group has.
//
// Deterministic: the same input gives the same table with every compiler and
// on every machine (integers only). Balanced: each target gets its share of
// PG slots by capacity, and of each shard position, within 1-2 slots where the
// failure domains allow it; no two shards of a PG share a failure domain.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "format/cluster/cluster_map.h"

namespace cairn::format {

struct PlacementRequest {
  std::vector<TargetInfo> targets;  // Only those that may hold data.
  Scheme scheme;
  FailureDomain failure_domain = FailureDomain::kTarget;
  uint32_t pg_count = 0;
  uint64_t seed = 0;  // The pool's id, mixed: pools differ.
};

// pg_count rows of scheme.shards() targets.
// kInvalidArgument: fewer failure domains than shards; says how many there are
// and how many are needed.
absl::StatusOr<std::vector<TargetId>> MakePgTable(
    const PlacementRequest& request);

// A PG count for `targets` targets: enough for balance, few enough to list.
uint32_t DefaultPgCount(uint32_t targets, uint32_t shards);

}  // namespace cairn::format
