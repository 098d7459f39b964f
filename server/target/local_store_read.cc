// Reading of a LocalStore: nothing leaves it unverified.
#include <spdlog/spdlog.h>

#include <algorithm>

#include "format/base/fault_points.h"
#include "format/base/status.h"
#include "format/checksum/block_checksum.h"
#include "server/target/limits.h"
#include "server/target/local_store.h"

namespace cairn::server {
namespace {

using format::ChunkId;
using format::ChunkKey;
using format::ChunkPlace;
using format::StoredChunk;

ChunkRecord ToRecord(const StoredChunk& stored) {
  ChunkRecord record;
  record.chunk_bytes = stored.chunk_bytes;
  record.stripe_bytes = stored.stripe_bytes;
  record.digest = stored.digest;
  record.put_wall_ns = stored.put_wall_ns;
  record.block_checksums = stored.block_checksums;
  return record;
}

// Keeps a place from being given to others while it is read.
class PlacePin {
 public:
  PlacePin(ExtentAllocator* allocator, ChunkPlace place)
      : allocator_(allocator), place_(place) {
    allocator_->Pin(place_);
  }
  PlacePin(const PlacePin&) = delete;
  PlacePin& operator=(const PlacePin&) = delete;
  ~PlacePin() { allocator_->Unpin(place_); }

