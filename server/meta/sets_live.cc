// What memory knows of open sets: which ranks have committed, who waits.
#include "format/base/fault_points.h"
#include "server/meta/sets.h"
#include "spdlog/spdlog.h"

namespace cairn::server {

using format::InodeId;
using format::KeyKind;
using format::SessionId;
using format::SetState;

io::Task<absl::Status> Sets::Load() {
  constexpr uint32_t kPage = 256;
  format::KeyRange range = format::RangeOf(KeyKind::kSet, {});
  while (true) {
    const absl::StatusOr<std::vector<KvPair>> page =
        co_await core_->kv->Scan(range.begin, range.end, kPage);
    if (!page.ok()) co_return page.status();
    for (const KvPair& pair : *page) {
      CAIRN_CO_ASSIGN_OR_RETURN(const format::ParsedKey key,
                                format::ParseKey(pair.key));
      CAIRN_CO_ASSIGN_OR_RETURN(
          const store::CheckpointSet record,
          format::DecodeRecord<store::CheckpointSet>(pair.key, pair.value));
      if (record.state() != static_cast<uint32_t>(SetState::kOpen)) continue;
      const InodeId set(key.numbers[0]);
      // Starts to publish it if it is complete.
      CAIRN_CO_RETURN_IF_ERROR(co_await FindLive(set, record.world_size()));
    }
    if (page->size() < kPage) co_return absl::OkStatus();
    range.begin = page->back().key + '\0';
  }
}

io::Task<absl::StatusOr<std::shared_ptr<Sets::Live>>> Sets::FindLive(
    InodeId set, uint32_t world_size) {
  const auto known = live_.find(set.value);
  if (known != live_.end()) {
    const std::shared_ptr<Live> live = known->second;
    co_await live->loaded.Wait();
    live->active_ns = core_->env->NowNs();
    co_return live;
  }
  const auto live = std::make_shared<Live>(core_->env);
  live->committed.resize(world_size);
  live->active_ns = core_->env->NowNs();
  // In the map first: commits during the load set their bits too.
  live_[set.value] = live;
  absl::Status loaded = co_await LoadRanks(set, live.get());
  bool open = false;
  if (loaded.ok()) {
    // It may have ended since the caller looked: then nobody would wake those
    // who wait on what we made.
    const absl::StatusOr<store::CheckpointSet> record = co_await ReadSet(set);
    open = record.ok() &&
           record->state() == static_cast<uint32_t>(SetState::kOpen);
    if (!absl::IsNotFound(record.status())) loaded = record.status();
  }
  if (!open) {
    live->changed.Set();
    const auto own = live_.find(set.value);
    if (own != live_.end() && own->second == live) live_.erase(own);
  }
  live->loaded.Set();
  if (!loaded.ok()) co_return loaded;
  CAIRN_SOMETIMES(open && live->count == world_size,
                  "meta.set.publish_resumed");
  if (open && live->count == world_size) StartPublish(set);
  co_return live;
}

io::Task<absl::Status> Sets::LoadRanks(InodeId set, Live* live) {
  constexpr uint32_t kPage = 1024;
  format::KeyRange range = format::RangeOf(KeyKind::kRank, {set.value});
  while (true) {
    const absl::StatusOr<std::vector<KvPair>> page =
        co_await core_->kv->Scan(range.begin, range.end, kPage);
    if (!page.ok()) co_return page.status();
    for (const KvPair& pair : *page) {
      CAIRN_CO_ASSIGN_OR_RETURN(const format::ParsedKey key,
                                format::ParseKey(pair.key));
      CAIRN_CO_ASSIGN_OR_RETURN(
          const store::Rank rank,
          format::DecodeRecord<store::Rank>(pair.key, pair.value));
      const uint64_t index = key.numbers[1];
      if (index >= live->committed.size()) {
        co_return absl::DataLossError("a rank beyond its set's world size");
      }
      if (!rank.committed() || live->committed[index]) continue;
      live->committed[index] = true;
      ++live->count;
    }
    if (page->size() < kPage) co_return absl::OkStatus();
    range.begin = page->back().key + '\0';
  }
}

void Sets::NoteCommitted(InodeId set, uint32_t rank) {
  const auto place = live_.find(set.value);
  if (place == live_.end()) return;  // Ended meanwhile.
  Live& live = *place->second;
  CAIRN_CHECK(rank < live.committed.size());
  if (!live.committed[rank]) {
    live.committed[rank] = true;
    ++live.count;
  }
  if (live.count == live.committed.size()) StartPublish(set);
}

void Sets::NoteEnded(InodeId set) {
  const auto place = live_.find(set.value);
  if (place == live_.end()) return;
  place->second->changed.Set();
  live_.erase(place);
}

std::vector<uint32_t> Sets::MissingRanks(const Live& live) const {
  std::vector<uint32_t> missing;
  for (uint32_t rank = 0; rank < live.committed.size(); ++rank) {
    if (missing.size() == kMissingRanksShown) break;
    if (!live.committed[rank]) missing.push_back(rank);
  }
  return missing;
}

io::Task<void> Sets::IdleLoop() {
  while (!core_->stopping.cancelled()) {
    co_await io::SleepFor(core_->env, core_->options.tick_ns, &core_->stopping);
    const io::TimeNs now = core_->env->NowNs();
    std::vector<InodeId> idle;
    for (const auto& [set, live] : live_) {
      if (now - live->active_ns >= core_->options.open_set_idle_ns) {
        idle.push_back(InodeId(set));
      }
    }
    for (const InodeId set : idle) {
      if (core_->stopping.cancelled()) co_return;
      const absl::Status checked = co_await CheckIdle(set);
      if (!checked.ok()) {
        spdlog::warn("metadata: idle set {}: {}", set.value,
                     StdText(checked.message()));
      }
    }
  }
}

io::Task<absl::Status> Sets::CheckIdle(InodeId set) {
  const auto place = live_.find(set.value);
  if (place == live_.end() || place->second->publishing) {
    co_return absl::OkStatus();
  }
  const std::shared_ptr<Live> live = place->second;
  live->active_ns = core_->env->NowNs();  // Looked at now; again later.
  constexpr uint32_t kPage = 1024;
  format::KeyRange range = format::RangeOf(KeyKind::kRank, {set.value});
  while (true) {
    const absl::StatusOr<std::vector<KvPair>> page =
        co_await core_->kv->Scan(range.begin, range.end, kPage);
    if (!page.ok()) co_return page.status();
    for (const KvPair& pair : *page) {
      CAIRN_CO_ASSIGN_OR_RETURN(
          const store::Rank rank,
          format::DecodeRecord<store::Rank>(pair.key, pair.value));
      if (sessions_->IsLive(SessionId(rank.session()))) {
        co_return absl::OkStatus();
      }
    }
    if (page->size() < kPage) break;
    range.begin = page->back().key + '\0';
  }
  TxnBody body = [this, set](Txn* txn) { return AbandonIn(txn, set); };
  co_return co_await RunTxn(core_, std::move(body));
}

io::Task<absl::Status> Sets::AbandonIn(Txn* txn, InodeId set) {
  const absl::StatusOr<std::optional<store::CheckpointSet>> record =
      co_await txn->Get<store::CheckpointSet>(format::SetKey(set));
  if (!record.ok()) co_return record.status();
  if (!record->has_value() ||
      (*record)->state() != static_cast<uint32_t>(SetState::kOpen)) {
    co_return absl::OkStatus();
  }
  CAIRN_SOMETIMES(true, "meta.set.given_up");
  FenceSet(txn, set, **record, "given up: all of its writers are gone");
  co_return absl::OkStatus();
}

}  // namespace cairn::server
