#include "server/meta/trash.h"

#include "format/base/fault_points.h"
#include "spdlog/spdlog.h"

namespace cairn::server {

using format::InodeId;
using format::KeyKind;
using format::TrashKind;

io::Task<void> Trash::Loop() {
  while (!core_->stopping.cancelled()) {
    const absl::StatusOr<bool> more = co_await Pass();
    if (!more.ok() && !absl::IsCancelled(more.status())) {
      spdlog::warn("metadata: trash: {}", StdText(more.status().message()));
    }
    if (more.ok() && *more) continue;
    co_await io::SleepFor(core_->env, core_->options.tick_ns, &core_->stopping);
  }
}

io::Task<absl::StatusOr<bool>> Trash::Pass() {
  const format::KeyRange all = format::RangeOf(KeyKind::kTrash, {});
  const std::string due =
      format::TrashKey(core_->clock.NowMs() + 1, InodeId(0));
  const uint32_t most =
      CAIRN_FAULT_POINT("meta.trash.one_by_one") ? 1 : kTrashPerPass;
  const absl::StatusOr<std::vector<KvPair>> page =
      co_await core_->kv->Scan(all.begin, due, most);
  if (!page.ok()) co_return page.status();
  absl::Status first_error;
  for (const KvPair& pair : *page) {
    if (core_->stopping.cancelled()) co_return false;
    CAIRN_CO_ASSIGN_OR_RETURN(const format::ParsedKey key,
                              format::ParseKey(pair.key));
    CAIRN_CO_ASSIGN_OR_RETURN(
        const store::Trash record,
        format::DecodeRecord<store::Trash>(pair.key, pair.value));
    const absl::Status emptied =
        co_await Empty(pair.key, InodeId(key.numbers[1]),
                       static_cast<TrashKind>(record.kind()));
    // One that fails must not keep the others: go on, report the first.
    if (first_error.ok()) first_error = emptied;
  }
  if (!first_error.ok()) co_return first_error;
  co_return page->size() == most;
}

io::Task<absl::Status> Trash::Empty(std::string key, InodeId inode,
                                    TrashKind kind) {
  absl::Status status = absl::DataLossError("an unknown kind of trash");
  switch (kind) {
    case TrashKind::kFile:
      status = co_await EmptyFile(inode);
      break;
    case TrashKind::kSet:
      status = co_await EmptySet(inode);
      break;
    case TrashKind::kSetParts:
      status = co_await EmptySetParts(inode);
      break;
  }
  if (!status.ok()) {
    co_return Annotate(status, absl::StrCat("inode ", inode.value));
  }
  Txn txn(core_->kv);
  txn.Delete(key);
  co_return ToStatus(co_await txn.Commit());
}

io::Task<absl::Status> Trash::EmptyFile(InodeId inode) {
  Txn txn(core_->kv);
  const absl::StatusOr<std::optional<store::Inode>> record =
      co_await txn.Get<store::Inode>(format::InodeKey(inode));
  if (!record.ok()) co_return record.status();
  if (!record->has_value()) co_return absl::OkStatus();
  if ((*record)->nlink() > 0) co_return absl::OkStatus();  // Not trash at all.
  CAIRN_SOMETIMES(true, "meta.trash.file_emptied");
  co_return co_await DropExtents(inode);
}

// Deletes the inode in the transaction of its last extents.
io::Task<absl::Status> Trash::DropExtents(InodeId inode) {
  bool more = true;
  while (more) {
    if (core_->stopping.cancelled()) co_return absl::CancelledError("stopping");
    TxnBody body = [this, inode, out = &more](Txn* txn) {
      return DropPage(txn, inode, out);
    };
    CAIRN_CO_RETURN_IF_ERROR(co_await RunTxn(core_, std::move(body)));
  }
  co_return absl::OkStatus();
}

io::Task<absl::Status> Trash::DropPage(Txn* txn, InodeId inode, bool* more) {
  *more = false;
  absl::StatusOr<std::optional<store::Inode>> record =
      co_await txn->Get<store::Inode>(format::InodeKey(inode));
  if (!record.ok()) co_return record.status();
  ExtentUpdate update(core_, inode);
  const absl::StatusOr<bool> rest = co_await update.Trim(txn, 0);
  if (!rest.ok()) co_return rest.status();
  CAIRN_CO_RETURN_IF_ERROR(co_await update.Finish(txn));
  *more = *rest;
  if (!record->has_value()) co_return absl::OkStatus();
  if (!*more) {
    txn->Delete(format::InodeKey(inode));
    co_return absl::OkStatus();
  }
  CAIRN_SOMETIMES(true, "meta.trash.file_in_pages");
  // Written, so that commits by those who still have it open conflict.
  (*record)->set_size(0);
  (*record)->set_trimming(true);
  (*record)->set_generation((*record)->generation() + 1);
  txn->Put(format::InodeKey(inode), **record);
  co_return absl::OkStatus();
}

io::Task<absl::Status> Trash::EmptySetParts(InodeId set) {
  Txn txn(core_->kv);
  const absl::StatusOr<std::optional<store::CheckpointSet>> record =
      co_await txn.Get<store::CheckpointSet>(format::SetKey(set));
  if (!record.ok()) co_return record.status();
  const format::KeyRange pieces =
      format::RangeOf(KeyKind::kManifestPiece, {set.value});
  CAIRN_CO_RETURN_IF_ERROR(co_await EraseRange(core_, pieces));
  const format::KeyRange ranks = format::RangeOf(KeyKind::kRank, {set.value});
  CAIRN_CO_RETURN_IF_ERROR(co_await EraseRange(core_, ranks));
  if (record->has_value()) co_return absl::OkStatus();
  const format::KeyRange blocks =
      format::RangeOf(KeyKind::kManifestBlock, {set.value});
  CAIRN_CO_RETURN_IF_ERROR(co_await EraseRange(core_, blocks));
  const format::KeyRange header =
      format::RangeOf(KeyKind::kManifestHeader, {set.value});
  co_return co_await EraseRange(core_, header);
}

io::Task<absl::Status> Trash::EmptySet(InodeId set) {
  {
    Txn txn(core_->kv);
    const absl::StatusOr<std::optional<store::CheckpointSet>> record =
        co_await txn.Get<store::CheckpointSet>(format::SetKey(set));
    if (!record.ok()) co_return record.status();
    const auto is = [&record](format::SetState state) {
      return (*record)->state() == static_cast<uint32_t>(state);
    };
    const bool removed =
        record->has_value() && (is(format::SetState::kFenced) ||
                                is(format::SetState::kFailed));
    // Its record goes before its parts do: an earlier pass ended in between.
    CAIRN_SOMETIMES(!record->has_value(), "meta.trash.set_half_gone");
    if (!record->has_value()) co_return co_await EmptySetParts(set);
    // (A broken invariant) in use: nothing may be touched.
    if (!removed) co_return absl::OkStatus();
  }
  CAIRN_CO_RETURN_IF_ERROR(co_await EmptyClaims(set));
  CAIRN_CO_RETURN_IF_ERROR(co_await EmptySetFiles(set));
  TxnBody body = [this, set](Txn* txn) { return ForgetSet(txn, set); };
  CAIRN_CO_RETURN_IF_ERROR(co_await RunTxn(core_, std::move(body)));
  co_return co_await EmptySetParts(set);
}

io::Task<absl::Status> Trash::EmptyClaims(InodeId set) {
  constexpr uint32_t kPage = 256;
  format::KeyRange range = format::RangeOf(KeyKind::kRank, {set.value});
  while (true) {
    const absl::StatusOr<std::vector<KvPair>> page =
        co_await core_->kv->Scan(range.begin, range.end, kPage);
    if (!page.ok()) co_return page.status();
    for (const KvPair& pair : *page) {
      CAIRN_CO_ASSIGN_OR_RETURN(
          const store::Rank rank,
          format::DecodeRecord<store::Rank>(pair.key, pair.value));
      if (rank.committed()) continue;
      CAIRN_CO_RETURN_IF_ERROR(co_await DropExtents(InodeId(rank.file())));
    }
    if (page->size() < kPage) co_return absl::OkStatus();
    range.begin = page->back().key + '\0';
  }
}

io::Task<absl::Status> Trash::EmptySetFiles(InodeId set) {
  const format::KeyRange range = format::RangeOf(KeyKind::kDirent, {set.value});
  while (true) {
    if (core_->stopping.cancelled()) co_return absl::CancelledError("stopping");
    const absl::StatusOr<std::vector<KvPair>> page =
        co_await core_->kv->Scan(range.begin, range.end, kKeysErasedPerTxn);
    if (!page.ok()) co_return page.status();
    if (page->empty()) co_return absl::OkStatus();
    Txn txn(core_->kv);
    for (const KvPair& pair : *page) {
      CAIRN_CO_ASSIGN_OR_RETURN(
          const store::DirectoryEntry entry,
          format::DecodeRecord<store::DirectoryEntry>(pair.key, pair.value));
      const InodeId file(entry.inode());
      CAIRN_CO_RETURN_IF_ERROR(co_await DropExtents(file));
      core_->files.Removed(file);
      txn.Delete(pair.key);
    }
    CAIRN_CO_RETURN_IF_ERROR(co_await txn.Commit());
  }
}

io::Task<absl::Status> Trash::ForgetSet(Txn* txn, InodeId set) {
  const absl::StatusOr<std::optional<store::CheckpointSet>> record =
      co_await txn->Get<store::CheckpointSet>(format::SetKey(set));
  if (!record.ok()) co_return record.status();
  if (!record->has_value()) co_return absl::OkStatus();
  const std::string key =
      format::OpenSetKey(InodeId((*record)->parent()), (*record)->name());
  const absl::StatusOr<std::optional<store::OpenSet>> open =
      co_await txn->Get<store::OpenSet>(key);
  if (!open.ok()) co_return open.status();
  if (open->has_value() && (*open)->set() == set.value) txn->Delete(key);
  txn->Delete(format::SetKey(set));
  txn->Delete(format::InodeKey(set));
  txn->Delete(format::DirectoryTimeKey(set));
  co_return absl::OkStatus();
}

}  // namespace cairn::server
