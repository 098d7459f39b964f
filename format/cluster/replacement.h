// Which target takes over one shard of a row whose target is lost or leaves.
//
// Deterministic: the same input gives the same target everywhere. Not part of
// the format: the map says where a shard is.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>

#include "format/cluster/cluster_map.h"

namespace cairn::format {

// PG slots of each target: how much it has, or will have. Targets of the map
// without a slot are in it, with 0.
using TargetLoads = std::map<TargetId, uint64_t>;
TargetLoads CountSlots(const ClusterMap& map);

struct ReplacementRequest {
  const ClusterMap* map = nullptr;
  PgId pg;
  uint32_t shard = 0;  // Its target is the one to replace.
  // Targets that will be in the row, too.
  std::set<TargetId> joining;
  // Never chosen, for reasons of the caller's.
  std::set<TargetId> excluded;
  // The target that leaves could stay: none is better than one that shares a
  // failure domain with another of the row, unless that one does, too.
  bool may_stay = false;
};

// The least loaded target (by slots for its capacity) that is up, not in the
// row, and in a failure domain of its own in it; if there is none such, one
// that shares a domain: worse than apart, better than a shard less. nullopt: no
// target is left, or there is no such shard.
std::optional<TargetId> ChooseReplacement(const ReplacementRequest& request,
                                          const TargetLoads& loads);

}  // namespace cairn::format
