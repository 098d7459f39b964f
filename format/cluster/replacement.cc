#include "format/cluster/replacement.h"

#include <algorithm>
#include <string>

#include "absl/numeric/int128.h"
#include "format/cluster/domain_of.h"

namespace cairn::format {
namespace {

// Smaller is better.
struct Rank {
  bool shares_domain = false;
  absl::uint128 load = 0;
  uint64_t tie = 0;
  friend bool operator<(const Rank& a, const Rank& b) {
    if (a.shares_domain != b.shares_domain) return b.shares_domain;
    if (a.load != b.load) return a.load < b.load;
    return a.tie < b.tie;
  }
};

// Slots for the capacity, as a fraction that compares.
absl::uint128 LoadOf(const TargetInfo& target, const TargetLoads& loads) {
  const auto found = loads.find(target.id);
  const uint64_t slots = found == loads.end() ? 0 : found->second;
  const uint64_t capacity = std::max<uint64_t>(1, target.capacity_bytes);
  return (absl::uint128(slots + 1) << 64) / capacity;
}

// The others in the row, and those that will be.
std::set<TargetId> MembersOf(const ReplacementRequest& request,
                             const Pool& pool) {
  std::set<TargetId> members = request.joining;
  const std::span<const TargetId> row = pool.PgTargets(request.pg.index);
  for (uint32_t shard = 0; shard < row.size(); ++shard) {
    if (shard != request.shard) members.insert(row[shard]);
  }
  return members;
}

}  // namespace

TargetLoads CountSlots(const ClusterMap& map) {
  TargetLoads loads;
  for (const auto& [id, target] : map.targets) loads[id] = 0;
  for (const auto& [id, pool] : map.pools) {
    for (const TargetId target : pool.pg_targets) ++loads[target];
  }
  return loads;
}

std::optional<TargetId> ChooseReplacement(const ReplacementRequest& request,
                                          const TargetLoads& loads) {
  const Pool* const pool = request.map->FindPool(request.pg.pool);
  if (pool == nullptr || request.pg.index >= pool->pg_count ||
      request.shard >= pool->scheme.shards()) {
    return std::nullopt;
  }
  const std::set<TargetId> members = MembersOf(request, *pool);
  std::set<std::string> domains;
  for (const TargetId member : members) {
    const TargetInfo* const info = request.map->FindTarget(member);
    if (info != nullptr) domains.insert(DomainOf(*info, pool->failure_domain));
  }
  const TargetId leaving = pool->PgTargets(request.pg.index)[request.shard];
  const TargetInfo* const own = request.map->FindTarget(leaving);
  const bool apart = request.may_stay && own != nullptr &&
                     !domains.contains(DomainOf(*own, pool->failure_domain));
  std::optional<TargetId> best;
  Rank best_rank;
  for (const auto& [id, target] : request.map->targets) {
    if (target.state != TargetState::kUp || id == leaving ||
        members.contains(id) || request.excluded.contains(id)) {
      continue;
    }
    Rank rank;
    rank.shares_domain =
        domains.contains(DomainOf(target, pool->failure_domain));
    if (apart && rank.shares_domain) continue;
    rank.load = LoadOf(target, loads);
    // Rows spread over targets that are as good.
    rank.tie = Mix64(uint64_t{request.pg.index} << 32 | id.value);
    if (best && !(rank < best_rank)) continue;
    best = id;
    best_rank = rank;
  }
  return best;
}

}  // namespace cairn::format
