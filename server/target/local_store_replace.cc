// Chunks of a LocalStore that are damaged: remembered, listed, stored anew.
#include <algorithm>
#include <iterator>
#include <utility>

#include "format/base/fault_points.h"
#include "format/base/status.h"
#include "server/target/limits.h"
#include "server/target/local_store.h"

namespace cairn::server {

using format::ChunkId;
using format::ChunkKey;
using format::ChunkPlace;
using format::IndexOp;
using format::StoredChunk;

// `place` is where it was read: by now it may have been replaced.
void LocalStore::NoteDamage(const ChunkKey& key, const ChunkPlace& place) {
  const ChunkEntry* const entry = table_.Find(key);
  if (entry == nullptr || entry->place != place || damaged_.contains(key)) {
    return;
  }
  if (damaged_.size() >= kDamagedChunksMax) {
    ++counters_.damaged_forgotten;
    return;
  }
  ++counters_.damaged_chunks;
  damaged_.insert(key);
}

std::vector<ChunkStore::WalkedChunk> LocalStore::Damaged(uint64_t skip,
                                                         uint32_t limit) const {
  std::vector<WalkedChunk> found;
  if (damaged_.empty()) return found;
  auto it = damaged_.begin();
  std::advance(it, static_cast<ptrdiff_t>(skip % damaged_.size()));
  while (found.size() < std::min<uint64_t>(limit, damaged_.size())) {
    const ChunkEntry* const entry = table_.Find(*it);
    CAIRN_CHECK(entry != nullptr);  // Whoever erases it forgets it.
    WalkedChunk& chunk = found.emplace_back();
    chunk.pg = it->pg;
    chunk.chunk = it->chunk;
    chunk.chunk_bytes = entry->chunk_bytes;
    chunk.put_wall_ns = entry->put_wall_ns;
    if (++it == damaged_.end()) it = damaged_.begin();
  }
  return found;
}

io::Task<absl::StatusOr<ChunkStore::WalkResult>> LocalStore::Walk(
    std::string after, uint32_t limit) {
  CAIRN_CO_RETURN_IF_ERROR(CheckOpen());
  auto it = table_.FirstOf(format::PgId());
  if (!after.empty()) {
    const absl::StatusOr<ChunkKey> cursor = format::DecodeChunkKey(after);
    if (!cursor.ok()) {
      co_return absl::InvalidArgumentError("not a cursor of a walk");
    }
    it = table_.After(*cursor);
  }
  WalkResult result;
  const uint32_t most = std::clamp(limit, 1u, kListChunksMax);
  for (; it != table_.end(); ++it) {
    if (result.chunks.size() == most) {
      ChunkKey last;
      last.pg = result.chunks.back().pg;
      last.chunk = result.chunks.back().chunk;
      result.next = format::EncodeChunkKey(last);
      break;
    }
    WalkedChunk& chunk = result.chunks.emplace_back();
    chunk.pg = it->first.pg;
    chunk.chunk = it->first.chunk;
    chunk.chunk_bytes = it->second.chunk_bytes;
    chunk.put_wall_ns = it->second.put_wall_ns;
  }
  co_return result;
}

io::Task<absl::Status> LocalStore::Replace(uint32_t pg, ChunkId chunk,
                                           ChunkRecord record,
                                           format::ConstBytes payload,
                                           Access access) {
  const io::Gate::Hold in_flight = gate_.Enter();
  CAIRN_CO_RETURN_IF_ERROR(CheckOpen());
  CAIRN_CO_RETURN_IF_ERROR(failed_);
  CAIRN_CO_RETURN_IF_ERROR(ValidatePut(chunk, record, payload));
  ChunkKey key;
  key.pg = {chunk.blob.pool(), pg};
  key.chunk = chunk;
  const ChunkEntry* const entry = table_.Find(key);
  if (entry == nullptr) {
    co_return absl::NotFoundError(absl::StrCat("no ", ToString(key)));
  }
  if (entry->digest != record.digest) {
    co_return absl::AlreadyExistsError(absl::StrCat(
        ToString(key),
        " is not what it was: the bytes to replace it with have "
        "another digest than its record, and a chunk is never changed"));
  }
  if (puts_.contains(key)) {
    co_return absl::UnavailableError(
        absl::StrCat(ToString(key), " is being stored already"));
  }
  const auto self = std::make_shared<PutInFlight>(env_);
  puts_.emplace(key, self);
  absl::Status status =
      co_await ReplaceThere(key, std::move(record), payload, access);
  puts_.erase(key);
  self->done.Set();
  co_return status;
}

io::Task<absl::Status> LocalStore::ReplaceThere(ChunkKey key,
                                                ChunkRecord record,
                                                format::ConstBytes payload,
                                                Access access) {
  CAIRN_CO_ASSIGN_OR_RETURN(const ChunkPlace place,
                            co_await WriteNew(payload, access));
  const ChunkEntry* const old = table_.Find(key);
  // Erased, or will be by what is on its way to the index: it must not follow.
  if (old == nullptr || erasing_.contains(key)) {
    allocator_.Free(place);
    co_return absl::NotFoundError(absl::StrCat("no ", ToString(key)));
  }
  record.put_wall_ns = old->put_wall_ns;
  const StoredChunk stored = ToStored(record, place);
  IndexOp op;
  op.key = format::EncodeChunkKey(key);
  op.value = format::EncodeStoredChunk(key, stored);
  std::vector<IndexOp> ops;
  ops.push_back(std::move(op));
  AddMark(&ops);
  std::function<void()> applied = [this, key, entry = ToEntry(stored)] {
    ApplyReplace(key, entry);
  };
  const absl::Status committed =
      co_await commits_->Commit(std::move(ops), std::move(applied));
  // As after a failed put: which of the two the index has is found out at the
  // next open; neither place is free until then.
  if (!committed.ok()) co_return Latch(committed);
  co_return absl::OkStatus();
}

void LocalStore::ApplyReplace(const ChunkKey& key, const ChunkEntry& entry) {
  const ChunkEntry* const old = table_.Find(key);
  CAIRN_CHECK(old != nullptr);  // Nothing erased it: erasing_.
  const ChunkPlace place = old->place;
  table_.Erase(key);
  CAIRN_CHECK(table_.Insert(key, entry));
  damaged_.erase(key);
  // A slab that is lost has no space to give back.
  if (slabs_->state(place.slab) == SlabSet::State::kWhole) {
    allocator_.Free(place);
  }
}

}  // namespace cairn::server
