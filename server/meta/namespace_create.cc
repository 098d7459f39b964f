// Making names: create, link.
#include "format/path/errors.h"
#include "format/path/names.h"
#include "server/meta/namespace.h"

namespace cairn::server {

using format::CounterId;
using format::InodeId;
using format::InodeType;

namespace {

constexpr uint32_t kModeBits = 07777;

absl::Status CheckCreate(const wire::CreateRequest& request) {
  CAIRN_RETURN_IF_ERROR(format::ValidateName(request.name()));
  const bool symlink =
      request.type() == static_cast<uint32_t>(InodeType::kSymlink);
  if (request.type() < static_cast<uint32_t>(InodeType::kFile) ||
      request.type() > static_cast<uint32_t>(InodeType::kSymlink)) {
    return absl::InvalidArgumentError("no such type of inode");
  }
  if (!symlink) return absl::OkStatus();
  const std::string& target = request.symlink();
  if (target.empty() || target.size() > format::kSymlinkBytesMax ||
      target.find('\0') != std::string::npos || !format::IsValidUtf8(target)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the target of a symbolic link is 1 to ",
                     format::kSymlinkBytesMax, " bytes of UTF-8"));
  }
  return absl::OkStatus();
}

store::Inode NewInode(const wire::CreateRequest& request, uint64_t now_ns) {
  store::Inode record;
  record.set_type(request.type());
  record.set_mode(request.mode() & kModeBits);
  record.set_uid(request.uid());
  record.set_gid(request.gid());
  record.set_nlink(1);
  record.set_mtime_ns(now_ns);
  record.set_ctime_ns(now_ns);
  record.set_atime_ns(now_ns);
  record.set_generation(1);
  if (request.type() == static_cast<uint32_t>(InodeType::kSymlink)) {
    record.set_symlink(request.symlink());
    record.set_size(request.symlink().size());
  }
  if (IsDirectory(record)) {
    record.set_parent(request.parent());
    record.set_name(request.name());
  }
  return record;
}

io::Task<absl::Status> CheckDepth(Txn* txn, InodeId parent) {
  const absl::StatusOr<Ancestry> ancestry =
      co_await WalkUp(txn, parent, InodeId());
  if (!ancestry.ok()) co_return ancestry.status();
  if (ancestry->depth >= kDirectoryDepthMax) {
    co_return absl::InvalidArgumentError(absl::StrCat(
        "directories are nested at most ", kDirectoryDepthMax, " deep"));
  }
  co_return absl::OkStatus();
}

}  // namespace

io::Task<absl::StatusOr<wire::CreateResponse>> Namespace::Create(
    wire::CreateRequest request) {
  return MutateOp(sessions_, this, &Namespace::CreateIn, std::move(request));
}
io::Task<absl::StatusOr<wire::LinkResponse>> Namespace::Link(
    wire::LinkRequest request) {
  return MutateOp(sessions_, this, &Namespace::LinkIn, std::move(request));
}

io::Task<absl::StatusOr<wire::CreateResponse>> Namespace::CreateIn(
    Txn* txn, const wire::CreateRequest* request) {
  CAIRN_CO_RETURN_IF_ERROR(CheckCreate(*request));
  const InodeId parent(request->parent());
  const absl::StatusOr<store::Inode> directory =
      co_await GetDirectory(txn, parent);
  if (!directory.ok()) co_return directory.status();
  const absl::StatusOr<std::optional<store::DirectoryEntry>> entry =
      co_await GetDirent(txn, parent, request->name());
  if (!entry.ok()) co_return entry.status();
  if (entry->has_value()) {
    co_return co_await OpenExisting(txn, request, InodeId((*entry)->inode()));
  }
  if (directory->set() != 0) {
    co_return Precondition(format::kErrSetImmutable, directory->name());
  }
  if (request->type() == static_cast<uint32_t>(InodeType::kDirectory)) {
    CAIRN_CO_RETURN_IF_ERROR(co_await CheckDepth(txn, parent));
  }
  const absl::StatusOr<uint64_t> id =
      co_await core_->ids.Next(CounterId::kInodeCounter);
  if (!id.ok()) co_return id.status();
  const InodeId inode(*id);
  const uint64_t now = core_->env->WallNs();
  const store::Inode record = NewInode(*request, now);
  store::DirectoryEntry made;
  made.set_inode(inode.value);
  made.set_type(request->type());
  txn->Put(format::DirentKey(parent, request->name()), made);
  txn->Put(format::InodeKey(inode), record);
  TouchDirectory(txn, parent, now);
  if (!IsDirectory(record)) {
    txn->OnCommit([core = core_] { core->files.Made(); });
  }
  wire::CreateResponse response;
  *response.mutable_attributes() = ToAttributes(inode, record);
  co_return response;
}

