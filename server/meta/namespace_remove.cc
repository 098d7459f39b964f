// Removing names: unlink, rmdir.
#include "format/path/errors.h"
#include "format/path/names.h"
#include "server/meta/namespace.h"

namespace cairn::server {

using format::InodeId;

io::Task<absl::StatusOr<wire::UnlinkResponse>> Namespace::Unlink(
    wire::UnlinkRequest request) {
  return MutateOp(sessions_, this, &Namespace::UnlinkIn, std::move(request));
}
io::Task<absl::StatusOr<wire::RmdirResponse>> Namespace::Rmdir(
    wire::RmdirRequest request) {
  return MutateOp(sessions_, this, &Namespace::RmdirIn, std::move(request));
}

io::Task<absl::StatusOr<wire::UnlinkResponse>> Namespace::UnlinkIn(
    Txn* txn, const wire::UnlinkRequest* request) {
  CAIRN_CO_RETURN_IF_ERROR(format::ValidateName(request->name()));
  const InodeId parent(request->parent());
  absl::StatusOr<store::Inode> directory = co_await GetDirectory(txn, parent);
  if (!directory.ok()) co_return directory.status();
  const absl::StatusOr<std::optional<store::DirectoryEntry>> entry =
      co_await GetDirent(txn, parent, request->name());
  if (!entry.ok()) co_return entry.status();
  if (!entry->has_value()) co_return NoSuchName(request->name());
  const InodeId inode((*entry)->inode());
  absl::StatusOr<store::Inode> record = co_await GetInode(txn, inode);
  if (absl::IsNotFound(record.status())) co_return Conflict();
  if (!record.ok()) co_return record.status();
  if (IsDirectory(*record)) {
    co_return Precondition(format::kErrIsDirectory, request->name());
  }
  if (directory->set() != 0) {
    CAIRN_CO_RETURN_IF_ERROR(co_await DissolveSet(txn, parent, &*directory));
  }
  txn->Delete(format::DirentKey(parent, request->name()));
  DropLink(txn, inode, *record);
  TouchDirectory(txn, parent, core_->env->WallNs());
  co_return wire::UnlinkResponse();
}

io::Task<absl::StatusOr<wire::RmdirResponse>> Namespace::RmdirIn(
    Txn* txn, const wire::RmdirRequest* request) {
  CAIRN_CO_RETURN_IF_ERROR(format::ValidateName(request->name()));
  const InodeId parent(request->parent());
  CAIRN_CO_RETURN_IF_ERROR(co_await GetDirectory(txn, parent));
  const absl::StatusOr<std::optional<store::DirectoryEntry>> entry =
      co_await GetDirent(txn, parent, request->name());
  if (!entry.ok()) co_return entry.status();
  if (!entry->has_value()) co_return NoSuchName(request->name());
  const InodeId inode((*entry)->inode());
  CAIRN_CO_RETURN_IF_ERROR(co_await DropDirectory(txn, inode, request->name()));
  txn->Delete(format::DirentKey(parent, request->name()));
  TouchDirectory(txn, parent, core_->env->WallNs());
  co_return wire::RmdirResponse();
}

io::Task<absl::Status> Namespace::DropDirectory(Txn* txn, InodeId inode,
                                                std::string name) {
  const absl::StatusOr<store::Inode> record = co_await GetInode(txn, inode);
  if (absl::IsNotFound(record.status())) co_return Conflict();
  if (!record.ok()) co_return record.status();
  if (!IsDirectory(*record)) {
    co_return Precondition(format::kErrNotDirectory, name);
  }
  const absl::StatusOr<bool> empty = co_await DirectoryIsEmpty(txn, inode);
  if (!empty.ok()) co_return empty.status();
  if (!*empty) co_return Precondition(format::kErrNotEmpty, name);
  txn->ExpectEmpty(format::RangeOf(format::KeyKind::kDirent, {inode.value}));
  txn->Delete(format::InodeKey(inode));
  txn->Delete(format::DirectoryTimeKey(inode));
  co_return absl::OkStatus();
}

void Namespace::DropLink(Txn* txn, InodeId inode, store::Inode record) {
  CAIRN_CHECK(record.nlink() > 0);
  record.set_nlink(record.nlink() - 1);
  record.set_ctime_ns(core_->env->WallNs());
  record.set_set(0);
  txn->Put(format::InodeKey(inode), record);
  if (record.nlink() > 0) return;
  const uint64_t due = core_->clock.NowMs() + core_->options.trash_grace_ms;
  store::Trash trash;
  trash.set_kind(static_cast<uint32_t>(format::TrashKind::kFile));
  txn->Put(format::TrashKey(due, inode), trash);
  txn->OnCommit([core = core_, inode] { core->files.Removed(inode); });
}

io::Task<absl::Status> Namespace::DissolveSet(Txn* txn, InodeId set,
                                              store::Inode* directory) {
  const absl::StatusOr<std::optional<store::CheckpointSet>> record =
      co_await txn->Get<store::CheckpointSet>(format::SetKey(set));
  if (!record.ok()) co_return record.status();
  if (record->has_value()) {
    const store::CheckpointSet& published = **record;
    if (published.state() !=
        static_cast<uint32_t>(format::SetState::kPublished)) {
      co_return Precondition(format::kErrSetImmutable, directory->name());
    }
    txn->Delete(format::SetKey(set));
    txn->Delete(format::PublicationKey(published.publication()));
    store::Trash parts;
    parts.set_kind(static_cast<uint32_t>(format::TrashKind::kSetParts));
    // With the grace of the trash: readers of the set may be at work.
    const uint64_t due = core_->clock.NowMs() + core_->options.trash_grace_ms;
    txn->Put(format::TrashKey(due, set), parts);
  }
  directory->set_set(0);
  txn->Put(format::InodeKey(set), *directory);
  co_return absl::OkStatus();
}

}  // namespace cairn::server
