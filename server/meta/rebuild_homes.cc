// Shards that must move, and where to.
#include <algorithm>

#include "server/meta/rebuild.h"
#include "server/meta/row_closing.h"

namespace cairn::server {

using format::ClusterMap;
using format::PgId;
using format::Pool;
using format::TargetId;
using format::TargetState;

std::optional<Rebuild::Cause> Rebuild::WhyMove(const ClusterMap& map,
                                               TargetId target) {
  const format::TargetInfo* const info = map.FindTarget(target);
  if (info == nullptr || info->state == TargetState::kOut) return Cause::kLost;
  if (info->state == TargetState::kDraining) return Cause::kDrain;
  return std::nullopt;
}

bool Rebuild::CanRead(const ClusterMap& map, TargetId target) const {
  if (!map.MayRead(target)) return false;
  return map.FindTarget(target)->state != TargetState::kDraining ||
         health_->Look(target).answers;
}

uint32_t Rebuild::CountReadable(const ClusterMap& map,
                                std::span<const TargetId> row) const {
  return static_cast<uint32_t>(
      std::count_if(row.begin(), row.end(),
                    [&](TargetId target) { return CanRead(map, target); }));
}

// Those that must be first, first.
std::vector<Rebuild::Slot> Rebuild::FindSlots(const ClusterMap& map) const {
  std::vector<Slot> slots;
  // Tables are long, and those that leave are few.
  std::map<TargetId, Cause> leaving;
  for (const auto& [id, target] : map.targets) {
    if (const auto cause = WhyMove(map, id)) leaving.emplace(id, *cause);
  }
  if (leaving.empty()) return slots;
  for (const auto& [id, pool] : map.pools) {
    for (uint32_t pg = 0; pg < pool.pg_count; ++pg) {
      const auto row = pool.PgTargets(pg);
      for (uint32_t shard = 0; shard < row.size(); ++shard) {
        const auto found = leaving.find(row[shard]);
        if (found == leaving.end()) continue;
        Slot slot;
        slot.id = MoveId(PgId{id, pg}, shard);
        if (moves_.contains(slot.id)) continue;
        slot.from = row[shard];
        slot.cause = found->second;
        const uint32_t readable = CountReadable(map, row);
        slot.spare = readable - std::min(readable, pool.scheme.data_shards);
        slots.push_back(slot);
      }
    }
  }
  // Then those that can lose least.
  std::stable_sort(
      slots.begin(), slots.end(), [](const Slot& a, const Slot& b) {
        return std::pair(a.cause, a.spare) < std::pair(b.cause, b.spare);
      });
  return slots;
}

Rebuild::Draft Rebuild::StartDraft(const ClusterMap& map) const {
  Draft draft;
  draft.map = map;
  draft.loads = format::CountSlots(map);
  draft.moves = moves_.size();
  for (const auto& [id, move] : moves_) {
    ++draft.loads[move.to];
    draft.joining[id.first].insert(move.to);
    if (move.cause == Cause::kLost) {
      ++draft.lost[id.first];
    } else {
      ++draft.moves_of_living;
    }
    const uint32_t coming = ++draft.coming[move.to];
    if (coming >= core_->options.rebuild.moves_per_target) {
      draft.full.insert(move.to);
    }
  }
  return draft;
}

bool Rebuild::HasRoom(const Draft& draft, const Slot& slot) const {
  if (draft.moves >= core_->options.rebuild.moves) return false;
  if (slot.cause == Cause::kLost) return true;
  return draft.moves_of_living < core_->options.rebuild.moves_of_living;
}

void Rebuild::Choose(const Slot& slot, TargetId home, uint32_t home_max,
                     Draft* draft) {
  const PgId pg = slot.id.first;
  Pool& pool = draft->map.pools.at(pg.pool);
  Change change;
  change.id = slot.id;
  change.move.from = slot.from;
  change.move.to = home;
  change.move.cause = slot.cause;
  change.move.fence = draft->map.PgEpoch(pool, pg.index);
  draft->changes.push_back(std::move(change));
  ++draft->moves;
  ++draft->loads[home];
  if (++draft->coming[home] >= home_max) draft->full.insert(home);
  draft->joining[pg].insert(home);
  if (slot.cause == Cause::kLost) {
    ++draft->lost[pg];
  } else {
    ++draft->moves_of_living;
    pool.Close(pg.index);
  }
}

void Rebuild::ChooseHomes(const std::vector<Slot>& slots,
                          const Chores::Busy& busy, Draft* draft) const {
  for (const Slot& slot : slots) {
    if (!HasRoom(*draft, slot)) break;
    const PgId pg = slot.id.first;
    const Pool& pool = draft->map.pools.at(pg.pool);
    format::ReplacementRequest request;
    request.map = &draft->map;
    request.pg = pg;
    request.shard = slot.id.second;
    request.joining = draft->joining[pg];
    if (slot.cause == Cause::kLost) {
      // One row's losses at a time, as many as the scheme allows.
      if (draft->lost[pg] >= pool.scheme.parity_shards) continue;
    } else {
      if (!request.joining.empty()) continue;
      if (!MayClose(draft->map, pool, pg.index)) {
        ++draft->kept_open;
        continue;
      }
      request.may_stay = true;
    }
    request.excluded = draft->full;
    const auto chores = busy.find(pg);
    if (chores != busy.end()) {
      request.excluded.insert(chores->second.begin(), chores->second.end());
    }
    const auto home = format::ChooseReplacement(request, draft->loads);
    if (!home) {
      ++draft->homeless;
      continue;
    }
    Choose(slot, *home, core_->options.rebuild.moves_per_target, draft);
  }
}

void Rebuild::NoteWaiting(const std::vector<Slot>& slots) {
  waiting_ = static_cast<uint64_t>(std::count_if(
      slots.begin(), slots.end(),
      [](const Slot& slot) { return slot.cause == Cause::kLost; }));
  drain_waiting_ = slots.size() - waiting_;
}

// Only if nothing moves: else it may go on when that has ended.
void Rebuild::NoteStuck(const Draft& draft) {
  if (!draft.changes.empty() || !moves_.empty()) return;
  if (waiting_ > 0) {
    found_.push_back(absl::StrCat(
        waiting_,
        " shards of targets that are out have nowhere to go: other "
        "targets must be up, or be added"));
  }
  if (drain_waiting_ == 0) return;
  if (draft.homeless > 0) {
    found_.push_back(absl::StrCat(
        drain_waiting_,
        " shards of targets that are to be emptied stay there: no other target "
        "that is up is in a failure domain of its own in their placement "
        "groups; add one"));
  } else if (draft.kept_open > 0) {
    found_.push_back(absl::StrCat(
        drain_waiting_,
        " shards of targets that are to be emptied stay there for now: no "
        "other placement group could take new data meanwhile (other targets "
        "must be up), or their pool keeps one copy only"));
  }
}

io::Task<absl::Status> Rebuild::Plan() {
  const bool must = !FindSlots(*core_->map.map()).empty();
  if (!must && !BalanceIsDue()) {
    NoteWaiting({});
    co_return absl::OkStatus();
  }
  const absl::StatusOr<Chores::Busy> busy = co_await chores_->FindBusy();
  if (!busy.ok()) co_return busy.status();
  // The map as it is now; the slots are looked up again in it.
  const std::vector<Slot> slots = FindSlots(*core_->map.map());
  NoteWaiting(slots);
  Draft draft = StartDraft(*core_->map.map());
  if (slots.empty()) {
    Balance(*busy, &draft);
  } else {
    balance_waits_ = "other shards move first";
    ChooseHomes(slots, *busy, &draft);
    NoteStuck(draft);
  }
  CAIRN_CO_RETURN_IF_ERROR(co_await Store(std::move(draft.changes)));
  NoteWaiting(FindSlots(*core_->map.map()));
  co_return absl::OkStatus();
}

}  // namespace cairn::server
