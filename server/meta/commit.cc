// The half of Extents that changes files.
#include <algorithm>

#include "format/base/fault_points.h"
#include "format/path/errors.h"
#include "server/meta/extents.h"
#include "server/meta/inodes.h"

namespace cairn::server {

using format::Extent;
using format::InodeId;
using format::SessionId;

namespace {

uint64_t EndOf(const std::vector<Extent>& extents) {
  uint64_t end = 0;
  for (const Extent& extent : extents) end = std::max(end, extent.file_end());
  return end;
}

absl::Status CheckWritable(const store::Inode& record, InodeId inode) {
  const std::string name = absl::StrCat("inode ", inode.value);
  if (IsDirectory(record)) return Precondition(format::kErrIsDirectory, name);
  if (!IsFile(record)) return Precondition("not a regular file", name);
  if (record.set() != 0) return Precondition(format::kErrSetImmutable, name);
  return absl::OkStatus();
}

void AddAllocated(int64_t delta, store::Inode* record) {
  record->set_allocated_bytes(static_cast<uint64_t>(
      static_cast<int64_t>(record->allocated_bytes()) + delta));
}

// With append, offsets count from the file's end.
absl::Status MoveToEnd(uint64_t size, std::vector<Extent>* extents) {
  for (Extent& extent : *extents) {
    if (size > kFileBytesMax - extent.file_end()) {
      return absl::InvalidArgumentError("the file would be too large");
    }
    extent.file_offset += size;
  }
  return absl::OkStatus();
}

}  // namespace

io::Task<absl::StatusOr<wire::CommitExtentsResponse>> Extents::Commit(
    wire::CommitExtentsRequest request) {
  absl::StatusOr<wire::CommitExtentsResponse> response = co_await MutateOp(
      sessions_, this, &Extents::CommitIn, std::move(request));
  if (response.ok()) response->set_sequence(core_->kv->durable_sequence());
  co_return response;
}

io::Task<absl::StatusOr<wire::CommitExtentsResponse>> Extents::CommitIn(
    Txn* txn, const wire::CommitExtentsRequest* request) {
  CAIRN_CO_ASSIGN_OR_RETURN(
      std::vector<Extent> extents,
      ExtentsFromProto(request->extents(), kExtentsPerCommitMax));
  if (request->size_at_least() > kFileBytesMax) {
    co_return absl::InvalidArgumentError("the file would be too large");
  }
  const InodeId inode(request->inode());
  absl::StatusOr<store::Inode> record = co_await GetInode(txn, inode);
  if (!record.ok()) co_return record.status();
  CAIRN_CO_RETURN_IF_ERROR(CheckWritable(*record, inode));
  if (record->trimming()) {
    CAIRN_SOMETIMES(true, "meta.commit.trimmed_first");
    CAIRN_CO_RETURN_IF_ERROR(co_await FinishTrim(inode));
    co_return Conflict();
  }
  const uint64_t old_size = record->size();
  if (request->append()) {
    CAIRN_CO_RETURN_IF_ERROR(MoveToEnd(old_size, &extents));
  }
  ExtentUpdate update(core_, inode);
  if (!extents.empty()) {
    CAIRN_CO_RETURN_IF_ERROR(ExpectRows(request->epoch(), extents, txn));
    const absl::StatusOr<uint64_t> filled =
        co_await Fill(txn, &update, extents, 0);
    if (!filled.ok()) co_return filled.status();
    const bool in_parts =
        !request->append() && CAIRN_FAULT_POINT("meta.commit.in_parts");
    if (*filled < TotalBytes(extents) || in_parts) {
      if (request->append()) {
        co_return absl::InvalidArgumentError(
            "an append of so many extents in so many blobs does not fit in "
            "one transaction");
      }
      CAIRN_CO_RETURN_IF_ERROR(co_await CommitParts(request));
      co_return Conflict();  // What is there already costs nothing next time.
    }
    CAIRN_CO_RETURN_IF_ERROR(co_await CheckBlobs(
        txn, SessionId(request->id().session()), update.FreshExtents()));
    CAIRN_CO_RETURN_IF_ERROR(co_await update.Finish(txn));
  }
  const uint64_t now = core_->env->WallNs();
  AddAllocated(update.allocated_delta(), &*record);
  record->set_size(
      std::max({old_size, EndOf(extents), request->size_at_least()}));
  record->set_mtime_ns(request->mtime_ns() != 0 ? request->mtime_ns() : now);
  record->set_ctime_ns(now);
  record->set_generation(record->generation() + 1);
  txn->Put(format::InodeKey(inode), *record);
  wire::CommitExtentsResponse response;
  *response.mutable_attributes() = ToAttributes(inode, *record);
  response.set_appended_at(request->append() ? old_size : 0);
  co_return response;
}

io::Task<absl::Status> Extents::CommitParts(
    const wire::CommitExtentsRequest* request) {
  CAIRN_CO_ASSIGN_OR_RETURN(
      const std::vector<Extent> extents,
      ExtentsFromProto(request->extents(), kExtentsPerCommitMax));
  const uint64_t total = TotalBytes(extents);
  uint64_t done = 0;
  while (done < total) {
    uint64_t written = 0;
    TxnBody body = [this, request, done, out = &written](Txn* txn) {
      return CommitPartIn(txn, request, done, out);
    };
    CAIRN_CO_RETURN_IF_ERROR(co_await RunTxn(core_, std::move(body)));
    if (written == 0) co_return absl::InternalError("a commit is stuck");
    done += written;
  }
  co_return absl::OkStatus();
}

io::Task<absl::Status> Extents::CommitPartIn(
    Txn* txn, const wire::CommitExtentsRequest* request, uint64_t skip,
    uint64_t* written) {
  const SessionId session(request->id().session());
  CAIRN_CO_RETURN_IF_ERROR(sessions_->ExpectLive(session, txn));
  CAIRN_CO_ASSIGN_OR_RETURN(
      std::vector<Extent> extents,
      ExtentsFromProto(request->extents(), kExtentsPerCommitMax));
  CAIRN_CO_RETURN_IF_ERROR(ExpectRows(request->epoch(), extents, txn));
  const InodeId inode(request->inode());
  absl::StatusOr<store::Inode> record = co_await GetInode(txn, inode);
  if (!record.ok()) co_return record.status();
  CAIRN_CO_RETURN_IF_ERROR(CheckWritable(*record, inode));
  if (record->trimming()) co_return Conflict();
  ExtentUpdate update(core_, inode);
  const absl::StatusOr<uint64_t> filled =
      co_await Fill(txn, &update, extents, skip);
  if (!filled.ok()) co_return filled.status();
  CAIRN_CO_RETURN_IF_ERROR(
      co_await CheckBlobs(txn, session, update.FreshExtents()));
  CAIRN_CO_RETURN_IF_ERROR(co_await update.Finish(txn));
  AddAllocated(update.allocated_delta(), &*record);
  // The size follows at each step, so that new bytes are never beyond it.
  uint64_t position = 0;
  uint64_t size = record->size();
  for (const Extent& extent : extents) {
    if (position >= skip + *filled) break;
    const uint64_t part = std::min(extent.length, skip + *filled - position);
    size = std::max(size, extent.file_offset + part);
    position += extent.length;
  }
  record->set_size(size);
  record->set_generation(record->generation() + 1);
  txn->Put(format::InodeKey(inode), *record);
  *written = *filled;
  co_return absl::OkStatus();
}

io::Task<absl::Status> Extents::FinishTrim(InodeId inode) {
  bool more = true;
  while (more) {
    TxnBody body = [this, inode, out = &more](Txn* txn) {
      return TrimPage(txn, inode, out);
    };
    CAIRN_CO_RETURN_IF_ERROR(co_await RunTxn(core_, std::move(body)));
  }
  co_return absl::OkStatus();
}

io::Task<absl::Status> Extents::TrimPage(Txn* txn, InodeId inode, bool* more) {
  *more = false;
  absl::StatusOr<store::Inode> record = co_await GetInode(txn, inode);
  if (absl::IsNotFound(record.status())) co_return absl::OkStatus();
  if (!record.ok()) co_return record.status();
  if (!record->trimming()) co_return absl::OkStatus();
  ExtentUpdate update(core_, inode);
  const absl::StatusOr<bool> rest = co_await update.Trim(txn, record->size());
  if (!rest.ok()) co_return rest.status();
  CAIRN_CO_RETURN_IF_ERROR(co_await update.Finish(txn));
  AddAllocated(update.allocated_delta(), &*record);
  record->set_trimming(*rest);
  txn->Put(format::InodeKey(inode), *record);
  *more = *rest;
  co_return absl::OkStatus();
}

}  // namespace cairn::server
