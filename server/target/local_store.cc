// Putting, listing and deleting of a LocalStore.
#include "server/target/local_store.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <set>

#include "format/base/fault_points.h"
#include "format/base/status.h"
#include "format/checksum/block_checksum.h"
#include "server/target/limits.h"

namespace cairn::server {
namespace {

using format::BlobId;
using format::ChunkId;
using format::ChunkKey;
using format::ChunkPlace;
using format::IndexOp;
using format::StoredChunk;

ChunkKey KeyOf(uint32_t pg, ChunkId chunk) {
  ChunkKey key;
  key.pg = {chunk.blob.pool(), pg};
  key.chunk = chunk;
  return key;
}

absl::Status CompareWithStored(const ChunkKey& key, const ChunkEntry& entry,
                               uint64_t digest) {
  CAIRN_SOMETIMES(entry.digest == digest, "target.put.same_again");
  if (entry.digest == digest) return absl::OkStatus();
  return absl::AlreadyExistsError(
      absl::StrCat(ToString(key),
                   " is stored already, with other bytes: a chunk is never "
                   "changed"));
}

}  // namespace

StoredChunk LocalStore::ToStored(const ChunkRecord& record,
                                 const ChunkPlace& place) {
  StoredChunk stored;
  stored.place = place;
  stored.chunk_bytes = static_cast<uint32_t>(record.chunk_bytes);
  stored.decoded_bytes = record.chunk_bytes;
  stored.stripe_bytes = record.stripe_bytes;
  stored.digest = record.digest;
  stored.put_wall_ns = record.put_wall_ns;
  stored.block_checksums = record.block_checksums;
  return stored;
}

ChunkEntry LocalStore::ToEntry(const StoredChunk& stored) {
  ChunkEntry entry;
  entry.place = stored.place;
  entry.chunk_bytes = stored.chunk_bytes;
  entry.stripe_bytes = stored.stripe_bytes;
  entry.digest = stored.digest;
  entry.put_wall_ns = stored.put_wall_ns;
  return entry;
}

absl::Status LocalStore::ValidatePut(ChunkId chunk, const ChunkRecord& record,
                                     format::ConstBytes payload) {
  if (record.chunk_bytes == 0 || record.chunk_bytes > format::kChunkBytesMax) {
    return absl::InvalidArgumentError(
        absl::StrCat(ToString(chunk), " of ", record.chunk_bytes, " bytes"));
  }
  const uint64_t allocated = format::AllocatedBytesOf(record.chunk_bytes);
  if (payload.size() != allocated) {
    return absl::InvalidArgumentError(
        absl::StrCat(ToString(chunk), ": payload of ", payload.size(),
                     " bytes, not ", allocated));
  }
  ChunkPlace anywhere;
  anywhere.allocated_bytes = static_cast<uint32_t>(allocated);
  absl::Status valid = format::ValidateStoredChunk(ToStored(record, anywhere));
  if (!valid.ok()) return Annotate(std::move(valid), ToString(chunk));
  if (record.digest !=
      format::ChunkDigest(chunk, record.chunk_bytes, record.block_checksums)) {
    return absl::InvalidArgumentError(absl::StrCat(
        ToString(chunk), ": the digest is not that of its checksums"));
  }
  return absl::OkStatus();
}

absl::Status LocalStore::CheckOpen() const {
  if (!closed_) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat(dir_, " is closed"));
}

absl::Status LocalStore::Latch(absl::Status cause) {
  CAIRN_CHECK(!cause.ok());
  if (failed_.ok()) {
    CAIRN_SOMETIMES(true, "target.store.failed");
    failed_ = absl::UnavailableError(
        absl::StrCat("target ", identity_.target_id.value,
                     " takes no writes since: ", cause.message()));
    spdlog::error("{}", StdText(failed_.message()));
  }
  return failed_;
}

void LocalStore::NoteMetaSequence(uint64_t meta_sequence) {
  meta_sequence_ = std::max(meta_sequence_, meta_sequence);
}

void LocalStore::AddMark(std::vector<IndexOp>* ops) {
  if (committed_meta_sequence_ >= meta_sequence_) return;
  // Counts as committed at once: batches keep their order, and if this one
  // fails, nothing is committed any more.
  committed_meta_sequence_ = meta_sequence_;
  format::StoreState state;
  state.meta_sequence = meta_sequence_;
  state.boot_epoch = boot_epoch_;
  IndexOp op;
  op.key = format::kStoreStateKey;
  op.value = format::EncodeStoreState(state);
  ops->push_back(std::move(op));
}