 private:
  ExtentAllocator* const allocator_;
  const ChunkPlace place_;
};

}  // namespace

io::Task<absl::StatusOr<std::optional<ChunkRecord>>> LocalStore::Find(
    uint32_t pg, ChunkId chunk) {
  const io::Gate::Hold in_flight = gate_.Enter();
  CAIRN_CO_RETURN_IF_ERROR(CheckOpen());
  ChunkKey key;
  key.pg = {chunk.blob.pool(), pg};
  key.chunk = chunk;
  std::optional<ChunkRecord> found;
  const ChunkEntry* const entry = table_.Find(key);
  if (!entry) co_return found;
  absl::StatusOr<StoredChunk> stored = co_await LoadRecord(key, entry->place);
  if (absl::IsNotFound(stored.status())) co_return found;
  CAIRN_CO_RETURN_IF_ERROR(stored);
  found = ToRecord(*stored);
  co_return found;
}

// kNotFound: erased while we looked.
io::Task<absl::StatusOr<StoredChunk>> LocalStore::LoadRecord(ChunkKey key,
                                                             ChunkPlace place) {
  CAIRN_CO_ASSIGN_OR_RETURN(const std::optional<std::string> value,
                            co_await index_->Get(format::EncodeChunkKey(key)));
  const ChunkEntry* const entry = table_.Find(key);
  if (!entry || entry->place != place) {
    co_return absl::NotFoundError(absl::StrCat("no ", ToString(key)));
  }
  if (!value) {
    co_return absl::DataLossError(
        absl::StrCat("the index has lost ", ToString(key)));
  }
  CAIRN_CO_ASSIGN_OR_RETURN(
      StoredChunk stored,
      format::DecodeStoredChunk(key, format::AsBytes(*value)));
  if (stored.place != place || stored.digest != entry->digest) {
    co_return absl::DataLossError(
        absl::StrCat("the index gives an older record of ", ToString(key)));
  }
  co_return stored;
}

io::Task<absl::StatusOr<ChunkStore::ReadResult>> LocalStore::Read(
    uint32_t pg, ChunkId chunk, uint64_t offset, uint64_t length,
    Access access) {
  const io::Gate::Hold in_flight = gate_.Enter();
  CAIRN_CO_RETURN_IF_ERROR(CheckOpen());
  ChunkKey key;
  key.pg = {chunk.blob.pool(), pg};
  key.chunk = chunk;
  const ChunkEntry* const entry = table_.Find(key);
  if (!entry) {
    CAIRN_SOMETIMES(true, "target.get.absent");
    co_return absl::NotFoundError(absl::StrCat(
        "target ", identity_.target_id.value, " has no ", ToString(key)));
  }
  const uint64_t size = entry->chunk_bytes;
  if (length == 0 || offset >= size || length > size - offset) {
    co_return absl::OutOfRangeError(absl::StrCat(
        ToString(key), " has ", size, " bytes, not ", length, " at ", offset));
  }
  BlockRange range;
  range.first = static_cast<uint32_t>(offset / format::kBlockBytes);
  range.count =
      static_cast<uint32_t>(format::BlocksOf(offset + length) - range.first);
  range.offset_bytes = range.first * format::kBlockBytes;
  range.size_bytes =
      std::min(range.count * format::kBlockBytes, size - range.offset_bytes);
  ChunkPlace place = entry->place;
  absl::StatusOr<ReadResult> result =
      co_await ReadShared(key, place, range, access);
  // Replaced meanwhile: as often as that happens, which is never twice.
  for (const ChunkEntry* now = table_.Find(key);
       absl::IsNotFound(result.status()) && now != nullptr &&
       now->place != place;
       now = table_.Find(key)) {
    place = now->place;
    result = co_await ReadShared(key, place, range, access);
  }
  if (result.ok()) {
    ++counters_.gets;
    counters_.get_bytes += length;
    // All of it is good.
    if (range.size_bytes == size) damaged_.erase(key);
  } else if (absl::IsDataLoss(result.status())) {
    NoteDamage(key, place);
  }
  co_return result;
}

io::Task<absl::StatusOr<ChunkStore::ReadResult>> LocalStore::ReadShared(
    ChunkKey key, ChunkPlace place, BlockRange range, Access access) {
  const std::tuple<uint32_t, uint64_t, uint32_t, uint32_t> id{
      place.slab, place.offset_bytes, range.first, range.count};
  const auto other = reads_.find(id);
  if (other != reads_.end()) {
    const std::shared_ptr<ReadInFlight> first = other->second;
    co_await first->done.Wait();
    CAIRN_SOMETIMES(true, "target.get.shared");
    co_return first->result;
  }
  const auto self = std::make_shared<ReadInFlight>(env_);
  reads_.emplace(id, self);
  self->result = co_await ReadBlocks(key, place, range, access);
  reads_.erase(id);
  self->done.Set();
  co_return self->result;
}

io::Task<absl::StatusOr<ChunkStore::ReadResult>> LocalStore::ReadBlocks(
    ChunkKey key, ChunkPlace place, BlockRange range, Access access) {
  const PlacePin pin(&allocator_, place);
  CAIRN_CO_ASSIGN_OR_RETURN(const StoredChunk stored,
                            co_await LoadRecord(key, place));
  const uint64_t aligned = format::AllocatedBytesOf(range.size_bytes);
  io::Buffer buffer = co_await env_->pool()->Acquire(aligned, access.deadline);
  if (!buffer || CAIRN_FAULT_POINT("target.get.no_buffer")) {
    co_return absl::DeadlineExceededError(absl::StrCat(
        "target ", identity_.target_id.value, " had no free buffer in time"));
  }
  CAIRN_CO_ASSIGN_OR_RETURN(
      const FairQueue::Turn turn,
      co_await disk_.Enter(access.traffic_class, aligned + kDiskOpCostBytes,
                           access.deadline));
  const format::MutableBytes to = buffer.bytes().first(aligned);
  CAIRN_CO_RETURN_IF_ERROR(co_await ReadVerified(key, &stored, range, to));
  ReadResult result;
  // Shared: identical reads in flight send from one buffer.
  result.buffer = std::make_shared<const io::Buffer>(std::move(buffer));
  result.first_block = range.first;
  result.record = ToRecord(stored);
  co_return result;
}

// Reads at most twice: a second look tells a bad transfer from bad media.
io::Task<absl::Status> LocalStore::ReadVerified(ChunkKey key,
                                                const StoredChunk* stored,
                                                BlockRange range,
                                                format::MutableBytes to) {
  absl::Status status;
  for (int tries = 1; tries <= 2; ++tries) {
    const bool is_last_try = tries == 2;
    const bool was_damaged = !status.ok();
    status = co_await slabs_->Read(stored->place, range.offset_bytes, to);
    if (status.ok()) {
      status =
          Verify(key, *stored, range, to.first(range.size_bytes), is_last_try);
    } else if (is_last_try && absl::IsDataLoss(status)) {
      ++counters_.corrupt_blocks;  // At least one of them.
    }
    CAIRN_SOMETIMES(status.ok() && was_damaged,
                    "target.get.second_look_helped");
    const bool look_again =
        !is_last_try && CAIRN_FAULT_POINT("target.get.looked_again");
    if (status.ok() && !look_again) co_return status;
  }
  CAIRN_SOMETIMES(absl::IsDataLoss(status), "target.get.damaged");
  spdlog::error("target {}: {}: {}", identity_.target_id.value, ToString(key),
                StdText(status.message()));
  co_return Annotate(
      std::move(status),
      absl::StrCat("target ", identity_.target_id.value, ": ", ToString(key)));
}

absl::Status LocalStore::Verify(const ChunkKey& key, const StoredChunk& stored,
                                const BlockRange& range,
                                format::ConstBytes bytes, bool is_last_try) {
  std::string bad;
  for (uint32_t i = 0; i < range.count; ++i) {
    const uint64_t at = i * format::kBlockBytes;
    const uint32_t block = range.first + i;
    const uint64_t length =
        std::min<uint64_t>(format::kBlockBytes, bytes.size() - at);
    const uint64_t checksum =
        format::BlockChecksum(key.chunk, block, bytes.subspan(at, length));
    if (checksum == stored.block_checksums[block]) continue;
    if (is_last_try) ++counters_.corrupt_blocks;
    absl::StrAppend(&bad, bad.empty() ? "" : ", ", block, " at byte ",
                    stored.place.offset_bytes + range.offset_bytes + at);
  }
  if (bad.empty()) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("checksum differs in block ", bad,
                                          " of ",
                                          slabs_->Path(stored.place.slab)));
}

}  // namespace cairn::server
