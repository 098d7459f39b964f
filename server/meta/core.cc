#include "server/meta/core.h"

#include <algorithm>
#include <limits>

#include "format/base/fault_points.h"

namespace cairn::server {

namespace store = ::cairn::store;
using format::CounterId;

io::Task<absl::StatusOr<uint64_t>> IdAllocator::Next(CounterId counter,
                                                     uint64_t part) {
  Range& range = ranges_[{counter, part}];  // Never erased: stays valid.
  if (!range.refilled) range.refilled = std::make_unique<io::Event>(env_);
  while (range.next == range.end) {
    if (range.refilling) {
      co_await range.refilled->Wait();
      CAIRN_SOMETIMES(true, "meta.ids.refill_awaited");
      continue;
    }
    range.refilling = true;
    range.refilled->Reset();
    const absl::StatusOr<uint64_t> first = co_await Reserve(counter, part);
    range.refilling = false;
    range.refilled->Set();
    if (!first.ok()) co_return first.status();
    range.next = *first;
    // What is not given out of a range is lost, as by a crash.
    const bool only_one = CAIRN_FAULT_POINT("meta.ids.range_of_one");
    range.end = *first + (only_one ? 1 : kIdsPerRange);
  }
  co_return range.next++;
}

io::Task<absl::StatusOr<uint64_t>> IdAllocator::Reserve(CounterId counter,
                                                        uint64_t part) {
  const std::string key = format::CounterKey(counter, part);
  const uint64_t least = counter == CounterId::kInodeCounter ? 2 : 1;
  absl::Status failed = TooBusy();
  for (uint32_t attempt = 0; attempt < kTxnAttemptsMax; ++attempt) {
    Txn txn(kv_);
    absl::StatusOr<std::optional<store::Counter>> read =
        co_await txn.Get<store::Counter>(key);
    if (!read.ok()) co_return read.status();
    const uint64_t first = read->has_value() ? (*read)->next() : least;
    store::Counter next;
    next.set_next(first + kIdsPerRange);
    txn.Put(key, next);
    const absl::StatusOr<uint64_t> committed = co_await txn.Commit();
    if (committed.ok()) co_return first;
    failed = committed.status();
    // An unknown outcome costs at most a range: the next try reads anew.
    if (!IsConflict(failed) && !absl::IsUnavailable(failed)) break;
  }
  co_return failed;
}

io::Task<absl::Status> ServiceClock::Load() {
  Txn txn(kv_);
  absl::StatusOr<std::optional<store::Counter>> read =
      co_await txn.Get<store::Counter>(
          format::CounterKey(CounterId::kServiceClock));
  if (!read.ok()) co_return read.status();
  base_ms_ = read->has_value() ? (*read)->next() : 0;
  started_ns_ = env_->NowNs();
  co_return absl::OkStatus();
}

io::Task<absl::Status> ServiceClock::Save() {
  Txn txn(kv_);
  store::Counter now;
  now.set_next(NowMs());
  txn.Put(format::CounterKey(CounterId::kServiceClock), now);
  co_return ToStatus(co_await txn.Commit());
}

io::Task<absl::Status> MapHolder::Load() {
  const std::string key = format::MapKey();
  const absl::StatusOr<std::optional<KvValue>> read = co_await kv_->Get(key);
  if (!read.ok()) co_return read.status();
  if (!read->has_value()) {
    co_return absl::FailedPreconditionError(
        "the metadata store was never initialised: run the init command");
  }
  CAIRN_CO_ASSIGN_OR_RETURN(
      const store::Map record,
      format::DecodeRecord<store::Map>(key, (*read)->value));
  CAIRN_CO_ASSIGN_OR_RETURN(format::ClusterMap map,
                            format::MapFromProto(record.map()));
  if (map_ != nullptr) {
    for (auto& [id, target] : map.targets) {
      const format::TargetInfo* const known = map_->FindTarget(id);
      if (known != nullptr) target.address = known->address;
    }
  }
  map_ = std::make_shared<const format::ClusterMap>(std::move(map));
  version_ = (*read)->version;
  co_return absl::OkStatus();
}

io::Task<absl::Status> MapHolder::Replace(format::ClusterMap map,
                                          AlsoWrite also) {
  format::CarryPgEpochs(*map_, &map);
  CAIRN_CO_RETURN_IF_ERROR(format::ValidateMap(map));
  if (map.epoch.value != map_->epoch.value + 1) {
    co_return absl::InvalidArgumentError(absl::StrCat(
        "map epoch ", map.epoch.value, " does not follow ", map_->epoch.value));
  }
  Txn txn(kv_);
  txn.Expect(format::MapKey(), version_);
  store::Map record;
  format::MapToProto(map, record.mutable_map());
  txn.Put(format::MapKey(), record);
  if (also) also(&txn);
  const absl::StatusOr<uint64_t> committed = co_await txn.Commit();
  // Whatever the outcome, memory follows the store.
  CAIRN_CO_RETURN_IF_ERROR(co_await Load());
  co_return committed.status();
}

void MapHolder::SetAddress(format::TargetId target, std::string address) {
  auto map = std::make_shared<format::ClusterMap>(*map_);
  const auto place = map->targets.find(target);
  if (place == map->targets.end()) return;
  place->second.address = std::move(address);
  map_ = std::move(map);
}

io::Task<void> Backoff(Core* core, uint32_t attempt) {
  if (attempt == 0) co_return;
  const uint64_t ceiling =
      std::min(kTxnBackoffNsMax, kTxnBackoffNsMin << std::min(attempt, 16u));
  const uint64_t pause = ceiling / 2 + core->env->Random() % (ceiling / 2 + 1);
  co_await io::SleepFor(core->env, pause);
}

absl::Status TooBusy() {
  return absl::UnavailableError(
      "the metadata service is busy: the same names change too often; try "
      "again");
}

io::Task<absl::Status> RunTxn(Core* core, TxnBody body) {
  absl::Status failed = Conflict();
  for (uint32_t attempt = 0; attempt < kTxnAttemptsMax; ++attempt) {
    co_await Backoff(core, attempt);
    Txn txn(core->kv);
    absl::Status status = co_await body(&txn);
    if (!status.ok()) status = co_await txn.Confirm(std::move(status));
    if (IsConflict(status)) continue;
    CAIRN_SOMETIMES(absl::IsUnavailable(failed) && status.ok(),
                    "meta.txn.unknown_looked_up");
    if (!status.ok() || !txn.HasWrites()) co_return status;
    failed = ToStatus(co_await txn.Commit());
    CAIRN_SOMETIMES(failed.ok() && attempt > 0, "meta.txn.repeated");
    // After an unknown outcome the body finds out: it reads before it writes.
    if (!IsConflict(failed) && !absl::IsUnavailable(failed)) co_return failed;
  }
  co_return IsConflict(failed) ? TooBusy() : failed;
}

io::Task<absl::StatusOr<uint64_t>> CountKeys(Core* core, format::KeyRange range,
                                             uint64_t limit) {
  constexpr uint32_t kPage = 1024;
  uint64_t count = 0;
  while (count < limit) {
    absl::StatusOr<std::vector<KvPair>> page =
        co_await core->kv->Scan(range.begin, range.end, kPage);
    if (!page.ok()) co_return page.status();
    count += page->size();
    if (page->size() < kPage) break;
    range.begin = page->back().key + '\0';
  }
  co_return std::min(count, limit);
}

io::Task<absl::Status> EraseRange(Core* core, format::KeyRange range) {
  while (!core->stopping.cancelled()) {
    absl::StatusOr<std::vector<KvPair>> page =
        co_await core->kv->Scan(range.begin, range.end, kKeysErasedPerTxn);
    if (!page.ok()) co_return page.status();
    if (page->empty()) co_return absl::OkStatus();
    Txn txn(core->kv);
    for (const KvPair& pair : *page) txn.Delete(pair.key);
    CAIRN_CO_RETURN_IF_ERROR(co_await txn.Commit());
  }
  co_return absl::CancelledError("the metadata service is stopping");
}

}  // namespace cairn::server