io::Task<absl::StatusOr<wire::CreateResponse>> Namespace::OpenExisting(
    Txn* txn, const wire::CreateRequest* request, InodeId inode) {
  const absl::StatusOr<store::Inode> record = co_await GetInode(txn, inode);
  if (absl::IsNotFound(record.status())) co_return Conflict();
  if (!record.ok()) co_return record.status();
  const bool wants_file =
      request->type() == static_cast<uint32_t>(InodeType::kFile);
  if (!request->open_existing() || !wants_file || !IsFile(*record)) {
    if (request->open_existing() && wants_file && IsDirectory(*record)) {
      co_return Precondition(format::kErrIsDirectory, request->name());
    }
    co_return absl::AlreadyExistsError(
        absl::StrCat("\"", format::EscapeForDisplay(request->name()),
                     "\" is there already"));
  }
  wire::CreateResponse response;
  *response.mutable_attributes() = ToAttributes(inode, *record);
  response.set_existed(true);
  co_return response;
}

io::Task<absl::StatusOr<wire::LinkResponse>> Namespace::LinkIn(
    Txn* txn, const wire::LinkRequest* request) {
  CAIRN_CO_RETURN_IF_ERROR(format::ValidateName(request->name()));
  const InodeId inode(request->inode());
  const InodeId parent(request->parent());
  absl::StatusOr<store::Inode> record = co_await GetInode(txn, inode);
  if (!record.ok()) co_return record.status();
  if (IsDirectory(*record)) {
    co_return Precondition(format::kErrIsDirectory, request->name());
  }
  if (record->set() != 0) {
    co_return Precondition(format::kErrSetImmutable, request->name());
  }
  if (record->nlink() == 0) co_return NoSuchInode(inode);
  if (record->nlink() >= kLinksMax) {
    co_return absl::ResourceExhaustedError(
        absl::StrCat(AbslText(format::kErrTooManyLinks), ": ", kLinksMax));
  }
  CAIRN_CO_RETURN_IF_ERROR(co_await GetMutableDirectory(txn, parent));
  const absl::StatusOr<std::optional<store::DirectoryEntry>> entry =
      co_await GetDirent(txn, parent, request->name());
  if (!entry.ok()) co_return entry.status();
  if (entry->has_value()) {
    co_return absl::AlreadyExistsError(
        absl::StrCat("\"", format::EscapeForDisplay(request->name()),
                     "\" is there already"));
  }
  const uint64_t now = core_->env->WallNs();
  record->set_nlink(record->nlink() + 1);
  record->set_ctime_ns(now);
  txn->Put(format::InodeKey(inode), *record);
  store::DirectoryEntry made;
  made.set_inode(inode.value);
  made.set_type(record->type());
  txn->Put(format::DirentKey(parent, request->name()), made);
  TouchDirectory(txn, parent, now);
  wire::LinkResponse response;
  *response.mutable_attributes() = ToAttributes(inode, *record);
  co_return response;
}

io::Task<absl::StatusOr<InodeId>> Namespace::MakeDirectories(
    std::vector<std::string> names) {
  InodeId directory = format::kRootInode;
  for (const std::string& name : names) {
    InodeId next;
    TxnBody body = [this, directory, name, out = &next](Txn* txn) {
      return MakeDirectoryIn(txn, directory, name, out);
    };
    CAIRN_CO_RETURN_IF_ERROR(co_await RunTxn(core_, std::move(body)));
    directory = next;
  }
  co_return directory;
}

io::Task<absl::Status> Namespace::MakeDirectoryIn(Txn* txn, InodeId parent,
                                                  std::string name,
                                                  InodeId* made) {
  wire::CreateRequest request;
  request.set_parent(parent.value);
  request.set_name(name);
  request.set_type(static_cast<uint32_t>(InodeType::kDirectory));
  request.set_mode(0755);
  const absl::StatusOr<std::optional<store::DirectoryEntry>> entry =
      co_await GetDirent(txn, parent, name);
  if (!entry.ok()) co_return entry.status();
  if (entry->has_value()) {
    *made = InodeId((*entry)->inode());
    co_return absl::OkStatus();
  }
  const absl::StatusOr<wire::CreateResponse> created =
      co_await CreateIn(txn, &request);
  if (!created.ok()) co_return created.status();
  *made = InodeId(created->attributes().inode());
  co_return absl::OkStatus();
}

}  // namespace cairn::server