io::Task<absl::Status> LocalStore::Put(uint32_t pg, ChunkId chunk,
                                       ChunkRecord record,
                                       format::ConstBytes payload,
                                       uint64_t meta_sequence, Access access) {
  const io::Gate::Hold in_flight = gate_.Enter();
  CAIRN_CO_RETURN_IF_ERROR(CheckOpen());
  CAIRN_CO_RETURN_IF_ERROR(ValidatePut(chunk, record, payload));
  NoteMetaSequence(meta_sequence);
  const ChunkKey key = KeyOf(pg, chunk);
  while (true) {
    CAIRN_CO_RETURN_IF_ERROR(failed_);
    if (const ChunkEntry* entry = table_.Find(key)) {
      co_return CompareWithStored(key, *entry, record.digest);
    }
    const auto other = puts_.find(key);
    if (other == puts_.end()) break;
    // Whatever comes of it, look again.
    const std::shared_ptr<PutInFlight> first = other->second;
    co_await first->done.Wait();
    CAIRN_SOMETIMES(true, "target.put.twin_awaited");
  }
  const auto self = std::make_shared<PutInFlight>(env_);
  puts_.emplace(key, self);
  const uint64_t chunk_bytes = record.chunk_bytes;
  absl::Status status =
      co_await PutNew(key, std::move(record), payload, access);
  puts_.erase(key);
  self->done.Set();
  if (status.ok()) {
    ++counters_.puts;
    counters_.put_bytes += chunk_bytes;
  }
  co_return status;
}

io::Task<absl::Status> LocalStore::PutNew(ChunkKey key, ChunkRecord record,
                                          format::ConstBytes payload,
                                          Access access) {
  if (table_.size() + puts_.size() > kChunksPerTargetMax ||
      CAIRN_FAULT_POINT("target.put.full")) {
    co_return absl::ResourceExhaustedError(
        absl::StrCat("target ", identity_.target_id.value, " is full: it has ",
                     table_.size(), " chunks, the most it may have"));
  }
  if (record.put_wall_ns == 0) record.put_wall_ns = env_->WallNs();
  CAIRN_CO_ASSIGN_OR_RETURN(const ChunkPlace place,
                            co_await WriteNew(payload, access));
  if (CAIRN_FAULT_POINT("target.put.late_commit")) {
    co_await io::SleepFor(env_, kLateAnswerNs);
  }
  co_return co_await CommitPut(key, ToStored(record, place));
}

io::Task<absl::StatusOr<ChunkPlace>> LocalStore::WriteNew(
    format::ConstBytes payload, Access access) {
  const auto allocated = static_cast<uint32_t>(payload.size());
  CAIRN_CO_ASSIGN_OR_RETURN(const ChunkPlace place,
                            co_await FindSpace(allocated));
  absl::Status written = co_await WritePayload(place, payload, access);
  // If somebody's write failed meanwhile, what this one's OK is worth is not
  // known: it is not acknowledged either.
  if (written.ok()) written = failed_;
  if (!written.ok()) {
    allocator_.Free(place);
    co_return written;
  }
  co_return place;
}

io::Task<absl::Status> LocalStore::WritePayload(ChunkPlace place,
                                                format::ConstBytes payload,
                                                Access access) {
  CAIRN_CO_ASSIGN_OR_RETURN(
      const FairQueue::Turn turn,
      co_await disk_.Enter(access.traffic_class,
                           payload.size() + kDiskOpCostBytes, access.deadline));
  CAIRN_CO_RETURN_IF_ERROR(failed_);
  absl::Status written = co_await slabs_->Write(place, payload);
  if (written.ok()) co_return written;
  co_return Latch(std::move(written));
}

io::Task<absl::Status> LocalStore::CommitPut(ChunkKey key, StoredChunk stored) {
  const ChunkEntry entry = ToEntry(stored);
  IndexOp op;
  op.key = format::EncodeChunkKey(key);
  op.value = format::EncodeStoredChunk(key, stored);
  std::vector<IndexOp> ops;
  ops.push_back(std::move(op));
  AddMark(&ops);
  std::function<void()> applied = [this, key, entry] {
    CAIRN_CHECK(table_.Insert(key, entry));
  };
  const absl::Status committed =
      co_await commits_->Commit(std::move(ops), std::move(applied));
  // After a failed commit the record may be on disk or not: its space is lost
  // until the next open finds out.
  if (!committed.ok()) co_return Latch(committed);
  if (CAIRN_FAULT_POINT("target.put.late_answer")) {
    co_await io::SleepFor(env_, kLateAnswerNs);
  }
  co_return absl::OkStatus();
}

