// Opening and closing of a LocalStore.
#include <spdlog/spdlog.h>

#include "format/base/fault_points.h"
#include "format/base/status.h"
#include "server/target/limits.h"
#include "server/target/local_store.h"
#include "server/target/superblock_file.h"

namespace cairn::server {

using format::ChunkKey;

io::Task<absl::StatusOr<std::unique_ptr<ChunkStore>>> ChunkStore::Open(
    io::Env* env, std::string dir, TargetIdentity expect) {
  auto store = std::make_unique<LocalStore>(env, std::move(dir));
  absl::Status started = co_await store->Start(expect);
  if (!started.ok()) {
    (void)co_await store->Close();  // The first failure is the one to tell.
    co_return started;
  }
  co_return std::unique_ptr<ChunkStore>(std::move(store));
}

namespace {

FairQueueOptions DiskOptions() {
  FairQueueOptions options;
  options.in_flight_max = kDiskOpsInFlightMax;
  options.waiting_max = kDiskOpsWaitingMax;
  options.weights = kTrafficClassWeights;
  return options;
}

}  // namespace

LocalStore::LocalStore(io::Env* env, std::string dir)
    : env_(env),
      dir_(std::move(dir)),
      disk_(env, DiskOptions()),
      growing_(env, 1),
      gate_(env) {}

LocalStore::~LocalStore() { CAIRN_CHECK(closed_); }

io::Task<absl::Status> LocalStore::Start(TargetIdentity expect) {
  CAIRN_CO_RETURN_IF_ERROR(co_await ReadIdentity(expect));
  CAIRN_CO_RETURN_IF_ERROR(co_await TakeLock());
  CAIRN_CO_ASSIGN_OR_RETURN(
      index_,
      co_await OpenIndex(env_, superblock_.index_kind, dir_ + "/index"));
  slabs_ = std::make_unique<SlabSet>(env_, dir_, superblock_.slab_bytes,
                                     superblock_.capacity_bytes);
  commits_ = std::make_unique<GroupCommit>(env_, index_.get(), slabs_.get());
  CAIRN_CO_RETURN_IF_ERROR(co_await slabs_->OpenExisting());
  for (uint32_t slab = 0; slab < slabs_->count(); ++slab) {
    if (slabs_->state(slab) != SlabSet::State::kWhole) continue;
    allocator_.AddSlab(slab, slabs_->size_bytes(slab));
  }
  CAIRN_CO_RETURN_IF_ERROR(co_await LoadIndex());
  const absl::Status hardened = co_await HardenUnusedSlabs();
  if (!hardened.ok()) (void)Latch(hardened);  // Reads go on.
  // Nothing was changed up to here; now the directory is known to be ours.
  CAIRN_CO_RETURN_IF_ERROR(co_await RepairSuperblock());
  CAIRN_CO_RETURN_IF_ERROR(co_await RaiseBootEpoch());
  spdlog::info("target {}: opened {}, {} chunks, {} of {} bytes used",
               identity_.target_id.value, dir_, table_.size(),
               allocator_.used_bytes(), superblock_.capacity_bytes);
  co_return absl::OkStatus();
}

// The flush of a new slab, or of its name, may have failed before the process
// was started again: then the cache shows what the next loss of power takes
// away. A slab with a chunk in it was made durable before it got that.
io::Task<absl::Status> LocalStore::HardenUnusedSlabs() {
  bool any = false;
  for (uint32_t slab = 0; slab < slabs_->count(); ++slab) {
    if (slabs_->state(slab) != SlabSet::State::kWhole) continue;
    if (!allocator_.IsUnused(slab)) continue;
    CAIRN_CO_RETURN_IF_ERROR(co_await slabs_->Harden(slab));
    any = true;
  }
  if (!any) co_return absl::OkStatus();
  co_return co_await env_->SyncDirectory(dir_);
}

io::Task<absl::Status> LocalStore::ReadIdentity(TargetIdentity expect) {
  CAIRN_CO_ASSIGN_OR_RETURN(const format::DecodedSuperblock decoded,
                            co_await ReadSuperblock(env_, dir_));
  superblock_ = decoded.superblock;
  good_superblocks_ = decoded.good_copies;
  identity_.cluster_id = superblock_.cluster_id;
  identity_.target_id = superblock_.target_id;
  identity_.disk_generation = superblock_.disk_generation;
  identity_.admission = superblock_.admission;
  if (identity_.cluster_id != expect.cluster_id) {
    co_return absl::FailedPreconditionError(absl::StrCat(
        dir_, " belongs to cluster ", ToString(identity_.cluster_id),
        ", not to ", ToString(expect.cluster_id),
        ": mount the right disk, or start it in its own cluster"));
  }
  if (identity_.target_id != expect.target_id) {
    co_return absl::FailedPreconditionError(absl::StrCat(
        dir_, " is target ", identity_.target_id.value, ", not target ",
        expect.target_id.value,
        ": disks were swapped; give each target its own directory"));
  }
  if (expect.disk_generation != 0 &&
      identity_.disk_generation != expect.disk_generation) {
    co_return absl::FailedPreconditionError(absl::StrCat(
        dir_, " has disk generation ", identity_.disk_generation, ", not ",
        expect.disk_generation,
        ": it is an old copy of the disk, or was formatted again"));
  }
  co_return absl::OkStatus();
}

io::Task<absl::Status> LocalStore::TakeLock() {
  io::OpenOptions options;
  options.write = true;
  options.create = true;
  CAIRN_CO_ASSIGN_OR_RETURN(lock_,
                            co_await env_->OpenFile(dir_ + "/LOCK", options));
  // A process that was just killed keeps its locks until the kernel has ended
  // its disk operations: wait a little before calling it another's.
  const io::TimeNs give_up = env_->NowNs() + kLockPatienceNs;
  absl::Status locked = co_await lock_->LockExclusive();
  CAIRN_SOMETIMES(!locked.ok(), "target.open.lock_awaited");
  while (!locked.ok() && env_->NowNs() < give_up) {
    co_await io::SleepFor(env_, kLockPauseNs);
    locked = co_await lock_->LockExclusive();
  }
  if (locked.ok()) co_return absl::OkStatus();
  co_return Annotate(std::move(locked),
                     absl::StrCat(dir_,
                                  " is in use by another process: stop "
                                  "that one first"));
}

io::Task<absl::Status> LocalStore::RepairSuperblock() {
  if (good_superblocks_ == format::kSuperblockCopies &&
      !CAIRN_FAULT_POINT("target.open.superblock_rewritten")) {
    co_return absl::OkStatus();
  }
  spdlog::warn(
      "target {}: {} of {} copies of the superblock of {} were "
      "damaged; writing all again",
      identity_.target_id.value, format::kSuperblockCopies - good_superblocks_,
      format::kSuperblockCopies, dir_);
  ++superblock_.generation;
  co_return co_await WriteSuperblock(env_, dir_, superblock_);
}

io::Task<absl::Status> LocalStore::SetAdmission(uint64_t admission) {
  CAIRN_CO_RETURN_IF_ERROR(CheckOpen());
  const io::Gate::Hold hold = gate_.Enter();
  if (admission == superblock_.admission) co_return absl::OkStatus();
  format::Superblock next = superblock_;
  next.admission = admission;
  ++next.generation;
  CAIRN_CO_RETURN_IF_ERROR(co_await WriteSuperblock(env_, dir_, next));
  superblock_ = next;
  identity_.admission = admission;
  co_return absl::OkStatus();
}

io::Task<absl::Status> LocalStore::LoadIndex() {
  std::string after;
  while (true) {
    absl::StatusOr<std::vector<ChunkIndex::Entry>> page =
        co_await index_->Scan(after, kIndexScanPage);
    if (!page.ok()) co_return Annotate(page.status(), dir_);
    for (const ChunkIndex::Entry& entry : *page) {
      absl::Status loaded = LoadEntry(entry);
      if (!loaded.ok()) co_return Annotate(std::move(loaded), dir_);
    }
    if (page->size() < kIndexScanPage) break;
    after = page->back().key;
  }
  if (has_state_) co_return absl::OkStatus();
  co_return absl::DataLossError(absl::StrCat(
      dir_,
      ": the index has lost the store's state: it is not empty but "
      "damaged"));
}

absl::Status LocalStore::LoadEntry(const ChunkIndex::Entry& entry) {
  if (entry.key == format::kStoreStateKey) {
    CAIRN_ASSIGN_OR_RETURN(
        const format::StoreState state,
        format::DecodeStoreState(format::AsBytes(entry.value)));
    meta_sequence_ = committed_meta_sequence_ = state.meta_sequence;
    boot_epoch_ = state.boot_epoch;
    has_state_ = true;
    return absl::OkStatus();
  }
  CAIRN_ASSIGN_OR_RETURN(const ChunkKey key, format::DecodeChunkKey(entry.key));
  return LoadChunk(key, entry.value);
}

absl::Status LocalStore::LoadChunk(const ChunkKey& key,
                                   std::string_view value) {
  CAIRN_ASSIGN_OR_RETURN(
      const format::StoredChunk stored,
      format::DecodeStoredChunk(key, format::AsBytes(value)));
  const format::ChunkPlace& place = stored.place;
  if (place.slab < slabs_->count() &&
      slabs_->state(place.slab) != SlabSet::State::kWhole) {
    // The file system lost a part of what it had acknowledged.
    (void)Latch(absl::DataLossError(
        absl::StrCat(slabs_->Path(place.slab), " is missing or cut short, but ",
                     ToString(key), " lies in it")));
  } else {
    absl::Status reserved = allocator_.Reserve(place);
    if (!reserved.ok()) return Annotate(std::move(reserved), ToString(key));
  }
  ChunkEntry entry;
  entry.place = place;
  entry.chunk_bytes = stored.chunk_bytes;
  entry.stripe_bytes = stored.stripe_bytes;
  entry.digest = stored.digest;
  entry.put_wall_ns = stored.put_wall_ns;
  CAIRN_CHECK(table_.Insert(key, entry));  // Keys of a scan are distinct.
  return absl::OkStatus();
}

io::Task<absl::Status> LocalStore::RaiseBootEpoch() {
  ++boot_epoch_;
  format::StoreState state;
  state.meta_sequence = meta_sequence_;
  state.boot_epoch = boot_epoch_;
  format::IndexOp op;
  op.key = format::kStoreStateKey;
  op.value = format::EncodeStoreState(state);
  std::vector<format::IndexOp> ops;
  ops.push_back(std::move(op));
  std::function<void()> nothing = [] {};
  co_return co_await commits_->Commit(std::move(ops), std::move(nothing));
}

io::Task<absl::Status> LocalStore::Close() {
  CAIRN_CHECK(!closed_);
  closed_ = true;
  co_await gate_.Close();
  absl::Status status;
  if (commits_) co_await commits_->Close();
  if (index_) status.Update(co_await index_->Close());
  if (slabs_) status.Update(co_await slabs_->Close());
  if (lock_) status.Update(co_await lock_->Close());
  co_return status;
}

}  // namespace cairn::server
