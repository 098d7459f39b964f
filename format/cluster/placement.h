// Makes a pool's PG table: which ordered targets each placement group has.
//
// Deterministic: the same input gives the same table with every compiler and
// on every machine (integers only; the order of the targets does not matter).
// docs/format/placement.md states the algorithm.
//
// Balanced: a target's PG slots differ from its share by capacity by less than
// 1 (failure domain target) or 2 (host, rack), except that a domain has at most
// one slot in a PG: what a too large one cannot take goes to the others.
// Its slots at any two shard positions differ by at most 1 in every block of
// DefaultPgCount() rows. Consecutive PGs use different targets as far as they
// go, so that a blob's stripes spread. No two shards of a PG share a failure
// domain, and a target's PGs have partners drawn at random from all others, so
// that a rebuild reads from, and writes to, many.
//
// Cost: about a second for a table of half a million slots.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "absl/status/statusor.h"
#include "format/cluster/cluster_map.h"

namespace cairn::format {

struct PlacementRequest {
  // Only those that may hold data. Capacities are weights; all 0: all equal.
  std::vector<TargetInfo> targets;
  Scheme scheme;
  FailureDomain failure_domain = FailureDomain::kTarget;
  uint32_t pg_count = 0;
  uint64_t seed = 0;  // The pool's id, mixed: pools differ.
};

// pg_count rows of scheme.shards() targets.
// kInvalidArgument: fewer failure domains than shards (says how many there are
// and how many are needed); counts over the limits; a repeated target; a target
// without the host or rack that the failure domain needs, or with capacity 0
// beside others that have one.
absl::StatusOr<std::vector<TargetId>> MakePgTable(
    const PlacementRequest& request);

// How many slots of a table each of the request's targets gets: exactly those
// that MakePgTable() gives it. Errors as there.
absl::StatusOr<std::map<TargetId, uint32_t>> PlacementShares(
    const PlacementRequest& request);

// A PG count for `targets` targets: enough for balance (96 slots a target),
// few enough to list (about half a million slots); a multiple of `targets`, so
// that equal targets get exactly equal shares. At least 1.
uint32_t DefaultPgCount(uint32_t targets, uint32_t shards);

}  // namespace cairn::format
