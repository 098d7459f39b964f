#include "server/meta/chores.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "format/base/fault_points.h"
#include "spdlog/spdlog.h"

namespace cairn::server {

using format::BlobId;
using format::GroupChore;
using format::KeyKind;
using format::PgId;
using format::TargetId;

namespace {

// Of one delete order.
constexpr size_t kBlobsPerOrder = 1024;

std::vector<TargetId> RowOf(const format::ClusterMap& map, PgId pg) {
  const format::Pool* const pool = map.FindPool(pg.pool);
  if (pool == nullptr || pg.index >= pool->pg_count) return {};
  const auto row = pool->PgTargets(pg.index);
  return {row.begin(), row.end()};
}

io::Task<absl::Status> ForgetIn(Txn* txn, std::string key, uint64_t due_ms) {
  const absl::StatusOr<std::optional<store::Chore>> now =
      co_await txn->Get<store::Chore>(key);
  if (!now.ok()) co_return now.status();
  if (now->has_value() && (*now)->due_ms() == due_ms) txn->Delete(key);
  co_return absl::OkStatus();
}

}  // namespace

void Chores::Add(Txn* txn, GroupChore chore, TargetId target, PgId pg) const {
  store::Chore record;
  record.set_kind(static_cast<uint32_t>(chore));
  record.set_due_ms(core_->clock.NowMs() + core_->options.orphan_grace_ms);
  txn->Put(format::ChoreKey(target, pg), record);
}

absl::StatusOr<Chores::Item> Chores::Parse(const KvPair& pair) {
  CAIRN_ASSIGN_OR_RETURN(const format::ParsedKey key,
                         format::ParseKey(pair.key));
  Item item;
  item.key = pair.key;
  item.target = TargetId(static_cast<uint32_t>(key.numbers[0]));
  item.pg.pool = format::PoolId(static_cast<uint16_t>(key.numbers[1]));
  item.pg.index = static_cast<uint32_t>(key.numbers[2]);
  CAIRN_ASSIGN_OR_RETURN(
      item.record, format::DecodeRecord<store::Chore>(pair.key, pair.value));
  return item;
}

io::Task<absl::StatusOr<Chores::Busy>> Chores::FindBusy() const {
  Busy busy;
  format::KeyRange range = format::RangeOf(KeyKind::kChore, {});
  while (true) {
    const absl::StatusOr<std::vector<KvPair>> page =
        co_await core_->kv->Scan(range.begin, range.end, kChoresPerPass);
    if (!page.ok()) co_return page.status();
    for (const KvPair& pair : *page) {
      CAIRN_CO_ASSIGN_OR_RETURN(const Item item, Parse(pair));
      busy[item.pg].insert(item.target);
    }
    if (page->size() < kChoresPerPass) co_return busy;
    range.begin = page->back().key + '\0';
  }
}

io::Task<absl::Status> Chores::Pass() {
  format::KeyRange range = format::RangeOf(KeyKind::kChore, {});
  while (!core_->stopping.cancelled()) {
    const absl::StatusOr<std::vector<KvPair>> page =
        co_await core_->kv->Scan(range.begin, range.end, kChoresPerPass);
    if (!page.ok()) co_return page.status();
    for (const KvPair& pair : *page) {
      if (core_->stopping.cancelled()) break;
      CAIRN_CO_ASSIGN_OR_RETURN(Item item, Parse(pair));
      const std::string key = item.key;
      const auto retry = retry_at_.find(key);
      if (item.record.due_ms() > core_->clock.NowMs() ||
          (retry != retry_at_.end() && retry->second > core_->env->NowNs())) {
        continue;
      }
      const absl::Status done = co_await Do(std::move(item));
      retry_at_.erase(key);
      if (done.ok()) continue;
      CAIRN_SOMETIMES(true, "meta.chores.again_later");
      retry_at_[key] = core_->env->NowNs() +
                       core_->options.garbage_retry_ms * io::kMillisecond;
    }
    if (page->size() < kChoresPerPass) break;
    range.begin = page->back().key + '\0';
  }
  co_return absl::OkStatus();
}

io::Task<absl::Status> Chores::Do(Item item) {
  const auto map = core_->map.map();
  const format::TargetInfo* const target = map->FindTarget(item.target);
  if (target == nullptr) co_return co_await Forget(std::move(item));
  if (!health_->Look(item.target).answers) {
    co_return absl::UnavailableError("away");  // When it is back.
  }
  absl::Status done;
  if (item.record.kind() == static_cast<uint32_t>(GroupChore::kDrop)) {
    done = co_await Drop(item);
  } else {
    done = co_await Sweep(item);
  }
  if (!done.ok()) {
    // Without end for one that never comes back: said quietly.
    spdlog::debug("metadata: target {}: chore of {}: {}", item.target.value,
                  ToString(item.pg), StdText(done.message()));
    co_return done;
  }
  co_return co_await Forget(std::move(item));
}

io::Task<absl::Status> Chores::Drop(Item item) {
  const auto map = core_->map.map();
  const std::vector<TargetId> row = RowOf(*map, item.pg);
  // Back in the row by an operator's hand: its chunks count again.
  if (std::find(row.begin(), row.end(), item.target) != row.end()) {
    co_return absl::OkStatus();
  }
  wire::DropGroupRequest request;
  request.set_target(item.target.value);
  request.set_pool(item.pg.pool.value);
  request.set_pg(item.pg.index);
  request.set_epoch(map->epoch.value);
  for (const TargetId target : row) request.add_row(target.value);
  request.set_meta_sequence(core_->kv->durable_sequence());
  co_return co_await orders_->DropGroup(std::move(request));
}

// Blobs with chunks of the group there, and no record here. Ids of blobs are
// never given twice, so nothing can ever refer to them again.
io::Task<absl::StatusOr<std::set<BlobId>>> Chores::FindGone(Item item) {
  std::set<BlobId> gone;
  BlobId known;  // Lists ascend: most chunks have the blob of the one before.
  wire::ListChunksRequest request;
  request.set_target(item.target.value);
  request.set_pool(item.pg.pool.value);
  request.set_pg(item.pg.index);
  while (true) {
    wire::ListChunksRequest page = request;
    const absl::StatusOr<wire::ListChunksResponse> listed =
        co_await orders_->ListChunks(std::move(page));
    if (!listed.ok()) co_return listed.status();
    for (const wire::ChunkInfo& chunk : listed->chunks()) {
      const BlobId blob(chunk.chunk().blob());
      if (blob == known || gone.contains(blob)) continue;
      const absl::StatusOr<std::optional<KvValue>> record =
          co_await core_->kv->Get(format::BlobKey(blob));
      if (!record.ok()) co_return record.status();
      if (record->has_value()) {
        known = blob;
      } else {
        gone.insert(blob);
      }
    }
    if (listed->next().empty()) co_return gone;
    request.set_after(listed->next());
  }
}

io::Task<absl::Status> Chores::Sweep(Item item) {
  const absl::StatusOr<std::set<BlobId>> gone = co_await FindGone(item);
  if (!gone.ok()) co_return gone.status();
  CAIRN_SOMETIMES(!gone->empty(), "meta.chores.swept");
  const std::vector<BlobId> blobs(gone->begin(), gone->end());
  const uint64_t sequence = core_->kv->durable_sequence();
  for (size_t at = 0; at < blobs.size(); at += kBlobsPerOrder) {
    const size_t end = std::min(blobs.size(), at + kBlobsPerOrder);
    std::vector<BlobId> part(blobs.begin() + static_cast<ptrdiff_t>(at),
                             blobs.begin() + static_cast<ptrdiff_t>(end));
    CAIRN_CO_RETURN_IF_ERROR(
        co_await orders_->DeleteBlobs(item.target, std::move(part), sequence));
  }
  co_return absl::OkStatus();
}

// Unless it has become another chore meanwhile.
io::Task<absl::Status> Chores::Forget(Item item) {
  TxnBody body = [key = item.key, due = item.record.due_ms()](Txn* txn) {
    return ForgetIn(txn, key, due);
  };
  co_return co_await RunTxn(core_, std::move(body));
}

}  // namespace cairn::server
