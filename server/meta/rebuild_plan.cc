// What a rebuild moves, and where to.
#include <algorithm>
#include <set>

#include "format/base/fault_points.h"
#include "server/meta/rebuild.h"
#include "spdlog/spdlog.h"

namespace cairn::server {

using format::ClusterMap;
using format::PgId;
using format::Pool;
using format::TargetId;
using format::TargetState;

namespace {

bool IsOut(const ClusterMap& map, TargetId id) {
  const format::TargetInfo* const target = map.FindTarget(id);
  return target == nullptr || target->state == TargetState::kOut;
}

uint32_t CountReadable(const ClusterMap& map, std::span<const TargetId> row) {
  return static_cast<uint32_t>(
      std::count_if(row.begin(), row.end(),
                    [&](TargetId target) { return map.MayRead(target); }));
}

}  // namespace

// --- Targets that stay away.

// Why the target must stay what it is, if `without` is the map in which it is
// out; empty: no reason.
std::string Rebuild::WhyNotOut(const ClusterMap& without,
                               TargetId target) const {
  const format::TargetLoads loads = format::CountSlots(without);
  for (const auto& [id, pool] : without.pools) {
    for (uint32_t pg = 0; pg < pool.pg_count; ++pg) {
      const auto row = pool.PgTargets(pg);
      const auto place = std::find(row.begin(), row.end(), target);
      if (place == row.end()) continue;
      if (CountReadable(without, row) < pool.scheme.data_shards) {
        return absl::StrCat("without it too few targets of PG ", pg,
                            " of pool ", pool.name, " can be read");
      }
      format::ReplacementRequest request;
      request.map = &without;
      request.pg = {id, pg};
      request.shard = static_cast<uint32_t>(place - row.begin());
      if (!format::ChooseReplacement(request, loads)) {
        return absl::StrCat("no other target could take its place in PG ", pg,
                            " of pool ", pool.name, ": add one");
      }
    }
  }
  return std::string();
}

io::Task<absl::Status> Rebuild::TakeOut() {
  const auto map = core_->map.map();
  ClusterMap next = *map;
  next.epoch = format::Epoch(map->epoch.value + 1);
  std::vector<TargetId> taken;
  for (const auto& [id, target] : map->targets) {
    if (target.state != TargetState::kDown) continue;
    const HealthMonitor::View view = health_->Look(id);
    if (view.answers ||
        view.in_state_ns < core_->options.rebuild.out_after_ns) {
      continue;
    }
    next.targets.at(id).state = TargetState::kOut;
    const std::string reason = WhyNotOut(next, id);
    if (reason.empty()) {
      taken.push_back(id);
      continue;
    }
    CAIRN_SOMETIMES(true, "meta.rebuild.not_taken_out");
    next.targets.at(id).state = TargetState::kDown;
    found_.push_back(absl::StrCat("target ", id.value,
                                  " is down and stays in its rows: ", reason));
  }
  if (taken.empty()) co_return absl::OkStatus();
  const absl::Status replaced = co_await core_->map.Replace(std::move(next));
  if (IsConflict(replaced)) co_return absl::OkStatus();  // Next round.
  CAIRN_CO_RETURN_IF_ERROR(replaced);
  for (const TargetId id : taken) {
    CAIRN_SOMETIMES(true, "meta.rebuild.taken_out");
    spdlog::warn(
        "metadata: target {} was down for too long and is out now: its shards "
        "are made on others (map epoch {})",
        id.value, core_->map.epoch().value);
  }
  co_return absl::OkStatus();
}

// --- Moves under a map that others change.

Rebuild::Worth Rebuild::WorthOf(const ClusterMap& map, const MoveId& id,
                                const Move& move) const {
  const Pool* const pool = map.FindPool(id.first.pool);
  if (pool == nullptr || id.first.index >= pool->pg_count ||
      id.second >= pool->scheme.shards()) {
    return Worth::kPointless;
  }
  const auto row = pool->PgTargets(id.first.index);
  if (row[id.second] == move.to) return Worth::kSwitched;
  const bool in_row = std::find(row.begin(), row.end(), move.to) != row.end();
  if (row[id.second] != move.from || !IsOut(map, move.from) || in_row ||
      IsOut(map, move.to) || move.home_failures >= kHomeFailuresMax) {
    return Worth::kPointless;
  }
  if (!map.MayRead(move.to) && HasOtherHome(map, id)) return Worth::kPointless;
  if (map.PgEpoch(*pool, id.first.index) != move.fence) {
    return Worth::kFencedAgain;
  }
  return Worth::kGoesOn;
}

bool Rebuild::HasOtherHome(const ClusterMap& map, const MoveId& id) const {
  format::ReplacementRequest request;
  request.map = &map;
  request.pg = id.first;
  request.shard = id.second;
  request.joining = JoiningOf(id.first);
  return format::ChooseReplacement(request, format::CountSlots(map))
      .has_value();
}

io::Task<absl::Status> Rebuild::Reconcile() {
  const auto map = core_->map.map();
  std::vector<Change> changes;
  for (auto& [id, move] : moves_) {
    Change change;
    change.id = id;
    switch (WorthOf(*map, id, move)) {
      case Worth::kGoesOn:
        continue;
      case Worth::kSwitched:
        change.kind = Change::Kind::kEnd;
        break;
      case Worth::kPointless:
        // Those that look lost now may all be back in a moment.
        if (Braked()) continue;
        CAIRN_SOMETIMES(true, "meta.rebuild.given_up");
        change.kind = Change::Kind::kCancel;
        break;
      case Worth::kFencedAgain:
        // What is there stays, and is only looked through again.
        CAIRN_SOMETIMES(true, "meta.rebuild.fenced_again");
        move.done = false;
        move.fence = map->PgEpoch(map->pools.at(id.first.pool), id.first.index);
        break;
    }
    change.move = move;
    changes.push_back(std::move(change));
  }
  co_return co_await Store(std::move(changes));
}

// --- Shards that need a home.

std::vector<Rebuild::Slot> Rebuild::FindSlots(const ClusterMap& map) const {
  std::vector<Slot> slots;
  const bool any = std::any_of(
      map.targets.begin(), map.targets.end(),
      [](const auto& t) { return t.second.state == TargetState::kOut; });
  if (!any) return slots;
  for (const auto& [id, pool] : map.pools) {
    for (uint32_t pg = 0; pg < pool.pg_count; ++pg) {
      const auto row = pool.PgTargets(pg);
      const uint32_t readable = CountReadable(map, row);
      for (uint32_t shard = 0; shard < row.size(); ++shard) {
        if (!IsOut(map, row[shard])) continue;
        Slot slot;
        slot.id = MoveId(PgId{id, pg}, shard);
        slot.from = row[shard];
        slot.spare = readable - std::min(readable, pool.scheme.data_shards);
        if (!moves_.contains(slot.id)) slots.push_back(slot);
      }
    }
  }
  // Those that can lose least come first.
  std::stable_sort(
      slots.begin(), slots.end(),
      [](const Slot& a, const Slot& b) { return a.spare < b.spare; });
  return slots;
}

std::set<TargetId> Rebuild::JoiningOf(PgId pg) const {
  std::set<TargetId> joining;
  for (auto it = moves_.lower_bound(MoveId(pg, 0));
       it != moves_.end() && it->first.first == pg; ++it) {
    joining.insert(it->second.to);
  }
  return joining;
}

std::vector<Rebuild::Change> Rebuild::ChooseHomes(
    const ClusterMap& map, const std::vector<Slot>& slots,
    const Chores::Busy& busy) {
  format::TargetLoads loads = format::CountSlots(map);
  std::map<TargetId, uint32_t> coming;
  for (const auto& [id, move] : moves_) {
    ++loads[move.to];
    ++coming[move.to];
  }
  std::vector<Change> changes;
  std::map<PgId, std::set<TargetId>> joining;
  const uint64_t room =
      core_->options.rebuild.moves -
      std::min<uint64_t>(core_->options.rebuild.moves, moves_.size());
  for (const Slot& slot : slots) {
    if (changes.size() >= room) break;
    const PgId pg = slot.id.first;
    const Pool& pool = map.pools.at(pg.pool);
    format::ReplacementRequest request;
    request.map = &map;
    request.pg = pg;
    request.shard = slot.id.second;
    request.joining = JoiningOf(pg);
    request.joining.insert(joining[pg].begin(), joining[pg].end());
    // One row's losses at a time, as many as the scheme allows.
    if (request.joining.size() >= pool.scheme.parity_shards) continue;
    const auto chores = busy.find(pg);
    if (chores != busy.end()) request.excluded = chores->second;
    for (const auto& [target, count] : coming) {
      if (count >= core_->options.rebuild.moves_per_target) {
        request.excluded.insert(target);
      }
    }
    const auto home = format::ChooseReplacement(request, loads);
    if (!home) continue;
    ++loads[*home];
    ++coming[*home];
    joining[pg].insert(*home);
    Change change;
    change.id = slot.id;
    change.move.from = slot.from;
    change.move.to = *home;
    change.move.fence = map.PgEpoch(pool, pg.index);
    changes.push_back(std::move(change));
  }
  return changes;
}

io::Task<absl::Status> Rebuild::Plan() {
  const std::vector<Slot> slots = FindSlots(*core_->map.map());
  waiting_ = slots.size();
  if (slots.empty()) co_return absl::OkStatus();
  const absl::StatusOr<Chores::Busy> busy = co_await chores_->FindBusy();
  if (!busy.ok()) co_return busy.status();
  // The map as it is now; the slots are looked up again in it.
  const auto map = core_->map.map();
  const std::vector<Slot> now = FindSlots(*map);
  std::vector<Change> changes = ChooseHomes(*map, now, *busy);
  const uint64_t planned = changes.size();
  CAIRN_CO_RETURN_IF_ERROR(co_await Store(std::move(changes)));
  waiting_ = now.size() - planned;
  if (planned == 0 && moves_.empty() && waiting_ > 0) {
    found_.push_back(absl::StrCat(
        waiting_,
        " shards of targets that are out have nowhere to go: other "
        "targets must be up, or be added"));
  }
  co_return absl::OkStatus();
}

// --- Storing.

io::Task<absl::Status> Rebuild::StoreIn(Txn* txn, const Chores* chores,
                                        std::vector<Change> part) {
  for (const Change& change : part) {
    const std::string key = format::MoveKey(change.id.first, change.id.second);
    if (change.kind == Change::Kind::kPut) {
      store::Move record;
      record.set_from(change.move.from.value);
      record.set_to(change.move.to.value);
      record.set_fence_epoch(change.move.fence.value);
      txn->Put(key, record);
      continue;
    }
    txn->Delete(key);
    // What it has made by then is nobody's.
    if (change.kind == Change::Kind::kCancel) {
      chores->Add(txn, format::GroupChore::kDrop, change.move.to,
                  change.id.first);
    }
  }
  co_return absl::OkStatus();
}

// In the store first, then in memory.
io::Task<absl::Status> Rebuild::Store(std::vector<Change> changes) {
  for (size_t at = 0; at < changes.size(); at += kMovesPerTxn) {
    const size_t end = std::min<size_t>(changes.size(), at + kMovesPerTxn);
    const std::vector<Change> part(
        changes.begin() + static_cast<ptrdiff_t>(at),
        changes.begin() + static_cast<ptrdiff_t>(end));
    TxnBody body = [chores = chores_, &part](Txn* txn) {
      return StoreIn(txn, chores, part);
    };
    CAIRN_CO_RETURN_IF_ERROR(co_await RunTxn(core_, std::move(body)));
    for (const Change& change : part) {
      if (change.kind == Change::Kind::kPut) {
        moves_.try_emplace(change.id, change.move);
      } else {
        moves_.erase(change.id);
      }
    }
  }
  co_return absl::OkStatus();
}

}  // namespace cairn::server
