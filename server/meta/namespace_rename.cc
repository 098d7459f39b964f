// Rename, as POSIX has it.
#include "format/path/errors.h"
#include "format/path/names.h"
#include "server/meta/namespace.h"

namespace cairn::server {

using format::InodeId;

struct Namespace::RenameState {
  InodeId inode;  // What moves.
  store::Inode record;
  store::DirectoryEntry entry;
  std::optional<store::DirectoryEntry> replaced;
};

io::Task<absl::StatusOr<wire::RenameResponse>> Namespace::Rename(
    wire::RenameRequest request) {
  return MutateOp(sessions_, this, &Namespace::RenameIn, std::move(request));
}

io::Task<absl::StatusOr<wire::RenameResponse>> Namespace::RenameIn(
    Txn* txn, const wire::RenameRequest* request) {
  CAIRN_CO_RETURN_IF_ERROR(format::ValidateName(request->from_name()));
  CAIRN_CO_RETURN_IF_ERROR(format::ValidateName(request->to_name()));
  RenameState state;
  CAIRN_CO_RETURN_IF_ERROR(co_await LoadRename(txn, request, &state));
  if (state.replaced.has_value()) {
    if (request->no_replace()) {
      co_return absl::AlreadyExistsError(
          absl::StrCat("\"", format::EscapeForDisplay(request->to_name()),
                       "\" is there already"));
    }
    // Two names of one file, or one name: POSIX says to do nothing.
    if (state.replaced->inode() == state.inode.value) {
      co_return wire::RenameResponse();
    }
  }
  if (IsDirectory(state.record)) {
    CAIRN_CO_RETURN_IF_ERROR(
        co_await CheckMoveOfDirectory(txn, request, &state));
  }
  if (state.replaced.has_value()) {
    CAIRN_CO_RETURN_IF_ERROR(co_await ReplaceTarget(txn, request, &state));
  }
  const InodeId from(request->from_parent());
  const InodeId to(request->to_parent());
  const uint64_t now = core_->env->WallNs();
  state.record.set_ctime_ns(now);
  if (IsDirectory(state.record)) {
    state.record.set_parent(to.value);
    state.record.set_name(request->to_name());
  }
  txn->Put(format::InodeKey(state.inode), state.record);
  txn->Delete(format::DirentKey(from, request->from_name()));
  txn->Put(format::DirentKey(to, request->to_name()), state.entry);
  TouchDirectory(txn, from, now);
  TouchDirectory(txn, to, now);
  co_return wire::RenameResponse();
}

io::Task<absl::Status> Namespace::LoadRename(Txn* txn,
                                             const wire::RenameRequest* request,
                                             RenameState* state) {
  const InodeId from(request->from_parent());
  const InodeId to(request->to_parent());
  CAIRN_CO_RETURN_IF_ERROR(co_await GetMutableDirectory(txn, from));
  CAIRN_CO_RETURN_IF_ERROR(co_await GetMutableDirectory(txn, to));
  const absl::StatusOr<std::optional<store::DirectoryEntry>> entry =
      co_await GetDirent(txn, from, request->from_name());
  if (!entry.ok()) co_return entry.status();
  if (!entry->has_value()) co_return NoSuchName(request->from_name());
  state->entry = **entry;
  state->inode = InodeId((*entry)->inode());
  absl::StatusOr<store::Inode> record = co_await GetInode(txn, state->inode);
  if (absl::IsNotFound(record.status())) co_return Conflict();
  if (!record.ok()) co_return record.status();
  state->record = *std::move(record);
  absl::StatusOr<std::optional<store::DirectoryEntry>> replaced =
      co_await GetDirent(txn, to, request->to_name());
  if (!replaced.ok()) co_return replaced.status();
  state->replaced = *std::move(replaced);
  co_return absl::OkStatus();
}

io::Task<absl::Status> Namespace::CheckMoveOfDirectory(
    Txn* txn, const wire::RenameRequest* request, RenameState* state) {
  if (request->from_parent() == request->to_parent()) {
    co_return absl::OkStatus();
  }
  // The way up is read without expectations; this key, which every move of a
  // directory writes, keeps it as it was read.
  const std::string lock = format::CounterKey(format::CounterId::kRenameLock);
  const absl::StatusOr<std::optional<store::Counter>> moves =
      co_await txn->Get<store::Counter>(lock);
  if (!moves.ok()) co_return moves.status();
  store::Counter next;
  next.set_next(moves->value_or(store::Counter()).next() + 1);
  txn->Put(lock, next);
  const absl::StatusOr<Ancestry> ancestry =
      co_await WalkUp(txn, InodeId(request->to_parent()), state->inode);
  if (!ancestry.ok()) co_return ancestry.status();
  if (ancestry->meets) {
    co_return absl::InvalidArgumentError(
        absl::StrCat("\"", format::EscapeForDisplay(request->from_name()),
                     "\" cannot be moved ", AbslText(format::kErrIntoItself)));
  }
  if (ancestry->depth >= kDirectoryDepthMax) {
    co_return absl::InvalidArgumentError(absl::StrCat(
        "directories are nested at most ", kDirectoryDepthMax, " deep"));
  }
  co_return absl::OkStatus();
}

io::Task<absl::Status> Namespace::ReplaceTarget(
    Txn* txn, const wire::RenameRequest* request, RenameState* state) {
  const InodeId victim(state->replaced->inode());
  if (IsDirectory(state->record)) {
    co_return co_await DropDirectory(txn, victim, request->to_name());
  }
  const absl::StatusOr<store::Inode> record = co_await GetInode(txn, victim);
  if (absl::IsNotFound(record.status())) co_return Conflict();
  if (!record.ok()) co_return record.status();
  if (IsDirectory(*record)) {
    co_return Precondition(format::kErrIsDirectory, request->to_name());
  }
  DropLink(txn, victim, *record);
  co_return absl::OkStatus();
}

}  // namespace cairn::server
