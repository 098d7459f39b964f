// Shards that had better move: targets that came get their share.
#include <algorithm>

#include "server/meta/pools.h"
#include "server/meta/rebuild.h"
#include "server/meta/row_closing.h"
#include "spdlog/spdlog.h"

namespace cairn::server {

using format::ClusterMap;
using format::PgId;
using format::Pool;
using format::TargetId;
using format::TargetState;

namespace {

// Slots that targets have beyond their shares.
uint64_t CountBeyond(const format::RebalanceRequest& request) {
  const auto shares = format::PlacementShares(request.placement);
  if (!shares.ok()) return 0;
  std::map<TargetId, uint64_t> slots;
  for (const TargetId target : request.table) ++slots[target];
  uint64_t beyond = 0;
  for (const auto& [target, count] : slots) {
    const auto share = shares->find(target);
    const uint64_t may = share == shares->end() ? 0 : share->second;
    beyond += count - std::min(count, may);
  }
  return beyond;
}

}  // namespace

bool Rebuild::BalanceIsDue() const {
  return core_->env->NowNs() >= next_balance_ &&
         balanced_ != core_->map.epoch();
}

// Why no shard may begin to move for balance; empty: some may.
std::string Rebuild::WhyNoBalance(const ClusterMap& map) const {
  if (!core_->options.rebuild.balance) return "switched off";
  for (const auto& [id, move] : moves_) {
    if (move.cause != Cause::kBalance) return "other shards move first";
  }
  for (const auto& [id, target] : map.targets) {
    // Those without a row: nothing else would be left to balance.
    const bool leaves = WhyMove(map, id).has_value();
    if (target.state == TargetState::kUp || leaves) continue;
    return absl::StrCat("target ", id.value, " is ",
                        AbslText(format::ToString(target.state)));
  }
  return std::string();
}

// As if all moves under way had been made.
format::RebalanceRequest Rebuild::BalanceRequest(const ClusterMap& map,
                                                 const Pool& pool) const {
  format::RebalanceRequest request;
  request.placement = PlacementOf(map, pool);
  request.table = pool.pg_targets;
  for (const auto& [id, move] : moves_) {
    if (id.first.pool != pool.id) continue;
    const uint64_t slot =
        uint64_t{id.first.index} * pool.scheme.shards() + id.second;
    if (slot < request.table.size()) request.table[slot] = move.to;
  }
  // Some will be passed over: their rows are taken.
  request.moves_max = static_cast<uint32_t>(
      2 * core_->options.rebuild.moves_of_living + moves_.size());
  return request;
}

void Rebuild::TakeProposals(const Pool& pool,
                            const std::vector<format::SlotMove>& proposals,
                            const Chores::Busy& busy, Draft* draft) const {
  for (const format::SlotMove& proposal : proposals) {
    const PgId pg{pool.id, proposal.pg};
    Slot slot;
    slot.id = MoveId(pg, proposal.shard);
    slot.from = proposal.from;
    slot.cause = Cause::kBalance;
    if (!HasRoom(*draft, slot)) return;
    const auto chores = busy.find(pg);
    const bool has_chores =
        chores != busy.end() && chores->second.contains(proposal.to);
    if (!draft->joining[pg].empty() || has_chores ||
        draft->full.contains(proposal.to) ||
        !health_->Look(proposal.to).answers ||
        !MayClose(draft->map, draft->map.pools.at(pool.id), proposal.pg)) {
      continue;
    }
    Choose(slot, proposal.to, core_->options.rebuild.moves_per_target, draft);
  }
}

void Rebuild::Balance(const Chores::Busy& busy, Draft* draft) {
  const auto map = core_->map.map();
  next_balance_ = core_->env->NowNs() + kBalancePauseNs;
  balance_waits_ = WhyNoBalance(*map);
  balance_waiting_ = 0;
  for (const auto& [id, pool] : map->pools) {
    if (pool.scheme.parity_shards == 0) continue;  // MayClose() never.
    const format::RebalanceRequest request = BalanceRequest(*map, pool);
    const absl::StatusOr<format::Rebalance> proposed =
        format::ProposeMoves(request);
    if (!proposed.ok()) {  // Too few failure domains are left, say.
      spdlog::debug("metadata: pool {} is not balanced: {}", pool.name,
                    StdText(proposed.status().message()));
      continue;
    }
    if (proposed->moves.empty()) continue;
    balance_waiting_ +=
        std::max<uint64_t>(proposed->moves.size(), CountBeyond(request));
    if (balance_waits_.empty()) {
      TakeProposals(pool, proposed->moves, busy, draft);
    }
  }
  if (balance_waiting_ == 0) balanced_ = map->epoch;
  balance_waiting_ -= std::min(balance_waiting_, draft->changes.size());
}

}  // namespace cairn::server
