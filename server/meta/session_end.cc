// The half of Sessions that ends them: expiry, fencing and reclaiming.
#include <algorithm>

#include "format/base/fault_points.h"
#include "server/meta/extent_store.h"
#include "server/meta/sessions.h"
#include "spdlog/spdlog.h"

namespace cairn::server {

using format::BlobId;
using format::InodeId;
using format::KeyKind;
using format::SessionId;

io::Task<void> Sessions::ExpireLoop() {
  io::TimeNs last = core_->env->NowNs();
  while (!core_->stopping.cancelled()) {
    co_await io::SleepFor(core_->env, core_->options.tick_ns, &core_->stopping);
    if (core_->stopping.cancelled()) co_return;
    const io::TimeNs now = core_->env->NowNs();
    if (now - last > core_->options.tick_ns + core_->options.lease_ns / 2) {
      // This process stood still: clients could not renew meanwhile.
      CAIRN_SOMETIMES(true, "meta.session.loop_stood_still");
      spdlog::warn("metadata: the loop stood still for {} ms; leases extended",
                   (now - last) / io::kMillisecond);
      for (auto& [id, session] : sessions_) {
        session.deadline = now + core_->options.lease_ns;
      }
    }
    last = now;
    co_await ExpireDue();
  }
}

io::Task<void> Sessions::ExpireDue() {
  std::vector<uint64_t> due;
  std::vector<uint64_t> fenced;
  for (const auto& [id, session] : sessions_) {
    if (session.fenced) {
      fenced.push_back(id);
    } else if (session.deadline <= core_->env->NowNs()) {
      due.push_back(id);
    }
  }
  for (const uint64_t id : due) {
    if (CAIRN_FAULT_POINT("meta.session.fenced_late")) {
      co_await io::SleepFor(core_->env, kLateCommitNs, &core_->stopping);
    }
    const auto place = sessions_.find(id);
    // It may have renewed while we waited for another one's fence.
    if (place == sessions_.end() ||
        place->second.deadline > core_->env->NowNs()) {
      CAIRN_SOMETIMES(true, "meta.session.renewed_in_time");
      continue;
    }
    CAIRN_SOMETIMES(true, "meta.session.lease_over");
    spdlog::info("metadata: lease of session {} ({}) is over", id,
                 place->second.client);
    if ((co_await Fence(id)).ok()) fenced.push_back(id);
  }
  for (const uint64_t id : fenced) co_await Reclaim(id);
}

io::Task<absl::Status> Sessions::Fence(uint64_t session) {
  TxnBody body = [this, session](Txn* txn) { return FenceIn(txn, session); };
  const absl::Status status = co_await RunTxn(core_, std::move(body));
  const auto place = sessions_.find(session);
  if (status.ok() && place != sessions_.end()) place->second.fenced = true;
  co_return status;
}

io::Task<absl::Status> Sessions::FenceIn(Txn* txn, uint64_t session) {
  const std::string key = format::SessionKey(SessionId(session));
  absl::StatusOr<std::optional<store::Session>> record =
      co_await txn->Get<store::Session>(key);
  if (!record.ok()) co_return record.status();
  if (!record->has_value() || (*record)->fenced()) co_return absl::OkStatus();
  (*record)->set_fenced(true);
  txn->Put(key, **record);
  co_return absl::OkStatus();
}

io::Task<void> Sessions::Reclaim(uint64_t session) {
  if (!reclaiming_.insert(session).second) co_return;
  absl::Status status = co_await ReclaimBlobs(session);
  if (status.ok()) {
    const format::KeyRange results =
        format::RangeOf(KeyKind::kResult, {session});
    status = co_await EraseRange(core_, results);
  }
  if (status.ok()) {
    Txn txn(core_->kv);
    txn.Delete(format::SessionKey(SessionId(session)));
    status = ToStatus(co_await txn.Commit());
  }
  reclaiming_.erase(session);
  if (!status.ok()) {  // The expiry loop comes back to it.
    CAIRN_SOMETIMES(true, "meta.session.reclaimed_later");
    spdlog::warn("metadata: reclaiming session {}: {}", session,
                 StdText(status.message()));
    co_return;
  }
  const auto place = sessions_.find(session);
  if (place == sessions_.end()) co_return;
  for (const auto& [request, done] : place->second.in_flight) done->Set();
  const auto named =
      by_nonce_.find({place->second.client, place->second.nonce});
  if (named != by_nonce_.end() && named->second == session) {
    by_nonce_.erase(named);
  }
  sessions_.erase(place);
}

io::Task<absl::Status> Sessions::ReclaimBlobs(uint64_t session) {
  bool more = true;
  while (more && !core_->stopping.cancelled()) {
    TxnBody body = [this, session](Txn* txn) {
      return DisownPage(txn, session);
    };
    CAIRN_CO_RETURN_IF_ERROR(co_await RunTxn(core_, std::move(body)));
    const format::KeyRange owned =
        format::RangeOf(KeyKind::kOwnedBlob, {session});
    const absl::StatusOr<std::vector<KvPair>> left =
        co_await core_->kv->Scan(owned.begin, owned.end, 1);
    if (!left.ok()) co_return left.status();
    more = !left->empty();
  }
  co_return more ? absl::CancelledError("stopping") : absl::OkStatus();
}

// Each blob of the page loses its owner, and comes up for deletion if no file
// refers to it (garbage collection looks again before it deletes).
io::Task<absl::Status> Sessions::DisownPage(Txn* txn, uint64_t session) {
  constexpr uint32_t kBlobsPerTxn = 24;  // Four operations each.
  const format::KeyRange owned =
      format::RangeOf(KeyKind::kOwnedBlob, {session});
  const uint32_t most =
      CAIRN_FAULT_POINT("meta.session.disowned_one_by_one") ? 1 : kBlobsPerTxn;
  const absl::StatusOr<std::vector<KvPair>> page =
      co_await txn->Scan(owned.begin, owned.end, most);
  if (!page.ok()) co_return page.status();
  const uint64_t due = core_->clock.NowMs() + core_->options.orphan_grace_ms;
  for (const KvPair& pair : *page) {
    CAIRN_CO_ASSIGN_OR_RETURN(const format::ParsedKey key,
                              format::ParseKey(pair.key));
    const BlobId blob(key.numbers[1]);
    txn->Delete(pair.key);
    absl::StatusOr<std::optional<store::Blob>> record =
        co_await txn->Get<store::Blob>(format::BlobKey(blob));
    if (!record.ok()) co_return record.status();
    if (!record->has_value()) continue;
    (*record)->set_owner(0);
    const format::KeyRange references =
        format::RangeOf(KeyKind::kReference, {blob.value});
    const absl::StatusOr<std::vector<KvPair>> found =
        co_await txn->Scan(references.begin, references.end, 1);
    if (!found.ok()) co_return found.status();
    if (found->empty()) {
      CAIRN_SOMETIMES(true, "meta.session.left_orphan");
      PutGarbage(txn, blob, **record, due);
    } else {
      txn->Put(format::BlobKey(blob), **record);
    }
  }
  co_return absl::OkStatus();
}

}  // namespace cairn::server