io::Task<absl::StatusOr<ChunkPlace>> LocalStore::FindSpace(
    uint32_t size_bytes) {
  while (true) {
    const std::optional<ChunkPlace> place = allocator_.Allocate(size_bytes);
    if (place) co_return *place;
    CAIRN_CO_RETURN_IF_ERROR(co_await GrowFor(size_bytes));
  }
}

// Adds a slab, unless another put did meanwhile.
io::Task<absl::Status> LocalStore::GrowFor(uint32_t size_bytes) {
  co_await growing_.Acquire();
  absl::Status status = failed_;
  if (status.ok() && allocator_.largest_free_bytes() < size_bytes) {
    status = co_await AddSlabFor(size_bytes);
  }
  growing_.Release();
  co_return status;
}

io::Task<absl::Status> LocalStore::AddSlabFor(uint32_t size_bytes) {
  uint32_t slab = 0;
  while (slab < slabs_->count() &&
         (slabs_->state(slab) == SlabSet::State::kWhole ||
          slabs_->size_bytes(slab) < size_bytes)) {
    ++slab;
  }
  const std::string full = absl::StrCat(
      "target ", identity_.target_id.value,
      " is full: ", allocator_.used_bytes(), " of ", superblock_.capacity_bytes,
      " bytes used, ", size_bytes, " more asked for, largest free piece ",
      allocator_.largest_free_bytes());
  if (slab == slabs_->count()) co_return absl::ResourceExhaustedError(full);
  absl::Status grown = co_await slabs_->Grow(slab);
  if (grown.ok()) {
    allocator_.AddSlab(slab, slabs_->size_bytes(slab));
    co_return grown;
  }
  if (absl::IsResourceExhausted(grown)) {
    CAIRN_SOMETIMES(true, "target.slab.no_room");
    co_return Annotate(std::move(grown), full);
  }
  co_return Latch(std::move(grown));
}

io::Task<absl::StatusOr<ChunkStore::ListResult>> LocalStore::List(
    format::PgId pg, std::string after, uint32_t limit) {
  CAIRN_CO_RETURN_IF_ERROR(CheckOpen());
  auto it = table_.FirstOf(pg);
  if (!after.empty()) {
    const absl::StatusOr<ChunkKey> cursor = format::DecodeChunkKey(after);
    if (!cursor.ok() || cursor->pg != pg) {
      co_return absl::InvalidArgumentError(
          absl::StrCat("not a cursor of a list of ", ToString(pg)));
    }
    it = table_.After(*cursor);
  }
  ListResult result;
  const uint32_t most = std::clamp(limit, 1u, kListChunksMax);
  for (; it != table_.end() && it->first.pg == pg; ++it) {
    if (result.chunks.size() == most) {
      ChunkKey last;
      last.pg = pg;
      last.chunk = result.chunks.back().chunk;
      result.next = format::EncodeChunkKey(last);
      break;
    }
    ListedChunk listed;
    listed.chunk = it->first.chunk;
    listed.record.chunk_bytes = it->second.chunk_bytes;
    listed.record.stripe_bytes = it->second.stripe_bytes;
    listed.record.digest = it->second.digest;
    listed.record.put_wall_ns = it->second.put_wall_ns;
    result.chunks.push_back(std::move(listed));
  }
  co_return result;
}

absl::Status LocalStore::CheckOrder(uint64_t meta_sequence) const {
  if (meta_sequence >= meta_sequence_) return absl::OkStatus();
  CAIRN_SOMETIMES(true, "target.delete.old_order");
  return absl::FailedPreconditionError(absl::StrCat(
      "target ", identity_.target_id.value, " has seen metadata sequence ",
      meta_sequence_, ", this delete order is of ", meta_sequence,
      ": metadata was restored from an old copy; nothing is deleted"));
}

io::Task<absl::StatusOr<ChunkStore::DeleteResult>> LocalStore::DeleteBlobs(
    std::vector<BlobId> blobs, uint64_t meta_sequence) {
  const io::Gate::Hold in_flight = gate_.Enter();
  CAIRN_CO_RETURN_IF_ERROR(CheckOpen());
  CAIRN_CO_RETURN_IF_ERROR(failed_);
  CAIRN_CO_RETURN_IF_ERROR(CheckOrder(meta_sequence));
  NoteMetaSequence(meta_sequence);
  std::vector<ChunkKey> keys;
  for (BlobId blob : std::set<BlobId>(blobs.begin(), blobs.end())) {
    const std::vector<ChunkKey> of_blob = table_.KeysOf(blob);
    keys.insert(keys.end(), of_blob.begin(), of_blob.end());
  }
  co_return co_await EraseInParts(std::move(keys));
}

