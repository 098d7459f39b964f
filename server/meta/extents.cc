#include "server/meta/extents.h"

#include <algorithm>
#include <set>

#include "format/base/fault_points.h"
#include "format/path/errors.h"
#include "server/meta/inodes.h"

namespace cairn::server {

using format::BlobId;
using format::Extent;
using format::InodeId;
using format::KeyKind;
using format::SessionId;

namespace {

absl::Status CheckFile(const store::Inode& record, InodeId inode) {
  if (IsFile(record)) return absl::OkStatus();
  return Precondition(
      IsDirectory(record) ? format::kErrIsDirectory : "not a regular file",
      absl::StrCat("inode ", inode.value));
}

void ClipInto(Extent extent, uint64_t begin, uint64_t end,
              wire::GetExtentsResponse* response) {
  const uint64_t from = std::max(extent.file_offset, begin);
  const uint64_t to = std::min(extent.file_end(), end);
  if (from >= to) return;
  wire::Extent* const proto = response->add_extents();
  proto->set_file_offset(from);
  proto->set_length(to - from);
  proto->set_blob(extent.blob.value);
  proto->set_blob_offset(extent.blob_offset + (from - extent.file_offset));
}

}  // namespace

absl::StatusOr<std::vector<Extent>> ExtentsFromProto(
    const google::protobuf::RepeatedPtrField<wire::Extent>& protos,
    uint32_t count_max) {
  if (static_cast<uint32_t>(protos.size()) > count_max) {
    return absl::InvalidArgumentError(absl::StrCat(
        protos.size(), " extents in one request; at most ", count_max));
  }
  std::vector<Extent> extents;
  for (const wire::Extent& proto : protos) {
    Extent extent;
    extent.file_offset = proto.file_offset();
    extent.length = proto.length();
    extent.blob = BlobId(proto.blob());
    extent.blob_offset = proto.blob_offset();
    if (extent.length == 0 || extent.length > kFileBytesMax ||
        extent.file_offset > kFileBytesMax - extent.length ||
        extent.blob_offset > kFileBytesMax - extent.length ||
        proto.blob() == 0) {
      return absl::InvalidArgumentError("an extent that cannot be");
    }
    extents.push_back(extent);
  }
  return extents;
}

uint64_t TotalBytes(const std::vector<Extent>& extents) {
  uint64_t bytes = 0;
  for (const Extent& extent : extents) bytes += extent.length;
  return bytes;
}

io::Task<absl::StatusOr<wire::GetExtentsResponse>> Extents::Get(
    wire::GetExtentsRequest request) {
  return ReadOp(core_, this, &Extents::GetIn, std::move(request));
}

io::Task<absl::StatusOr<wire::GetExtentsResponse>> Extents::GetIn(
    Txn* txn, const wire::GetExtentsRequest* request) {
  const InodeId inode(request->inode());
  const absl::StatusOr<store::Inode> record = co_await GetInode(txn, inode);
  if (!record.ok()) co_return record.status();
  CAIRN_CO_RETURN_IF_ERROR(CheckFile(*record, inode));
  wire::GetExtentsResponse response;
  *response.mutable_attributes() = ToAttributes(inode, *record);
  const uint64_t begin = std::min(request->offset(), record->size());
  const uint64_t length = std::min(request->length(), record->size() - begin);
  if (length == 0) co_return response;

  uint32_t limit = std::min(request->limit(), kExtentsPerAnswerMax);
  if (limit == 0) limit = kExtentsPerAnswerMax;
  // One may only touch the range's start.
  const absl::StatusOr<std::vector<Extent>> extents =
      co_await LoadExtents(txn, inode, begin, length, limit + 2);
  if (!extents.ok()) co_return extents.status();
  // Still the same file content: else the scan may mix two states.
  const absl::StatusOr<store::Inode> again = co_await GetInode(txn, inode);
  if (!again.ok()) co_return again.status();
  CAIRN_SOMETIMES(txn->torn(), "meta.extents.torn_read");
  if (txn->torn()) co_return Conflict();

  for (const Extent& extent : *extents) {
    if (static_cast<uint32_t>(response.extents_size()) == limit &&
        extent.file_offset < begin + length) {
      response.set_more(true);
      break;
    }
    ClipInto(extent, begin, begin + length, &response);
  }
  co_return response;
}

namespace {

// That no row which holds stripes of the extent is younger than `epoch`.
absl::Status CheckRows(const format::ClusterMap& map, format::Epoch epoch,
                       const Extent& extent) {
  const format::Pool* const pool = map.FindPool(extent.blob.pool());
  if (pool == nullptr) return absl::OkStatus();  // CheckBlobs() refuses it.
  const uint64_t first = extent.blob_offset / pool->stripe_bytes();
  const uint64_t last =
      (extent.blob_offset + extent.length - 1) / pool->stripe_bytes();
  // After stripe_width stripes the rows come again.
  const uint64_t end = std::min(last, first + pool->stripe_width - 1);
  for (uint64_t stripe = first; stripe <= end; ++stripe) {
    const uint32_t pg = pool->PgOf(
        extent.blob, static_cast<uint32_t>(stripe % pool->stripe_width));
    const format::Epoch row = map.PgEpoch(*pool, pg);
    if (row <= epoch) continue;
    return absl::AbortedError(
        absl::StrCat(AbslText(format::kErrMapChanged), ": PG ", pg, " of pool ",
                     pool->name, " got other targets at epoch ", row.value,
                     ", and ", format::ToString(extent.blob), "/", stripe,
                     " was written under epoch ", epoch.value));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status Extents::ExpectRows(uint64_t epoch,
                                 const std::vector<Extent>& extents,
                                 Txn* txn) const {
  const auto map = core_->map.map();
  if (epoch > map->epoch.value) {
    return absl::AbortedError(absl::StrCat(
        AbslText(format::kErrMapChanged), ": the data was written under epoch ",
        epoch, ", and the cluster map has epoch ", map->epoch.value));
  }
  for (const Extent& extent : extents) {
    CAIRN_RETURN_IF_ERROR(CheckRows(*map, format::Epoch(epoch), extent));
  }
  txn->Expect(format::MapKey(), core_->map.version());
  return absl::OkStatus();
}

io::Task<absl::Status> Extents::CheckBlobs(Txn* txn, SessionId session,
                                           std::vector<Extent> extents) {
  std::set<BlobId> blobs;
  for (const Extent& extent : extents) blobs.insert(extent.blob);
  for (const BlobId blob : blobs) {
    const absl::StatusOr<std::optional<store::Blob>> record =
        co_await txn->Get<store::Blob>(format::BlobKey(blob));
    if (!record.ok()) co_return record.status();
    if (!record->has_value() || (*record)->doomed()) {
      co_return absl::AbortedError(
          absl::StrCat(format::ToString(blob),
                       " was reclaimed, as nothing referred to it for long: "
                       "its data must be written again"));
    }
    if ((*record)->owner() == session.value) continue;
    const format::KeyRange references =
        format::RangeOf(KeyKind::kReference, {blob.value});
    const absl::StatusOr<std::vector<KvPair>> found =
        co_await txn->Scan(references.begin, references.end, 1);
    if (!found.ok()) co_return found.status();
    if (found->empty()) {
      co_return absl::AbortedError(
          absl::StrCat(format::ToString(blob), " belongs to another session"));
    }
  }
  co_return absl::OkStatus();
}

io::Task<absl::StatusOr<uint64_t>> Extents::Fill(Txn* txn, ExtentUpdate* update,
                                                 std::vector<Extent> extents,
                                                 uint64_t skip) {
  uint64_t filled = 0;
  for (Extent extent : extents) {
    if (skip >= extent.length) {
      skip -= extent.length;
      continue;
    }
    extent.file_offset += skip;
    extent.blob_offset += skip;
    extent.length -= std::exchange(skip, 0);
    while (extent.length > 0) {
      const absl::StatusOr<uint64_t> taken =
          co_await update->Write(txn, extent);
      if (!taken.ok()) co_return taken.status();
      if (*taken == 0) co_return filled;
      filled += *taken;
      extent.file_offset += *taken;
      extent.blob_offset += *taken;
      extent.length -= *taken;
    }
  }
  co_return filled;
}

}  // namespace cairn::server
