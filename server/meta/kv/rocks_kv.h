// RocksKv: the embedded metadata store, on RocksDB, of one process.
//
// A commit is decided at once, on the loop, against everything decided before
// it, whether that is on the disk yet or not; then it waits for the disk
// together with all others that gathered while the last batch was written. So
// one synced write serves as many commits as there are callers.
// docs/format/metadata-store.md says what is in the directory.
//
// Isolation:  serializable: commits take effect in the order of their
//             sequences.
// Durability: as KvEngine says; one synced batch at a time. A write that fails
//             latches the engine: it cannot know what the disk has, so every
//             call in flight and later ends with kUnavailable and the first
//             cause. Open it again (in a new process, after EIO) to go on.
// Space:      below kKvReserveBytes free only commits that delete something,
//             below half of it only commits that do nothing else; others end
//             with kResourceExhausted and change nothing. Looked at most once
//             a second, with a batch or before refusing.
// Threads:    one loop owns it. RocksDB's threads, and the one that writes a
//             batch (Env::RunBlocking), stay behind it. Reads that miss
//             RocksDB's cache block the loop for one disk read.
// Lifetime:   env outlives it; Close() before destruction (checked).
#pragma once

#include <array>
#include <functional>
#include <memory>

#include "format/base/ids.h"
#include "server/meta/kv/kv_engine.h"
#include "server/meta/kv/kv_overlay.h"
#include "server/meta/limits.h"

namespace rocksdb {
class DB;
}  // namespace rocksdb

namespace cairn::server {

struct RocksKvOptions {
  format::ClusterId cluster;
  bool create = false;  // Make the store if the directory has none.
  uint64_t reserve_bytes = kKvReserveBytes;
  // Called on the loop each time durable_sequence() has grown; may be null.
  std::function<void(uint64_t)> on_durable;
};

class RocksKv final : public KvEngine {
 public:
  // Opens the store in `dir`, a directory of its own that exists or whose
  // parent does. The answer's sequence() must be checked against the
  // high-water mark before anything is served from it.
  // kNotFound: no store there, and not `create`. kFailedPrecondition: another
  // process has it open, it belongs to another cluster, or is of a newer
  // version. kDataLoss: damaged; restore it from a copy.
  static io::Task<absl::StatusOr<std::unique_ptr<RocksKv>>> Open(
      io::Env* env, std::string dir, RocksKvOptions options);
  ~RocksKv() override;

  io::Task<absl::StatusOr<std::optional<KvValue>>> Get(
      std::string key) override;
  io::Task<absl::StatusOr<std::vector<KvPair>>> Scan(std::string begin,
                                                     std::string end,
                                                     uint32_t limit) override;
  // Also kResourceExhausted: see Space above. kDataLoss: what it had to read is
  // damaged; nothing was written.
  io::Task<absl::StatusOr<uint64_t>> Commit(KvCommit commit) override;
  io::Task<absl::Status> AwaitDurable(uint64_t sequence) override;
  io::Task<absl::Status> SkipTo(uint64_t sequence) override;
  uint64_t sequence() const override { return sequence_; }
  uint64_t durable_sequence() const override { return durable_sequence_; }
  io::Task<absl::Status> Close() override;

 private:
  struct Batch;

  RocksKv(io::Env* env, std::string dir, RocksKvOptions options,
          std::unique_ptr<rocksdb::DB> db);

  absl::Status LoadIdentity();
  absl::Status LoadSequence();

  absl::StatusOr<std::optional<KvValue>> Find(const std::string& key) const;
  absl::StatusOr<std::vector<KvPair>> Merge(std::string begin,
                                            const std::string& end,
                                            uint32_t limit) const;
  // kAborted: no.
  absl::Status Holds(const KvCommit& commit) const;

  // Everything of a commit that must happen without a suspension in between.
  absl::StatusOr<uint64_t> Decide(KvCommit commit);
  void Enqueue(std::vector<KvWrite> writes);
  // Whether the reserve, as last seen, allows the commit.
  bool Fits(const KvCommit& commit) const;
  io::Task<absl::Status> CheckSpace(const KvCommit* commit);
  io::Task<absl::Status> LookAtSpace();

  io::Task<void> Flush();
  io::Task<absl::Status> WriteOut(Batch* batch);
  void Finish(Batch* batch, absl::Status written);
  io::Task<absl::Status> Durable(uint64_t sequence);
  Batch* gathering() { return batches_[gathering_].get(); }

  io::Env* const env_;
  const std::string dir_;
  const RocksKvOptions options_;
  std::unique_ptr<rocksdb::DB> db_;

  uint64_t sequence_ = 0;
  uint64_t durable_sequence_ = 0;
  KvOverlay overlay_;
  // One gathers, the other one is being written or idle.
  std::array<std::unique_ptr<Batch>, 2> batches_;
  size_t gathering_ = 0;
  bool flushing_ = false;
  io::Semaphore room_;  // Bytes that may still be queued.
  absl::Status latched_;
  bool closed_ = false;

  uint64_t free_bytes_ = 0;
  io::TimeNs look_again_ns_ = 0;

  io::Gate gate_;
};

}  // namespace cairn::server
