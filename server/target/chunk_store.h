// ChunkStore: immutable chunks on one target (a directory of a flash file
// system).
//
// Files:      superblock (identity, four copies), LOCK, index/ (RocksDB),
//             slab-NNNNNN (payload, O_DIRECT). docs/format/target.md.
// Memory:     bounded: server/target/limits.h, about 130 bytes per chunk.
// Units:      bytes; payload lies on format::kDiskAlignBytes.
// Threads:    one store per owner loop; call and destroy it there.
// Durability: OK from Put() or DeleteBlobs() means on stable storage. A failed
//             write, flush or index commit latches the store: every later call
//             that writes answers kUnavailable with the first cause; reads go
//             on, verified.
// Recovery:   Open() rebuilds the allocator from the index, so space of puts
//             that were not acknowledged is free again.
// Lifetime:   Close() before destruction (checked).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "format/base/ids.h"
#include "format/base/limits.h"
#include "format/target/superblock.h"
#include "format/wire/frame.h"
#include "io/env.h"

namespace cairn::server {

struct TargetIdentity {
  format::ClusterId cluster_id;
  format::TargetId target_id;
  uint64_t disk_generation = 0;  // Raised at each Format of the same id.
  // Under which metadata let it serve last: docs/format/membership.md. Nothing
  // is expected of it when a store is opened.
  uint64_t admission = 0;
};

struct ChunkRecord {
  uint64_t chunk_bytes = 0;
  uint64_t stripe_bytes = 0;
  uint64_t digest = 0;
  uint64_t put_wall_ns = 0;
  std::vector<uint64_t> block_checksums;
};

struct FormatOptions {
  TargetIdentity identity;
  uint64_t capacity_bytes = 0;  // Of payload; 0: what the disk has.
  uint64_t slab_bytes = format::kGiB;
  // Write the slabs once now: later writes are twice as fast on most disks.
  bool prewrite = false;
  // The simulator has no RocksDB: kLog there (kInvalidArgument otherwise).
  format::IndexKind index_kind = format::IndexKind::kRocksDb;
};

// Makes `dir` (which must be absent or empty) a target.
// kAlreadyExists: it has a superblock, or other files: nothing is touched.
// kInvalidArgument: an option that cannot be: nothing is touched.
io::Task<absl::Status> FormatTarget(io::Env* env, std::string dir,
                                    FormatOptions options);

// Reads the identity only. kNotFound: no superblock: not a target.
io::Task<absl::StatusOr<TargetIdentity>> ReadTargetIdentity(io::Env* env,
                                                            std::string dir);

struct StoreStats {
  uint64_t capacity_bytes = 0;
  uint64_t used_bytes = 0;
  uint64_t chunks = 0;
  uint64_t corrupt_blocks = 0;
  uint64_t damaged_chunks = 0;     // Found by reads, whoever asked for them.
  uint64_t damaged_now = 0;        // Of those: remembered, not good again yet.
  uint64_t damaged_forgotten = 0;  // Met, and not remembered: too many.
  uint64_t puts = 0;
  uint64_t gets = 0;
  uint64_t put_bytes = 0;
  uint64_t get_bytes = 0;
  uint64_t meta_sequence = 0;  // High-water mark of metadata, as last seen.
  uint64_t boot_epoch = 0;     // Raised durably at each Open.
  std::string failed;  // Why no writes are taken, or what hangs; empty: well.
};

struct ListedChunk {
  format::ChunkId chunk;
  ChunkRecord record;  // Without block checksums.
};

// For whom the disk is used, and until when it is worth waiting for its turn.
struct Access {
  format::TrafficClass traffic_class = format::TrafficClass::kInteractive;
  io::TimeNs deadline = io::kNoDeadline;
};

class ChunkStore {
 public:
  // `expect` is who this directory must be (disk_generation 0: any).
  // kNotFound: not a target.
  // kFailedPrecondition: another cluster's or another target's directory, a
  //   newer format, or locked by another process; the message says what to do.
  // kDataLoss: superblock or index damaged beyond their copies; nothing is
  //   changed.
  static io::Task<absl::StatusOr<std::unique_ptr<ChunkStore>>> Open(
      io::Env* env, std::string dir, TargetIdentity expect);
  virtual ~ChunkStore() = default;

  // Stores `payload` (padded with zeros to kDiskAlignBytes by the caller; its
  // memory must be from env->pool() or aligned alike) of record.chunk_bytes
  // bytes under (pg, chunk). `record.block_checksums` were verified against
  // the payload by the caller.
  // kInvalidArgument: sizes, checksums and digest do not fit each other.
  // OK also if the same chunk with the same digest is there already.
  // kAlreadyExists: there, with another digest: a chunk is never changed.
  // kResourceExhausted: the target is full; the message has its numbers.
  // kDeadlineExceeded, kUnavailable: no turn at the disk: nothing is stored.
  virtual io::Task<absl::Status> Put(uint32_t pg, format::ChunkId chunk,
                                     ChunkRecord record,
                                     format::ConstBytes payload,
                                     uint64_t meta_sequence,
                                     Access access = {}) = 0;

