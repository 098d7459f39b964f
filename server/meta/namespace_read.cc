// Reading the namespace.
#include <algorithm>

#include "format/path/errors.h"
#include "format/path/names.h"
#include "server/meta/namespace.h"

namespace cairn::server {

using format::InodeId;
using format::InodeType;

io::Task<absl::StatusOr<wire::LookupResponse>> Namespace::Lookup(
    wire::LookupRequest request) {
  return ReadOp(core_, this, &Namespace::LookupIn, std::move(request));
}
io::Task<absl::StatusOr<wire::GetAttrResponse>> Namespace::GetAttr(
    wire::GetAttrRequest request) {
  return ReadOp(core_, this, &Namespace::GetAttrIn, std::move(request));
}
io::Task<absl::StatusOr<wire::ReadDirResponse>> Namespace::ReadDir(
    wire::ReadDirRequest request) {
  return ReadOp(core_, this, &Namespace::ReadDirIn, std::move(request));
}
io::Task<absl::StatusOr<wire::ReadLinkResponse>> Namespace::ReadLink(
    wire::ReadLinkRequest request) {
  return ReadOp(core_, this, &Namespace::ReadLinkIn, std::move(request));
}

io::Task<absl::StatusOr<wire::LookupResponse>> Namespace::LookupIn(
    Txn* txn, const wire::LookupRequest* request) {
  CAIRN_CO_RETURN_IF_ERROR(format::ValidateName(request->name()));
  const InodeId parent(request->parent());
  const absl::StatusOr<std::optional<store::DirectoryEntry>> entry =
      co_await GetDirent(txn, parent, request->name());
  if (!entry.ok()) co_return entry.status();
  if (!entry->has_value()) {
    CAIRN_CO_RETURN_IF_ERROR(co_await GetDirectory(txn, parent));
    co_return NoSuchName(request->name());
  }
  const InodeId inode((*entry)->inode());
  const absl::StatusOr<store::Inode> record = co_await GetInode(txn, inode);
  if (absl::IsNotFound(record.status())) co_return Conflict();
  if (!record.ok()) co_return record.status();
  absl::StatusOr<wire::Attributes> attributes =
      co_await MakeAttributes(txn, inode, *record);
  if (!attributes.ok()) co_return attributes.status();
  wire::LookupResponse response;
  *response.mutable_attributes() = *std::move(attributes);
  co_return response;
}

io::Task<absl::StatusOr<wire::GetAttrResponse>> Namespace::GetAttrIn(
    Txn* txn, const wire::GetAttrRequest* request) {
  const InodeId inode(request->inode());
  const absl::StatusOr<store::Inode> record = co_await GetInode(txn, inode);
  if (!record.ok()) co_return record.status();
  absl::StatusOr<wire::Attributes> attributes =
      co_await MakeAttributes(txn, inode, *record);
  if (!attributes.ok()) co_return attributes.status();
  wire::GetAttrResponse response;
  *response.mutable_attributes() = *std::move(attributes);
  co_return response;
}

io::Task<absl::StatusOr<wire::ReadDirResponse>> Namespace::ReadDirIn(
    Txn* txn, const wire::ReadDirRequest* request) {
  const InodeId directory(request->inode());
  CAIRN_CO_RETURN_IF_ERROR(co_await GetDirectory(txn, directory));
  uint32_t limit = std::min(request->limit(), kReadDirEntriesMax);
  if (limit == 0) limit = kReadDirEntriesMax;
  std::string begin = format::DirentKey(directory, request->after());
  if (!request->after().empty()) begin += '\0';
  std::string end =
      format::RangeOf(format::KeyKind::kDirent, {directory.value}).end;
  const absl::StatusOr<std::vector<KvPair>> page =
      co_await txn->Scan(std::move(begin), std::move(end), limit + 1);
  if (!page.ok()) co_return page.status();

  wire::ReadDirResponse response;
  uint64_t bytes = 0;
  for (const KvPair& pair : *page) {
    if (static_cast<uint32_t>(response.entries_size()) == limit ||
        bytes > kAnswerBytesMax) {
      response.set_more(true);
      break;
    }
    CAIRN_CO_ASSIGN_OR_RETURN(const format::ParsedKey key,
                              format::ParseKey(pair.key));
    CAIRN_CO_ASSIGN_OR_RETURN(
        const store::DirectoryEntry entry,
        format::DecodeRecord<store::DirectoryEntry>(pair.key, pair.value));
    wire::DirectoryEntry listed;
    listed.set_name(key.name);
    listed.set_inode(entry.inode());
    listed.set_type(entry.type());
    if (request->attributes()) {
      const InodeId inode(entry.inode());
      const absl::StatusOr<store::Inode> record = co_await GetInode(txn, inode);
      if (absl::IsNotFound(record.status())) continue;  // Removed just now.
      if (!record.ok()) co_return record.status();
      absl::StatusOr<wire::Attributes> attributes =
          co_await MakeAttributes(txn, inode, *record);
      if (!attributes.ok()) co_return attributes.status();
      *listed.mutable_attributes() = *std::move(attributes);
    }
    bytes += listed.ByteSizeLong();
    *response.add_entries() = std::move(listed);
  }
  co_return response;
}

io::Task<absl::StatusOr<wire::ReadLinkResponse>> Namespace::ReadLinkIn(
    Txn* txn, const wire::ReadLinkRequest* request) {
  const InodeId inode(request->inode());
  const absl::StatusOr<store::Inode> record = co_await GetInode(txn, inode);
  if (!record.ok()) co_return record.status();
  if (record->type() != static_cast<uint32_t>(InodeType::kSymlink)) {
    co_return Precondition(format::kErrNotSymlink,
                           absl::StrCat("inode ", inode.value));
  }
  wire::ReadLinkResponse response;
  response.set_target(record->symlink());
  co_return response;
}

}  // namespace cairn::server
