// Changing attributes, truncation among them.
#include "format/base/fault_points.h"
#include "format/path/errors.h"
#include "server/meta/namespace.h"

namespace cairn::server {

using format::InodeId;

io::Task<absl::StatusOr<wire::SetAttrResponse>> Namespace::SetAttr(
    wire::SetAttrRequest request) {
  const bool truncates = request.has_size();
  const InodeId inode(request.inode());
  const absl::StatusOr<wire::SetAttrResponse> response = co_await MutateOp(
      sessions_, this, &Namespace::SetAttrIn, std::move(request));
  if (response.ok() && truncates && !CAIRN_FAULT_POINT("meta.trim.left_over")) {
    // The answer does not depend on it: what is left over is trimmed before
    // the file grows again, or with the file.
    const absl::Status trimmed = co_await extents_->FinishTrim(inode);
    (void)trimmed;
  }
  co_return response;
}

io::Task<absl::StatusOr<wire::SetAttrResponse>> Namespace::SetAttrIn(
    Txn* txn, const wire::SetAttrRequest* request) {
  const InodeId inode(request->inode());
  absl::StatusOr<store::Inode> record = co_await GetInode(txn, inode);
  if (!record.ok()) co_return record.status();
  const uint64_t now = core_->env->WallNs();
  if (request->has_size()) {
    CAIRN_CO_RETURN_IF_ERROR(
        co_await SetSize(txn, inode, request->size(), &*record));
    record->set_mtime_ns(now);
    record->set_generation(record->generation() + 1);
  }
  if (request->has_mode()) record->set_mode(request->mode() & 07777);
  if (request->has_uid()) record->set_uid(request->uid());
  if (request->has_gid()) record->set_gid(request->gid());
  if (request->has_atime_ns()) record->set_atime_ns(request->atime_ns());
  if (request->has_mtime_ns()) {
    record->set_mtime_ns(request->mtime_ns());
    if (IsDirectory(*record)) {
      TouchDirectory(txn, inode, request->mtime_ns());
    }
  }
  record->set_ctime_ns(now);
  txn->Put(format::InodeKey(inode), *record);
  absl::StatusOr<wire::Attributes> attributes =
      co_await MakeAttributes(txn, inode, *record);
  if (!attributes.ok()) co_return attributes.status();
  wire::SetAttrResponse response;
  *response.mutable_attributes() = *std::move(attributes);
  co_return response;
}

io::Task<absl::Status> Namespace::SetSize(Txn* txn, InodeId inode,
                                          uint64_t size, store::Inode* record) {
  const std::string name = absl::StrCat("inode ", inode.value);
  if (IsDirectory(*record)) {
    co_return Precondition(format::kErrIsDirectory, name);
  }
  if (!IsFile(*record)) co_return Precondition("not a regular file", name);
  if (record->set() != 0) {
    co_return Precondition(format::kErrSetImmutable, name);
  }
  if (size > kFileBytesMax) {
    co_return absl::InvalidArgumentError("the file would be too large");
  }
  if (record->trimming()) {
    CAIRN_SOMETIMES(true, "meta.trim.finished_first");
    CAIRN_CO_RETURN_IF_ERROR(co_await extents_->FinishTrim(inode));
    co_return Conflict();
  }
  if (size >= record->size()) {
    record->set_size(size);
    co_return absl::OkStatus();
  }
  record->set_size(size);
  ExtentUpdate update(core_, inode);
  const absl::StatusOr<bool> more = co_await update.Trim(txn, size);
  if (!more.ok()) co_return more.status();
  CAIRN_CO_RETURN_IF_ERROR(co_await update.Finish(txn));
  record->set_allocated_bytes(
      static_cast<uint64_t>(static_cast<int64_t>(record->allocated_bytes()) +
                            update.allocated_delta()));
  record->set_trimming(*more);
  co_return absl::OkStatus();
}

}  // namespace cairn::server
