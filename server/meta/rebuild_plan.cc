// Targets that go out, moves that have lost their point, and how moves are
// stored. What is to move is chosen in rebuild_homes.cc and rebuild_balance.cc.
#include <algorithm>
#include <set>

#include "format/base/fault_points.h"
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

bool IsOut(const ClusterMap& map, TargetId id) {
  const format::TargetInfo* const target = map.FindTarget(id);
  return target == nullptr || target->state == TargetState::kOut;
}

// May be given shards, and keep those it was given.
bool MayBeHome(const ClusterMap& map, TargetId id) {
  const format::TargetInfo* const target = map.FindTarget(id);
  return target != nullptr && target->state != TargetState::kOut &&
         target->state != TargetState::kDraining;
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
  if (row[id.second] != move.from || in_row || !MayBeHome(map, move.to) ||
      move.failures >= kHomeFailuresMax || !HasCause(map, id, move)) {
    return Worth::kPointless;
  }
  // What is not lost can begin anew at any time.
  if (!map.MayRead(move.to) &&
      (move.cause != Cause::kLost || HasOtherHome(map, id))) {
    return Worth::kPointless;
  }
  if (map.PgEpoch(*pool, id.first.index) != move.fence) {
    return Worth::kFencedAgain;
  }
  return Worth::kGoesOn;
}

// A target may be lost while it is emptied: reason enough for any move.
bool Rebuild::HasCause(const ClusterMap& map, const MoveId& id,
                       const Move& move) const {
  if (IsOut(map, move.from)) return true;
  if (move.cause == Cause::kLost) return false;
  const Pool& pool = map.pools.at(id.first.pool);
  const bool wanted =
      move.cause == Cause::kDrain
          ? map.FindTarget(move.from)->state == TargetState::kDraining
          : core_->options.rebuild.balance;
  return wanted && pool.IsClosed(id.first.index) &&
         WritersHaveOthers(map, pool, id.first.index);
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
        // Those that look lost now may all be back in a moment. A row that is
        // closed in vain is opened all the same.
        if (Braked() && move.cause == Cause::kLost) continue;
        CAIRN_SOMETIMES(true, "meta.rebuild.given_up");
        CAIRN_SOMETIMES(move.cause != Cause::kLost, "meta.rebuild.opened");
        change.kind = Change::Kind::kCancel;
        break;
      case Worth::kFencedAgain:
        // What is there stays, and is only looked through again.
        CAIRN_SOMETIMES(true, "meta.rebuild.fenced_again");
        change.kind = Change::Kind::kFence;
        move.done = false;
        move.fence = map->PgEpoch(map->pools.at(id.first.pool), id.first.index);
        break;
    }
    change.move = move;
    changes.push_back(std::move(change));
  }
  CAIRN_CO_RETURN_IF_ERROR(co_await Store(std::move(changes)));
  co_return co_await OpenStray();
}

std::set<TargetId> Rebuild::JoiningOf(PgId pg) const {
  std::set<TargetId> joining;
  for (auto it = moves_.lower_bound(MoveId(pg, 0));
       it != moves_.end() && it->first.first == pg; ++it) {
    joining.insert(it->second.to);
  }
  return joining;
}

// Rows that are closed for no move of ours.
std::vector<PgId> Rebuild::FindStray(const ClusterMap& map) const {
  std::set<PgId> owned;
  for (const auto& [id, move] : moves_) {
    if (move.cause != Cause::kLost) owned.insert(id.first);
  }
  std::vector<PgId> stray;
  for (const auto& [id, pool] : map.pools) {
    for (const uint32_t index : pool.closed_pgs) {
      const PgId pg{id, index};
      if (!owned.contains(pg)) stray.push_back(pg);
    }
  }
  return stray;
}

// A transaction whose outcome was unknown may have stored a move.
io::Task<absl::Status> Rebuild::OpenStray() {
  if (FindStray(*core_->map.map()).empty()) co_return absl::OkStatus();
  CAIRN_CO_RETURN_IF_ERROR(co_await Load());
  const auto map = core_->map.map();
  const std::vector<PgId> stray = FindStray(*map);
  if (stray.empty()) co_return absl::OkStatus();
  ClusterMap next = *map;
  next.epoch = format::Epoch(map->epoch.value + 1);
  for (const PgId& pg : stray) next.pools.at(pg.pool).Open(pg.index);
  const absl::Status replaced = co_await core_->map.Replace(std::move(next));
  if (IsConflict(replaced)) co_return absl::OkStatus();  // Next round.
  co_return replaced;
}