io::Task<absl::StatusOr<ChunkStore::DeleteResult>> LocalStore::DropGroup(
    format::PgId pg, uint64_t meta_sequence) {
  const io::Gate::Hold in_flight = gate_.Enter();
  CAIRN_CO_RETURN_IF_ERROR(CheckOpen());
  CAIRN_CO_RETURN_IF_ERROR(failed_);
  CAIRN_CO_RETURN_IF_ERROR(CheckOrder(meta_sequence));
  NoteMetaSequence(meta_sequence);
  std::vector<ChunkKey> keys;
  for (auto it = table_.FirstOf(pg); it != table_.end() && it->first.pg == pg;
       ++it) {
    keys.push_back(it->first);
  }
  co_return co_await EraseInParts(std::move(keys));
}

io::Task<absl::StatusOr<ChunkStore::DeleteResult>> LocalStore::EraseInParts(
    std::vector<ChunkKey> keys) {
  DeleteResult result;
  const size_t most =
      CAIRN_FAULT_POINT("target.delete.one_by_one") ? 1 : kErasesPerCommitMax;
  for (size_t at = 0; at < keys.size(); at += most) {
    const size_t end = std::min<size_t>(keys.size(), at + most);
    std::vector<ChunkKey> part(keys.begin() + static_cast<ptrdiff_t>(at),
                               keys.begin() + static_cast<ptrdiff_t>(end));
    CAIRN_CO_RETURN_IF_ERROR(co_await EraseKeys(std::move(part), &result));
  }
  if (keys.empty()) {
    CAIRN_SOMETIMES(true, "target.delete.nothing_left");
    // Still a promise: no order older than this one is taken.
    std::vector<ChunkKey> none;
    CAIRN_CO_RETURN_IF_ERROR(co_await EraseKeys(std::move(none), &result));
  }
  co_return result;
}

io::Task<absl::Status> LocalStore::EraseKeys(std::vector<ChunkKey> keys,
                                             DeleteResult* result) {
  std::vector<IndexOp> ops;
  for (const ChunkKey& key : keys) {
    IndexOp op;
    op.kind = IndexOp::Kind::kErase;
    op.key = format::EncodeChunkKey(key);
    ops.push_back(std::move(op));
  }
  AddMark(&ops);
  if (ops.empty()) co_return absl::OkStatus();
  std::function<void()> applied = [this, &keys, result] {
    ApplyErase(keys, result);
  };
  erasing_.insert(keys.begin(), keys.end());
  const absl::Status committed =
      co_await commits_->Commit(std::move(ops), std::move(applied));
  for (const ChunkKey& key : keys) erasing_.erase(erasing_.find(key));
  if (!committed.ok()) co_return Latch(committed);
  co_return absl::OkStatus();
}

void LocalStore::ApplyErase(const std::vector<ChunkKey>& keys,
                            DeleteResult* result) {
  for (const ChunkKey& key : keys) {
    const ChunkEntry* const entry = table_.Find(key);
    if (!entry) continue;  // Another order erased it first.
    ++result->chunks;
    result->bytes += entry->chunk_bytes;
    // A slab that is lost has no space to give back.
    if (slabs_->state(entry->place.slab) == SlabSet::State::kWhole) {
      allocator_.Free(entry->place);
    }
    table_.Erase(key);
    damaged_.erase(key);
  }
}

StoreStats LocalStore::stats() const {
  StoreStats stats = counters_;
  stats.capacity_bytes = superblock_.capacity_bytes;
  stats.used_bytes = allocator_.used_bytes();
  stats.chunks = table_.size();
  stats.damaged_now = damaged_.size();
  stats.meta_sequence = meta_sequence_;
  stats.boot_epoch = boot_epoch_;
  stats.failed = std::string(failed_.message());
  const io::TimeNs now = env_->NowNs();
  const io::TimeNs oldest = std::min(now, disk_.oldest_turn_ns());
  if (stats.failed.empty() && now - oldest > kDiskStuckAfter) {
    stats.failed = absl::StrCat("the disk of ", dir_, " hangs since ",
                                (now - oldest) / io::kSecond, " s");
  }
  return stats;
}

}  // namespace cairn::server
