// Removing sets, published or open. One transaction takes the name away; the
// trash does the rest.
#include "format/path/names.h"
#include "server/meta/sets.h"

namespace cairn::server {

using format::InodeId;
using format::SetState;

io::Task<absl::StatusOr<wire::RemoveSetResponse>> Sets::Remove(
    wire::RemoveSetRequest request) {
  return MutateOp(sessions_, this, &Sets::RemoveIn, std::move(request));
}

io::Task<absl::StatusOr<Sets::SetPlace>> Sets::FindPlace(Txn* txn,
                                                         std::string path) {
  CAIRN_CO_ASSIGN_OR_RETURN(std::vector<std::string> names,
                            format::SplitPath(path));
  if (names.empty()) {
    co_return absl::InvalidArgumentError("the root is no checkpoint set");
  }
  SetPlace place;
  place.name = std::move(names.back());
  names.pop_back();
  std::string above = "/";
  for (const std::string& name : names) above += name + "/";
  const absl::StatusOr<InodeId> parent =
      co_await names_->Resolve(txn, std::move(above));
  if (!parent.ok()) co_return parent.status();
  place.parent = *parent;
  co_return place;
}

io::Task<absl::StatusOr<wire::RemoveSetResponse>> Sets::RemoveIn(
    Txn* txn, const wire::RemoveSetRequest* request) {
  const absl::StatusOr<SetPlace> place =
      co_await FindPlace(txn, request->path());
  if (!place.ok()) co_return place.status();
  const absl::StatusOr<std::optional<store::DirectoryEntry>> entry =
      co_await GetDirent(txn, place->parent, place->name);
  if (!entry.ok()) co_return entry.status();
  absl::Status removed;
  if (entry->has_value()) {
    removed = co_await RemovePublished(txn, place->parent, place->name,
                                       InodeId((*entry)->inode()));
  } else {
    removed = co_await RemoveOpen(txn, place->parent, place->name);
  }
  if (!removed.ok()) co_return Annotate(removed, request->path());
  co_return wire::RemoveSetResponse();
}

io::Task<absl::Status> Sets::RemovePublished(Txn* txn, InodeId parent,
                                             std::string name, InodeId set) {
  absl::StatusOr<std::optional<store::CheckpointSet>> record =
      co_await txn->Get<store::CheckpointSet>(format::SetKey(set));
  if (!record.ok()) co_return record.status();
  if (!record->has_value() ||
      (*record)->state() != static_cast<uint32_t>(SetState::kPublished)) {
    co_return absl::NotFoundError("is no checkpoint set");
  }
  absl::StatusOr<store::Inode> inode = co_await GetInode(txn, set);
  if (!inode.ok()) co_return inode.status();
  const uint64_t now = core_->env->WallNs();
  txn->Delete(format::DirentKey(parent, name));
  txn->Delete(format::PublicationKey((*record)->publication()));
  (*record)->set_state(static_cast<uint32_t>(SetState::kFenced));
  (*record)->set_failure("it was removed");
  txn->Put(format::SetKey(set), **record);
  inode->set_nlink(0);
  inode->set_ctime_ns(now);
  txn->Put(format::InodeKey(set), *inode);
  TouchDirectory(txn, parent, now);
  store::Trash trash;
  trash.set_kind(static_cast<uint32_t>(format::TrashKind::kSet));
  const uint64_t due = core_->clock.NowMs() + core_->options.trash_grace_ms;
  txn->Put(format::TrashKey(due, set), trash);
  co_return absl::OkStatus();
}

io::Task<absl::Status> Sets::RemoveOpen(Txn* txn, InodeId parent,
                                        std::string name) {
  const absl::StatusOr<std::optional<store::OpenSet>> open =
      co_await txn->Get<store::OpenSet>(format::OpenSetKey(parent, name));
  if (!open.ok()) co_return open.status();
  if (!open->has_value()) {
    co_return absl::NotFoundError("is no checkpoint set, published or open");
  }
  const InodeId set((*open)->set());
  const absl::StatusOr<std::optional<store::CheckpointSet>> record =
      co_await txn->Get<store::CheckpointSet>(format::SetKey(set));
  if (!record.ok()) co_return record.status();
  if (!record->has_value()) co_return Conflict();
  FenceSet(txn, set, **record, "it was removed");
  co_return absl::OkStatus();
}

}  // namespace cairn::server