// --- Storing.

void Rebuild::Write(Txn* txn, const Chores* chores,
                    const std::vector<Change>& part) {
  for (const Change& change : part) {
    const std::string key = format::MoveKey(change.id.first, change.id.second);
    if (change.kind == Change::Kind::kStart ||
        change.kind == Change::Kind::kFence) {
      store::Move record;
      record.set_from(change.move.from.value);
      record.set_to(change.move.to.value);
      record.set_fence_epoch(change.move.fence.value);
      record.set_cause(static_cast<uint32_t>(change.move.cause));
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
}

io::Task<absl::Status> Rebuild::WriteIn(Txn* txn, const Chores* chores,
                                        const std::vector<Change>* part) {
  Write(txn, chores, *part);
  co_return absl::OkStatus();
}

// In the store first, then in memory.
io::Task<absl::Status> Rebuild::Store(std::vector<Change> changes) {
  for (size_t at = 0; at < changes.size(); at += kMovesPerTxn) {
    const size_t end = std::min<size_t>(changes.size(), at + kMovesPerTxn);
    std::vector<Change> part(changes.begin() + static_cast<ptrdiff_t>(at),
                             changes.begin() + static_cast<ptrdiff_t>(end));
    CAIRN_CO_RETURN_IF_ERROR(co_await StorePart(std::move(part)));
  }
  co_return absl::OkStatus();
}

io::Task<absl::Status> Rebuild::StorePart(std::vector<Change> part) {
  const bool with_map =
      std::any_of(part.begin(), part.end(), [](const Change& change) {
        return change.move.cause != Cause::kLost &&
               (change.kind == Change::Kind::kStart ||
                change.kind == Change::Kind::kCancel);
      });
  if (with_map) {
    const absl::StatusOr<bool> stored = co_await StoreWithMap(&part);
    if (!stored.ok()) co_return stored.status();
    if (!*stored) co_return absl::OkStatus();  // Next round.
  } else {
    const std::vector<Change>* const all = &part;
    TxnBody body = [chores = chores_, all](Txn* txn) {
      return WriteIn(txn, chores, all);
    };
    CAIRN_CO_RETURN_IF_ERROR(co_await RunTxn(core_, std::move(body)));
  }
  for (const Change& change : part) {
    if (change.kind == Change::Kind::kStart) {
      moves_.try_emplace(change.id, change.move);
    } else if (change.kind != Change::Kind::kFence) {
      moves_.erase(change.id);
    }
  }
  co_return absl::OkStatus();
}

// Rows close when their moves begin and open when they are given up. The fence
// is the epoch at which they closed.
io::Task<absl::StatusOr<bool>> Rebuild::StoreWithMap(
    std::vector<Change>* part) {
  const auto map = core_->map.map();
  ClusterMap next = *map;
  next.epoch = format::Epoch(map->epoch.value + 1);
  for (Change& change : *part) {
    if (change.move.cause == Cause::kLost) continue;
    const PgId pg = change.id.first;
    const auto pool = next.pools.find(pg.pool);
    if (pool == next.pools.end() || pg.index >= pool->second.pg_count) continue;
    if (change.kind == Change::Kind::kStart) {
      pool->second.Close(pg.index);
      change.move.fence = next.epoch;
    } else if (change.kind == Change::Kind::kCancel) {
      pool->second.Open(pg.index);
    }
  }
  const std::vector<Change>* const all = part;
  MapHolder::AlsoWrite also = [chores = chores_, all](Txn* txn) {
    Write(txn, chores, *all);
  };
  const absl::Status replaced =
      co_await core_->map.Replace(std::move(next), std::move(also));
  if (IsConflict(replaced)) co_return false;
  CAIRN_CO_RETURN_IF_ERROR(replaced);
  co_return true;
}

}  // namespace cairn::server
