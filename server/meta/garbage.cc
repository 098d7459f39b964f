#include "server/meta/garbage.h"

#include <algorithm>

#include "format/base/fault_points.h"
#include "spdlog/spdlog.h"

namespace cairn::server {

using format::BlobId;
using format::KeyKind;
using format::TargetId;

io::Task<void> Garbage::Loop() {
  while (!core_->stopping.cancelled()) {
    const absl::StatusOr<bool> more = co_await Pass();
    if (!more.ok()) {
      spdlog::warn("metadata: garbage: {}", StdText(more.status().message()));
    }
    const absl::Status chores = co_await chores_->Pass();
    if (!chores.ok()) {
      spdlog::warn("metadata: chores: {}", StdText(chores.message()));
    }
    if (more.ok() && *more) continue;
    co_await io::SleepFor(core_->env, core_->options.tick_ns, &core_->stopping);
  }
}

io::Task<absl::StatusOr<bool>> Garbage::Pass() {
  const format::KeyRange all = format::RangeOf(KeyKind::kGarbage, {});
  const std::string due =
      format::GarbageKey(core_->clock.NowMs() + 1, BlobId(0));
  const uint32_t most =
      CAIRN_FAULT_POINT("meta.garbage.one_by_one") ? 1 : kGarbagePerPass;
  const absl::StatusOr<std::vector<KvPair>> page =
      co_await core_->kv->Scan(all.begin, due, most);
  if (!page.ok()) co_return page.status();
  std::vector<Doomed> doomed;
  for (const KvPair& pair : *page) {
    if (core_->stopping.cancelled()) co_return false;
    CAIRN_CO_ASSIGN_OR_RETURN(const format::ParsedKey key,
                              format::ParseKey(pair.key));
    Doomed item;
    item.blob = BlobId(key.numbers[1]);
    item.key = pair.key;
    bool is_doomed = false;
    TxnBody body = [this, item, out = &is_doomed](Txn* txn) {
      return Doom(txn, item, out);
    };
    const absl::Status looked = co_await RunTxn(core_, std::move(body));
    if (absl::IsDataLoss(looked)) {  // One bad record must not keep the rest.
      spdlog::error("metadata: garbage: {}", StdText(looked.message()));
      continue;
    }
    CAIRN_CO_RETURN_IF_ERROR(looked);
    if (is_doomed) doomed.push_back(std::move(item));
  }
  std::set<BlobId> unconfirmed = co_await Order(doomed);
  CAIRN_CO_RETURN_IF_ERROR(
      co_await Settle(std::move(doomed), std::move(unconfirmed)));
  co_return page->size() == most;
}

io::Task<absl::StatusOr<bool>> Garbage::HasReference(Txn* txn, BlobId blob) {
  const format::KeyRange range =
      format::RangeOf(KeyKind::kReference, {blob.value});
  const absl::StatusOr<std::vector<KvPair>> found =
      co_await txn->Scan(range.begin, range.end, 1);
  if (!found.ok()) co_return found.status();
  co_return !found->empty();
}

io::Task<absl::Status> Garbage::Doom(Txn* txn, Doomed item, bool* doomed) {
  *doomed = false;
  absl::StatusOr<std::optional<store::Blob>> record =
      co_await txn->Get<store::Blob>(format::BlobKey(item.blob));
  if (!record.ok()) co_return record.status();
  const absl::StatusOr<bool> used = co_await HasReference(txn, item.blob);
  if (!used.ok()) co_return used.status();
  if (record->has_value() && (*record)->doomed()) {
    if (*used) {
      co_return absl::DataLossError(absl::StrCat(
          format::ToString(item.blob), " is doomed but referred to: kept"));
    }
    *doomed = true;
    co_return absl::OkStatus();
  }
  if (!record->has_value() || *used) {
    CAIRN_SOMETIMES(*used, "meta.garbage.still_used");
    CAIRN_SOMETIMES(!record->has_value(), "meta.garbage.gone_before");
    // Deleted by an earlier entry, or in use (again): losing that reference
    // brings it up once more.
    txn->Delete(item.key);
    co_return absl::OkStatus();
  }
  if ((*record)->free_after_ms() > core_->clock.NowMs()) {
    // It was referred to again, and released later: that has its own entry.
    CAIRN_SOMETIMES(true, "meta.garbage.released_again");
    txn->Delete(item.key);
    co_return absl::OkStatus();
  }
  txn->ExpectEmpty(format::RangeOf(KeyKind::kReference, {item.blob.value}));
  const uint64_t owner = (*record)->owner();
  if (owner != 0) {
    txn->Delete(format::OwnedBlobKey(format::SessionId(owner), item.blob));
  }
  (*record)->set_owner(0);
  (*record)->set_doomed(true);
  txn->Put(format::BlobKey(item.blob), **record);
  *doomed = true;
  co_return absl::OkStatus();
}

std::set<TargetId> Garbage::TargetsOf(BlobId blob) const {
  const auto map = core_->map.map();
  const format::Pool* const pool = map->FindPool(blob.pool());
  std::set<TargetId> targets;
  if (pool == nullptr) return targets;
  for (uint32_t stripe = 0; stripe < pool->stripe_width; ++stripe) {
    for (const TargetId target : pool->PgTargets(pool->PgOf(blob, stripe))) {
      targets.insert(target);
    }
  }
  return targets;
}

io::Task<std::set<BlobId>> Garbage::Order(std::vector<Doomed> doomed) {
  std::map<TargetId, std::vector<BlobId>> by_target;
  std::set<BlobId> unconfirmed;
  for (const Doomed& item : doomed) {
    Txn txn(core_->kv);
    const absl::StatusOr<bool> used = co_await HasReference(&txn, item.blob);
    const std::set<TargetId> targets = TargetsOf(item.blob);
    if (!used.ok() || *used || targets.empty()) {
      unconfirmed.insert(item.blob);
      continue;
    }
    for (const TargetId target : targets) {
      by_target[target].push_back(item.blob);
    }
  }
  const uint64_t sequence = core_->kv->durable_sequence();
  for (auto& [target, blobs] : by_target) {
    if (core_->stopping.cancelled()) {
      unconfirmed.insert(blobs.begin(), blobs.end());
      continue;
    }
    const format::TargetInfo* const info = core_->map.map()->FindTarget(target);
    // When it is back, or when others have taken its place.
    if (info != nullptr && (info->state == format::TargetState::kDown ||
                            info->state == format::TargetState::kOut)) {
      unconfirmed.insert(blobs.begin(), blobs.end());
      continue;
    }
    const absl::Status ordered =
        co_await orders_->DeleteBlobs(target, blobs, sequence);
    if (CAIRN_FAULT_POINT("meta.garbage.ordered_again")) {
      unconfirmed.insert(blobs.begin(), blobs.end());
      continue;
    }
    if (ordered.ok()) continue;
    CAIRN_SOMETIMES(true, "meta.garbage.order_failed");
    spdlog::warn("metadata: target {} did not delete {} blobs: {}",
                 target.value, blobs.size(), StdText(ordered.message()));
    unconfirmed.insert(blobs.begin(), blobs.end());
  }
  co_return unconfirmed;
}

io::Task<absl::Status> Garbage::Settle(std::vector<Doomed> doomed,
                                       std::set<BlobId> unconfirmed) {
  constexpr size_t kBlobsPerTxn = 40;  // Two operations each.
  const uint64_t retry = core_->clock.NowMs() + core_->options.garbage_retry_ms;
  for (size_t first = 0; first < doomed.size(); first += kBlobsPerTxn) {
    const size_t last = std::min(doomed.size(), first + kBlobsPerTxn);
    Txn txn(core_->kv);
    for (size_t i = first; i < last; ++i) {
      const Doomed& item = doomed[i];
      txn.Delete(item.key);
      if (unconfirmed.contains(item.blob)) {
        txn.Put(format::GarbageKey(retry, item.blob), store::Garbage());
      } else {
        CAIRN_SOMETIMES(true, "meta.garbage.freed");
        txn.Delete(format::BlobKey(item.blob));
      }
    }
    CAIRN_CO_RETURN_IF_ERROR(co_await txn.Commit());
  }
  co_return absl::OkStatus();
}

}  // namespace cairn::server
