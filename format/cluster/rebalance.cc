#include "format/cluster/rebalance.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "format/base/status.h"
#include "format/cluster/domain_of.h"

namespace cairn::format {
namespace {

// Every way of choosing is by these numbers, lowest first.
using Rank = std::tuple<uint64_t, uint32_t, uint32_t>;

class Planner {
 public:
  Planner(const RebalanceRequest& request, std::map<TargetId, uint32_t> shares)
      : request_(request),
        shards_(request.placement.scheme.shards()),
        shares_(std::move(shares)),
        touched_(request.placement.pg_count, false) {
    for (const TargetInfo& target : request.placement.targets) {
      domains_[target.id] = DomainOf(target, request_.placement.failure_domain);
      counts_[target.id].resize(shards_);
    }
    for (uint32_t slot = 0; slot < request.table.size(); ++slot) {
      const TargetId target = request.table[slot];
      slots_[target].push_back(slot);
      ++totals_[target];
      const auto counts = counts_.find(target);
      if (counts != counts_.end()) ++counts->second[slot % shards_];
    }
  }

  Rebalance Plan() {
    for (uint32_t slot = 0; slot < request_.table.size() && !Full(); ++slot) {
      if (MustMove(slot)) MoveAway(slot);
    }
    while (!Full() && MoveOne()) {
    }
    return std::move(result_);
  }

 private:
  bool Full() const { return result_.moves.size() >= request_.moves_max; }
  bool MayHold(TargetId target) const { return domains_.contains(target); }
  int64_t Excess(TargetId target) const {
    const auto total = totals_.find(target);
    const int64_t has = total == totals_.end() ? 0 : total->second;
    return has - int64_t{shares_.at(target)};
  }

  // Its target may hold nothing, or an earlier one of the row is in its domain.
  bool MustMove(uint32_t slot) const {
    const TargetId own = request_.table[slot];
    if (!MayHold(own)) return true;
    for (uint32_t i = slot - slot % shards_; i < slot; ++i) {
      const auto other = domains_.find(request_.table[i]);
      if (other != domains_.end() && other->second == domains_.at(own)) {
        return true;
      }
    }
    return false;
  }

  // No other target of the row is in the domain of `to`.
  bool Fits(uint32_t slot, TargetId to) const {
    const std::string& domain = domains_.at(to);
    const uint32_t first = slot - slot % shards_;
    for (uint32_t i = first; i < first + shards_; ++i) {
      if (i == slot) continue;
      const TargetId other = request_.table[i];
      if (other == to) return false;
      const auto found = domains_.find(other);
      if (found != domains_.end() && found->second == domain) return false;
    }
    return request_.table[slot] != to;
  }

  void MoveAway(uint32_t slot) {
    if (touched_[slot / shards_]) return;  // The next proposal's.
    std::optional<std::pair<int64_t, TargetId>> best;
    for (const auto& [target, share] : shares_) {
      if (share == 0 || !Fits(slot, target)) continue;
      const std::pair<int64_t, TargetId> rank{Excess(target), target};
      if (!best || rank < *best) best = rank;
    }
    if (best) {
      Move(slot, best->second);
    } else {
      ++result_.stuck;
    }
  }

  // To the target that lacks most, from the one that has most too much of those
  // that can give it something.
  bool MoveOne() {
    std::vector<std::pair<int64_t, TargetId>> by_excess;
    for (const auto& [target, share] : shares_) {
      by_excess.emplace_back(Excess(target), target);
    }
    std::sort(by_excess.begin(), by_excess.end());
    for (const auto& [lack, to] : by_excess) {
      if (lack >= 0) return false;
      for (auto from = by_excess.rbegin(); from != by_excess.rend(); ++from) {
        if (from->first <= 0) break;
        // One too many and one too few is what rounding makes: let them be.
        if (from->first - lack < 3) break;
        const std::optional<uint32_t> slot = BestSlot(from->second, to);
        if (!slot) continue;
        Move(*slot, to);
        return true;
      }
    }
    return false;
  }

  std::optional<uint32_t> BestSlot(TargetId from, TargetId to) const {
    const std::vector<uint32_t>& to_counts = counts_.at(to);
    const std::vector<uint32_t>& from_counts = counts_.at(from);
    std::optional<std::pair<Rank, uint32_t>> best;
    for (const uint32_t slot : slots_.at(from)) {
      if (touched_[slot / shards_] || !Fits(slot, to)) continue;
      const uint32_t shard = slot % shards_;
      const Rank rank{to_counts[shard], UINT32_MAX - from_counts[shard], slot};
      if (!best || rank < best->first) best = {rank, slot};
    }
    if (!best) return std::nullopt;
    return best->second;
  }

  void Move(uint32_t slot, TargetId to) {
    const TargetId from = request_.table[slot];
    const uint32_t shard = slot % shards_;
    result_.moves.push_back({slot / shards_, shard, from, to});
    touched_[slot / shards_] = true;
    --totals_[from];
    ++totals_[to];
    ++counts_.at(to)[shard];
    const auto counts = counts_.find(from);
    if (counts != counts_.end()) --counts->second[shard];
  }

  const RebalanceRequest& request_;
  const uint32_t shards_;
  const std::map<TargetId, uint32_t> shares_;
  std::map<TargetId, std::string> domains_;  // Of those that may hold data.
  // By target: its slots in the table as given, how many it has by now, and how
  // many at each shard position.
  std::map<TargetId, std::vector<uint32_t>> slots_;
  std::map<TargetId, int64_t> totals_;
  std::map<TargetId, std::vector<uint32_t>> counts_;
  std::vector<bool> touched_;  // Rows with a move.
  Rebalance result_;
};

}  // namespace

absl::StatusOr<Rebalance> ProposeMoves(const RebalanceRequest& request) {
  CAIRN_ASSIGN_OR_RETURN(auto shares, PlacementShares(request.placement));
  const uint64_t slots =
      uint64_t{request.placement.pg_count} * request.placement.scheme.shards();
  if (request.table.size() != slots) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a PG table of ", request.table.size(), " slots instead of ", slots));
  }
  return Planner(request, std::move(shares)).Plan();
}

std::vector<TargetId> ApplyMoves(std::vector<TargetId> table, uint32_t shards,
                                 const std::vector<SlotMove>& moves) {
  for (const SlotMove& move : moves) {
    const uint64_t slot = uint64_t{move.pg} * shards + move.shard;
    CAIRN_CHECK(slot < table.size() && table[slot] == move.from);
    table[slot] = move.to;
  }
  return table;
}

}  // namespace cairn::format
