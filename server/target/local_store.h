// LocalStore: the ChunkStore of chunk_store.h over slab files and an index.
//
// How a put goes: space from the allocator, payload written durably, record
// committed (group_commit.h), table and acknowledgement. How a read goes: place
// from the table, pinned; record from the index; blocks from the slab, each
// verified, once more if one is wrong.
//
// The table changes only in the order in which the index did, so that what is
// in memory is what a restart would find.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "format/target/chunk_record.h"
#include "format/target/superblock.h"
#include "server/target/allocator.h"
#include "server/target/chunk_index.h"
#include "server/target/chunk_store.h"
#include "server/target/chunk_table.h"
#include "server/target/fair_queue.h"
#include "server/target/group_commit.h"
#include "server/target/slab_set.h"

namespace cairn::server {

class LocalStore final : public ChunkStore {
 public:
  LocalStore(io::Env* env, std::string dir);
  ~LocalStore() override;

  // Once, before anything else. After an error only Close() may follow.
  io::Task<absl::Status> Start(TargetIdentity expect);

  io::Task<absl::Status> Put(uint32_t pg, format::ChunkId chunk,
                             ChunkRecord record, format::ConstBytes payload,
                             uint64_t meta_sequence, Access access) override;
  io::Task<absl::Status> Replace(uint32_t pg, format::ChunkId chunk,
                                 ChunkRecord record, format::ConstBytes payload,
                                 Access access) override;
  io::Task<absl::StatusOr<std::optional<ChunkRecord>>> Find(
      uint32_t pg, format::ChunkId chunk) override;
  io::Task<absl::StatusOr<ReadResult>> Read(uint32_t pg, format::ChunkId chunk,
                                            uint64_t offset, uint64_t length,
                                            Access access) override;
  io::Task<absl::StatusOr<ListResult>> List(format::PgId pg, std::string after,
                                            uint32_t limit) override;
  io::Task<absl::StatusOr<WalkResult>> Walk(std::string after,
                                            uint32_t limit) override;
  std::vector<WalkedChunk> Damaged(uint64_t skip,
                                   uint32_t limit) const override;
  io::Task<absl::StatusOr<DeleteResult>> DeleteBlobs(
      std::vector<format::BlobId> blobs, uint64_t meta_sequence) override;
  io::Task<absl::StatusOr<DeleteResult>> DropGroup(
      format::PgId pg, uint64_t meta_sequence) override;
  void NoteMetaSequence(uint64_t meta_sequence) override;
  io::Task<absl::Status> SetAdmission(uint64_t admission) override;
  StoreStats stats() const override;
  const TargetIdentity& identity() const override { return identity_; }
  io::Task<absl::Status> Close() override;

 private:
  struct PutInFlight {
    explicit PutInFlight(io::Env* env) : done(env) {}
    io::Event done;
  };
  struct ReadInFlight {
    explicit ReadInFlight(io::Env* env) : done(env) {}
    io::Event done;
    absl::StatusOr<ReadResult> result;
  };
  struct BlockRange {
    uint32_t first = 0;
    uint32_t count = 0;
    uint64_t offset_bytes = 0;  // Of the first block in the chunk.
    uint64_t size_bytes = 0;    // Of chunk bytes in the blocks.
  };

  // --- Start (local_store_open.cc).
  io::Task<absl::Status> ReadIdentity(TargetIdentity expect);
  io::Task<absl::Status> TakeLock();
  io::Task<absl::Status> RepairSuperblock();
  io::Task<absl::Status> LoadIndex();
  io::Task<absl::Status> HardenUnusedSlabs();
  absl::Status LoadEntry(const ChunkIndex::Entry& entry);
  absl::Status LoadChunk(const format::ChunkKey& key, std::string_view value);
  io::Task<absl::Status> RaiseBootEpoch();

