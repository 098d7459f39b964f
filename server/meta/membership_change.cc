// The half of Membership that operators use.
#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include "server/meta/edit_map.h"
#include "server/meta/membership.h"
#include "spdlog/spdlog.h"

namespace cairn::server {

using format::TargetChange;
using format::TargetId;
using format::TargetState;

namespace {

// How many rows of PG tables name each target.
std::map<TargetId, uint64_t> CountRows(const format::ClusterMap& map) {
  std::map<TargetId, uint64_t> rows;
  for (const auto& [id, pool] : map.pools) {
    for (const TargetId target : pool.pg_targets) ++rows[target];
  }
  return rows;
}

absl::Status StillNamed(const format::ClusterMap& map, TargetId target) {
  for (const auto& [id, pool] : map.pools) {
    const auto rows =
        std::count(pool.pg_targets.begin(), pool.pg_targets.end(), target);
    if (rows == 0) continue;
    return absl::FailedPreconditionError(
        absl::StrCat(rows, " of ", pool.pg_count, " placement groups of pool ",
                     pool.name, " still have chunks on target ", target.value,
                     ": empty it first with: cairn target drain ", target.value,
                     ", and wait until cairn target ls shows no rows for it"));
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> SetState(TargetId target, bool draining,
                              format::ClusterMap* map) {
  const auto place = map->targets.find(target);
  if (place == map->targets.end()) {
    return absl::FailedPreconditionError(
        absl::StrCat("target ", target.value,
                     " is not in service: nothing is on it; add it with: cairn "
                     "target add ",
                     target.value));
  }
  TargetState& state = place->second.state;
  if (draining == (state == TargetState::kDraining)) return false;
  if (state == TargetState::kOut) {
    return absl::FailedPreconditionError(absl::StrCat(
        "target ", target.value,
        " is out: its chunks are being made again elsewhere already"));
  }
  state = draining ? TargetState::kDraining : TargetState::kUp;
  return true;
}

io::Task<absl::Status> MarkRemoved(Txn* txn, TargetId target,
                                   store::Member* out) {
  const std::string key = format::MemberKey(target);
  const absl::StatusOr<std::optional<store::Member>> read =
      co_await txn->Get<store::Member>(key);
  if (!read.ok()) co_return read.status();
  *out = read->has_value() ? **read : store::Member();
  if (out->removed()) co_return absl::OkStatus();
  out->set_removed(true);
  txn->Put(key, *out);
  co_return absl::OkStatus();
}

}  // namespace

io::Task<absl::StatusOr<wire::AllocateTargetResponse>> Membership::Allocate(
    wire::AllocateTargetRequest request) {
  const io::Gate::Hold hold = core_->gate.Enter();
  if (request.nonce() == 0) {
    co_return absl::InvalidArgumentError("a new target without a nonce");
  }
  if (request.host().size() > format::kNameBytesMax ||
      request.rack().size() > format::kNameBytesMax ||
      request.directory().size() > format::kPathBytesMax) {
    co_return absl::InvalidArgumentError("host, rack or directory is too long");
  }
  const auto map = core_->map.map();
  while (true) {
    // Also those that were removed: an id never means another disk.
    TargetId id(1);
    if (!map->targets.empty())
      id.value = map->targets.rbegin()->first.value + 1;
    if (!members_.empty()) {
      id.value = std::max(id.value, members_.rbegin()->first.value + 1);
    }
    for (const auto& [known, member] : members_) {
      if (member.nonce() == request.nonce()) id = known;
    }
    if (members_.contains(id)) co_return AllocatedId(id);
    if (id.value > format::kTargetsMax) {
      co_return absl::ResourceExhaustedError("no target ids are left");
    }
    store::Member member;
    member.set_disk_generation(1);
    member.set_host(request.host());
    member.set_rack(request.rack());
    member.set_directory(request.directory());
    member.set_capacity_bytes(request.capacity_bytes());
    member.set_nonce(request.nonce());
    const std::string key = format::MemberKey(id);
    Txn txn(core_->kv);
    txn.Expect(key, 0);
    txn.Put(key, member);
    const absl::Status stored = ToStatus(co_await txn.Commit());
    if (stored.ok()) {
      members_[id] = std::move(member);
    } else if (!IsConflict(stored)) {
      co_return stored;
    } else {  // An earlier commit had an unknown outcome.
      Txn again(core_->kv);
      const absl::StatusOr<std::optional<store::Member>> read =
          co_await again.Get<store::Member>(key);
      if (!read.ok()) co_return read.status();
      if (read->has_value()) TakeOver(id, **read);
    }
  }
}

wire::AllocateTargetResponse Membership::AllocatedId(TargetId id) const {
  const format::ClusterId cluster = core_->map.map()->cluster_id;
  wire::AllocateTargetResponse response;
  response.set_cluster_id(cluster.bytes.data(), cluster.bytes.size());
  response.set_target(id.value);
  response.set_disk_generation(members_.at(id).disk_generation());
  return response;
}

wire::Member Membership::View(TargetId target, uint64_t rows) const {
  wire::Member view;
  view.set_id(target.value);
  view.set_rows(rows);
  const auto map = core_->map.map();
  if (const format::TargetInfo* const info = map->FindTarget(target)) {
    view.set_state(static_cast<uint32_t>(info->state));
    view.set_address(info->address);
    view.set_host(info->host);
    view.set_rack(info->rack);
    view.set_directory(info->directory);
    view.set_capacity_bytes(info->capacity_bytes);
  }
  const auto member = members_.find(target);
  if (member == members_.end()) return view;
  view.set_disk_generation(member->second.disk_generation());
  view.set_admission(member->second.admission());
  if (view.state() != 0) return view;
  view.set_address(member->second.address());
  view.set_host(member->second.host());
  view.set_rack(member->second.rack());
  view.set_directory(member->second.directory());
  view.set_capacity_bytes(member->second.capacity_bytes());
  return view;
}

namespace {
void FillQuarantine(TargetId target, const store::Quarantine& record,
                    wire::Quarantine* view) {
  view->set_target(target.value);
  view->set_cause(record.cause());
  view->set_reason(record.reason());
  view->set_host(record.host());
  view->set_directory(record.directory());
  view->set_address(record.address());
}
}  // namespace

io::Task<absl::StatusOr<wire::ListTargetsResponse>> Membership::List(
    wire::ListTargetsRequest) {
  const auto map = core_->map.map();
  std::map<TargetId, uint64_t> rows = CountRows(*map);
  for (const auto& [id, info] : map->targets) rows.try_emplace(id, 0);
  for (const auto& [id, member] : members_) {
    if (!member.removed()) rows.try_emplace(id, 0);
  }
  wire::ListTargetsResponse response;
  for (const auto& [id, count] : rows) {
    *response.add_targets() = View(id, count);
  }
  for (const auto& [place, record] : quarantined_) {
    FillQuarantine(place.first, record, response.add_quarantined());
  }
  response.set_epoch(map->epoch.value);
  co_return response;
}

void Membership::AddQuarantined(wire::ClusterStatusResponse* response) const {
  for (const auto& [place, record] : quarantined_) {
    FillQuarantine(place.first, record, response->add_quarantined());
  }
}

io::Task<absl::StatusOr<wire::ChangeTargetResponse>> Membership::Change(
    wire::ChangeTargetRequest request) {
  const io::Gate::Hold hold = core_->gate.Enter();
  const TargetId target(request.target());
  const absl::StatusOr<bool> changed =
      co_await Apply(target, static_cast<TargetChange>(request.change()));
  if (!changed.ok()) co_return changed.status();
  wire::ChangeTargetResponse response;
  response.set_changed(*changed);
  const auto map = core_->map.map();
  response.set_epoch(map->epoch.value);
  *response.mutable_target() = View(target, CountRows(*map)[target]);
  co_return response;
}

io::Task<absl::StatusOr<bool>> Membership::Apply(TargetId target,
                                                 TargetChange change) {
  const auto member = members_.find(target);
  const bool removed =
      member == members_.end() ? false : member->second.removed();
  const bool known = core_->map.map()->FindTarget(target) != nullptr ||
                     (member != members_.end() && !removed);
  if (change == TargetChange::kForget) co_return co_await Forget(target);
  if (change == TargetChange::kRemove && removed) {
    co_return co_await Remove(target);
  }
  if (!known) {
    co_return absl::NotFoundError(
        absl::StrCat("there is no target ", target.value,
                     "; see those there are with: cairn target ls"));
  }
  MapEdit edit;
  switch (change) {
    case TargetChange::kAdd:
      co_return co_await Add(target);
    case TargetChange::kRemove:
      co_return co_await Remove(target);
    case TargetChange::kDrain:
    case TargetChange::kUndrain:
      edit = [target, draining = change == TargetChange::kDrain](
                 format::ClusterMap* map) {
        return SetState(target, draining, map);
      };
      co_return co_await EditMap(core_, std::move(edit));
    case TargetChange::kForget:
      break;
  }
  co_return absl::InvalidArgumentError("no such change of a target");
}

io::Task<absl::StatusOr<bool>> Membership::Add(TargetId target) {
  const auto place = members_.find(target);
  const bool joined = place != members_.end() && place->second.admission() != 0;
  if (!joined && core_->map.map()->FindTarget(target) == nullptr) {
    co_return absl::FailedPreconditionError(absl::StrCat(
        "target ", target.value,
        " has not joined yet: start its process first with: cairnd target"));
  }
  store::Member member;
  if (joined) member = place->second;
  MapEdit edit = [target, member](format::ClusterMap* map) {
    if (map->targets.contains(target)) return absl::StatusOr<bool>(false);
    format::TargetInfo info;
    info.id = target;
    info.address = member.address();
    info.host = member.host();
    info.rack = member.rack();
    info.directory = member.directory();
    info.capacity_bytes = member.capacity_bytes();
    map->targets[target] = std::move(info);
    return absl::StatusOr<bool>(true);
  };
  const absl::StatusOr<bool> added = co_await EditMap(core_, std::move(edit));
  if (added.ok() && joined) SpreadAddress(target, member);
  co_return added;
}

// First out of the map, then never again: done again, it goes on.
io::Task<absl::StatusOr<bool>> Membership::Remove(TargetId target) {
  MapEdit edit = [target](format::ClusterMap* map) -> absl::StatusOr<bool> {
    CAIRN_RETURN_IF_ERROR(StillNamed(*map, target));
    return map->targets.erase(target) != 0;
  };
  const absl::StatusOr<bool> erased = co_await EditMap(core_, std::move(edit));
  if (!erased.ok()) co_return erased;
  store::Member stored;
  store::Member* const out = &stored;
  TxnBody body = [target, out](Txn* txn) {
    return MarkRemoved(txn, target, out);
  };
  CAIRN_CO_RETURN_IF_ERROR(co_await RunTxn(core_, std::move(body)));
  const auto mirror = members_.find(target);
  const bool marked = mirror == members_.end() || !mirror->second.removed();
  members_[target] = std::move(stored);
  if (*erased || marked) {
    spdlog::warn("metadata: target {} was removed from the cluster",
                 target.value);
  }
  co_return *erased || marked;
}

io::Task<absl::StatusOr<bool>> Membership::Forget(TargetId target) {
  std::vector<uint64_t> places;
  for (const auto& [place, record] : quarantined_) {
    if (place.first == target) places.push_back(place.second);
  }
  for (const uint64_t place : places) {
    Txn txn(core_->kv);
    txn.Delete(format::QuarantineKey(target, place));
    CAIRN_CO_RETURN_IF_ERROR(co_await txn.Commit());
    quarantined_.erase({target, place});
  }
  co_return !places.empty();
}

}  // namespace cairn::server
