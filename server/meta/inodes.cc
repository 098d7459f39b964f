#include "server/meta/inodes.h"

#include <algorithm>

#include "format/path/errors.h"
#include "format/path/names.h"

namespace cairn::server {

using format::InodeId;

absl::Status NoSuchInode(InodeId inode) {
  return absl::NotFoundError(
      absl::StrCat("inode ", inode.value, " does not exist (any more)"));
}

absl::Status NoSuchName(std::string_view name) {
  return absl::NotFoundError(
      absl::StrCat("no entry \"", format::EscapeForDisplay(name), "\""));
}

absl::Status Precondition(std::string_view phrase, std::string_view name) {
  return absl::FailedPreconditionError(absl::StrCat(
      "\"", format::EscapeForDisplay(name), "\": ", AbslText(phrase)));
}

io::Task<absl::StatusOr<store::Inode>> GetInode(Txn* txn, InodeId inode) {
  absl::StatusOr<std::optional<store::Inode>> record =
      co_await txn->Get<store::Inode>(format::InodeKey(inode));
  if (!record.ok()) co_return record.status();
  if (!record->has_value()) co_return NoSuchInode(inode);
  co_return std::move(**record);
}

io::Task<absl::StatusOr<store::Inode>> GetDirectory(Txn* txn, InodeId inode) {
  absl::StatusOr<store::Inode> record = co_await GetInode(txn, inode);
  if (record.ok() && !IsDirectory(*record)) {
    co_return Precondition(format::kErrNotDirectory,
                           absl::StrCat("inode ", inode.value));
  }
  co_return record;
}

io::Task<absl::StatusOr<store::Inode>> GetMutableDirectory(Txn* txn,
                                                           InodeId inode) {
  absl::StatusOr<store::Inode> record = co_await GetDirectory(txn, inode);
  if (record.ok() && record->set() != 0) {
    co_return Precondition(format::kErrSetImmutable, record->name());
  }
  co_return record;
}

io::Task<absl::StatusOr<std::optional<store::DirectoryEntry>>> GetDirent(
    Txn* txn, InodeId parent, std::string name) {
  return txn->Get<store::DirectoryEntry>(format::DirentKey(parent, name));
}

io::Task<absl::StatusOr<bool>> DirectoryIsEmpty(Txn* txn, InodeId directory) {
  const format::KeyRange range =
      format::RangeOf(format::KeyKind::kDirent, {directory.value});
  const absl::StatusOr<std::vector<KvPair>> first =
      co_await txn->Scan(range.begin, range.end, 1);
  if (!first.ok()) co_return first.status();
  co_return first->empty();
}

wire::Attributes ToAttributes(InodeId inode, const store::Inode& record) {
  wire::Attributes attributes;
  attributes.set_inode(inode.value);
  attributes.set_type(record.type());
  attributes.set_mode(record.mode());
  attributes.set_uid(record.uid());
  attributes.set_gid(record.gid());
  attributes.set_nlink(record.nlink());
  attributes.set_size(record.size());
  attributes.set_mtime_ns(record.mtime_ns());
  attributes.set_ctime_ns(record.ctime_ns());
  attributes.set_atime_ns(record.atime_ns());
  attributes.set_generation(record.generation());
  attributes.set_symlink(record.symlink());
  attributes.set_allocated_bytes(record.allocated_bytes());
  attributes.set_parent(record.parent());
  return attributes;
}

io::Task<absl::StatusOr<wire::Attributes>> MakeAttributes(Txn* txn,
                                                          InodeId inode,
                                                          store::Inode record) {
  wire::Attributes attributes = ToAttributes(inode, record);
  if (!IsDirectory(record)) co_return attributes;
  const absl::StatusOr<std::optional<store::DirectoryTime>> time =
      co_await txn->Peek<store::DirectoryTime>(format::DirectoryTimeKey(inode));
  if (!time.ok()) co_return time.status();
  if (time->has_value()) {
    const uint64_t mtime_ns = (*time)->mtime_ns();
    attributes.set_mtime_ns(mtime_ns);
    attributes.set_ctime_ns(std::max(record.ctime_ns(), mtime_ns));
    attributes.set_generation(mtime_ns);
  }
  co_return attributes;
}

void TouchDirectory(Txn* txn, InodeId directory, uint64_t now_ns) {
  store::DirectoryTime time;
  time.set_mtime_ns(now_ns);
  txn->Put(format::DirectoryTimeKey(directory), time);
}

io::Task<absl::StatusOr<Ancestry>> WalkUp(Txn* txn, InodeId directory,
                                          InodeId looked_for) {
  Ancestry ancestry;
  while (true) {
    if (directory == looked_for) ancestry.meets = true;
    if (directory == format::kRootInode) co_return ancestry;
    if (++ancestry.depth > kDirectoryDepthMax) co_return ancestry;
    const absl::StatusOr<std::optional<store::Inode>> record =
        co_await txn->Peek<store::Inode>(format::InodeKey(directory));
    if (!record.ok()) co_return record.status();
    if (!record->has_value()) co_return Conflict();  // Removed on our way.
    directory = InodeId((*record)->parent());
  }
}

}  // namespace cairn::server