  // --- Put (local_store.cc).
  static absl::Status ValidatePut(format::ChunkId chunk,
                                  const ChunkRecord& record,
                                  format::ConstBytes payload);
  static format::StoredChunk ToStored(const ChunkRecord& record,
                                      const format::ChunkPlace& place);
  static ChunkEntry ToEntry(const format::StoredChunk& stored);
  io::Task<absl::Status> PutNew(format::ChunkKey key, ChunkRecord record,
                                format::ConstBytes payload, Access access);
  // A place with the payload on it; it is the caller's.
  io::Task<absl::StatusOr<format::ChunkPlace>> WriteNew(
      format::ConstBytes payload, Access access);
  // --- Replace (local_store_replace.cc).
  io::Task<absl::Status> ReplaceThere(format::ChunkKey key, ChunkRecord record,
                                      format::ConstBytes payload,
                                      Access access);
  void ApplyReplace(const format::ChunkKey& key, const ChunkEntry& entry);
  void NoteDamage(const format::ChunkKey& key, const format::ChunkPlace& place);
  // Waits for the disk's turn, then writes.
  io::Task<absl::Status> WritePayload(format::ChunkPlace place,
                                      format::ConstBytes payload,
                                      Access access);
  io::Task<absl::StatusOr<format::ChunkPlace>> FindSpace(uint32_t size_bytes);
  io::Task<absl::Status> GrowFor(uint32_t size_bytes);
  io::Task<absl::Status> AddSlabFor(uint32_t size_bytes);
  io::Task<absl::Status> CommitPut(format::ChunkKey key,
                                   format::StoredChunk stored);
  // Adds the mark to a batch if it is not durable yet.
  void AddMark(std::vector<format::IndexOp>* ops);
  absl::Status Latch(absl::Status cause);  // The first cause, for all.

  // --- Delete (local_store.cc).
  absl::Status CheckOrder(uint64_t meta_sequence) const;
  io::Task<absl::StatusOr<DeleteResult>> EraseInParts(
      std::vector<format::ChunkKey> keys);
  io::Task<absl::Status> EraseKeys(std::vector<format::ChunkKey> keys,
                                   DeleteResult* result);
  void ApplyErase(const std::vector<format::ChunkKey>& keys,
                  DeleteResult* result);

  // --- Read (local_store_read.cc).
  io::Task<absl::StatusOr<format::StoredChunk>> LoadRecord(
      format::ChunkKey key, format::ChunkPlace place);
  io::Task<absl::StatusOr<ReadResult>> ReadShared(format::ChunkKey key,
                                                  format::ChunkPlace place,
                                                  BlockRange range,
                                                  Access access);
  io::Task<absl::StatusOr<ReadResult>> ReadBlocks(format::ChunkKey key,
                                                  format::ChunkPlace place,
                                                  BlockRange range,
                                                  Access access);
  io::Task<absl::Status> ReadVerified(format::ChunkKey key,
                                      const format::StoredChunk* stored,
                                      BlockRange range,
                                      format::MutableBytes to);
  absl::Status Verify(const format::ChunkKey& key,
                      const format::StoredChunk& stored,
                      const BlockRange& range, format::ConstBytes bytes,
                      bool is_last_try);

  absl::Status CheckOpen() const;

  io::Env* const env_;
  const std::string dir_;
  TargetIdentity identity_;
  format::Superblock superblock_;
  uint32_t good_superblocks_ = 0;

  std::unique_ptr<io::File> lock_;
  std::unique_ptr<ChunkIndex> index_;
  std::unique_ptr<GroupCommit> commits_;
  std::unique_ptr<SlabSet> slabs_;

  ExtentAllocator allocator_;
  ChunkTable table_;
  // Shared: whoever waits outlives the entry in the map.
  std::map<format::ChunkKey, std::shared_ptr<PutInFlight>> puts_;
  std::map<std::tuple<uint32_t, uint64_t, uint32_t, uint32_t>,
           std::shared_ptr<ReadInFlight>>
      reads_;  // By slab, offset, first block, count: the place is pinned.

  // Of erasures that are being committed.
  std::multiset<format::ChunkKey> erasing_;
  std::set<format::ChunkKey> damaged_;  // Of the table; bounded.

  uint64_t meta_sequence_ = 0;
  uint64_t committed_meta_sequence_ = 0;  // In the index, or on its way.
  uint64_t boot_epoch_ = 0;
  bool has_state_ = false;
  absl::Status failed_;
  StoreStats counters_;  // Only the counting fields.

  // Whoever waits here has its buffer already, and whoever has a turn waits
  // for no buffer: else the two could wait for each other.
  FairQueue disk_;
  io::Semaphore growing_;  // One slab at a time.
  bool closed_ = false;
  io::Gate gate_;
};

}  // namespace cairn::server