  // Stores a chunk anew, elsewhere, that is there with this digest: for one
  // whose bytes are damaged. Until the new ones are on stable storage the old
  // place is kept.
  // kNotFound: no such chunk (any more): nothing is stored.
  // kAlreadyExists: there, with another digest. Others as Put().
  virtual io::Task<absl::Status> Replace(uint32_t pg, format::ChunkId chunk,
                                         ChunkRecord record,
                                         format::ConstBytes payload,
                                         Access access = {}) = 0;

  // nullopt: no such chunk.
  virtual io::Task<absl::StatusOr<std::optional<ChunkRecord>>> Find(
      uint32_t pg, format::ChunkId chunk) = 0;

  // What Read() gives: whole verified blocks that cover the range asked for.
  struct ReadResult {
    // Whole blocks, from block first_block on, up to the chunk's end. Shared
    // by identical reads in flight: do not change it.
    std::shared_ptr<const io::Buffer> buffer;
    uint32_t first_block = 0;
    ChunkRecord record;
  };
  // Reads the blocks covering [offset, offset + length) and verifies each
  // against its checksum. Identical reads in flight may be served once.
  // kNotFound: no such chunk. kOutOfRange: empty, or past its end.
  // kDataLoss: a block is damaged (after one re-read); names chunk and block.
  // kDeadlineExceeded, kUnavailable: no buffer or no turn at the disk.
  virtual io::Task<absl::StatusOr<ReadResult>> Read(uint32_t pg,
                                                    format::ChunkId chunk,
                                                    uint64_t offset,
                                                    uint64_t length,
                                                    Access access = {}) = 0;

  // Chunks of a PG in id order, after the cursor; empty `next`: the end.
  // kInvalidArgument: `after` is not a cursor of this PG.
  struct ListResult {
    std::vector<ListedChunk> chunks;
    std::string next;
  };
  virtual io::Task<absl::StatusOr<ListResult>> List(format::PgId pg,
                                                    std::string after,
                                                    uint32_t limit) = 0;

  // A page of all chunks of all groups, in key order, after the cursor; empty
  // `next`: the end. Those put or erased meanwhile may be in it or not.
  // kInvalidArgument: `after` is no cursor.
  struct WalkedChunk {
    format::PgId pg;
    format::ChunkId chunk;
    uint64_t chunk_bytes = 0;
    uint64_t put_wall_ns = 0;
  };
  struct WalkResult {
    std::vector<WalkedChunk> chunks;
    std::string next;
  };
  virtual io::Task<absl::StatusOr<WalkResult>> Walk(std::string after,
                                                    uint32_t limit) = 0;

  // Of the chunks in which a read found damage, and that were neither read
  // whole, replaced nor erased since: `limit` after the first `skip`, from the
  // first one on again if need be. At most kDamagedChunksMax are remembered,
  // and none over a restart.
  virtual std::vector<WalkedChunk> Damaged(uint64_t skip,
                                           uint32_t limit) const = 0;

  // Erases every chunk of the blobs: by order of metadata only.
  // kFailedPrecondition: `meta_sequence` is below the mark (metadata was
  // restored from an old copy): nothing is erased.
  struct DeleteResult {
    uint64_t chunks = 0;
    uint64_t bytes = 0;
  };
  virtual io::Task<absl::StatusOr<DeleteResult>> DeleteBlobs(
      std::vector<format::BlobId> blobs, uint64_t meta_sequence) = 0;

  // Erases every chunk of a placement group: by order of metadata only, when
  // the group's row has other targets. Errors as DeleteBlobs().
  virtual io::Task<absl::StatusOr<DeleteResult>> DropGroup(
      format::PgId pg, uint64_t meta_sequence) = 0;

  // Raises the mark if `meta_sequence` is greater; the next Put() or
  // DeleteBlobs() makes it durable.
  virtual void NoteMetaSequence(uint64_t meta_sequence) = 0;

  // Writes down that the store was let in under this number. OK: on stable
  // storage. Otherwise the disk has the old number or this one.
  virtual io::Task<absl::Status> SetAdmission(uint64_t admission) = 0;

  virtual StoreStats stats() const = 0;
  virtual const TargetIdentity& identity() const = 0;
  virtual io::Task<absl::Status> Close() = 0;
};

}  // namespace cairn::server
