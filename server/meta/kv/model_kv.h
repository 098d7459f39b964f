// ModelKv: the engine that says what every engine must do. In memory, on the
// loop's virtual clock, without threads: what a simulated cluster runs on, and
// what the conformance suite holds the real engines to.
//
// Durability: commits become durable `commit_delay_ns` later, all that gathered
//             meanwhile together. What is durable lives in a ModelKvDisk, which
//             may outlive the engine: open the next engine on it after a crash.
// Faults:     InjectFault() and Crash(), below.
// Lifetime:   the executor and the disk outlive the engine; Close() (also after
//             Crash()) before destruction.
#pragma once

#include <functional>
#include <map>

#include "server/meta/kv/kv_engine.h"

namespace cairn::server {

// Stands for stable storage.
struct ModelKvDisk {
  std::map<std::string, KvValue> pairs;
  uint64_t sequence = 0;
};

struct ModelKvOptions {
  io::TimeNs commit_delay_ns = 100 * io::kMicrosecond;
  // Called on the loop each time durable_sequence() has grown; may be null.
  std::function<void(uint64_t)> on_durable;
};

enum class ModelKvFault {
  kAbort,          // kAborted, as if something expected had changed.
  kUnknownLost,    // kUnavailable; nothing was written.
  kUnknownApplied  // kUnavailable, although the commit is durable by then.
};

class ModelKv final : public KvEngine {
 public:
  ModelKv(io::Executor* executor, ModelKvDisk* disk,
          ModelKvOptions options = {});
  ~ModelKv() override;

  io::Task<absl::StatusOr<std::optional<KvValue>>> Get(
      std::string key) override;
  io::Task<absl::StatusOr<std::vector<KvPair>>> Scan(std::string begin,
                                                     std::string end,
                                                     uint32_t limit) override;
  io::Task<absl::StatusOr<uint64_t>> Commit(KvCommit commit) override;
  io::Task<absl::Status> AwaitDurable(uint64_t sequence) override;
  io::Task<absl::Status> SkipTo(uint64_t sequence) override;
  uint64_t sequence() const override { return sequence_; }
  uint64_t durable_sequence() const override { return disk_->sequence; }
  io::Task<absl::Status> Close() override;

  // The commit_number-th call of Commit() from the engine's start (1: the
  // first; see commits()) meets `fault`, if it would have succeeded otherwise.
  void InjectFault(uint64_t commit_number, ModelKvFault fault);
  uint64_t commits() const { return commits_; }  // Calls so far.

  // The process dies: everything in flight and later ends with kUnavailable,
  // and the disk keeps what is durable, plus the `keep` oldest commits that are
  // not: a real disk may have them although nobody was told.
  void Crash(uint64_t keep = 0);

 private:
  // As an engine whose reads go over a network: others commit meanwhile.
  io::Task<absl::Status> Linger();
  struct Pending {
    uint64_t sequence = 0;
    std::vector<KvWrite> writes;
  };

  bool Holds(const KvCommit& commit) const;
  uint64_t Apply(std::vector<KvWrite> writes);
  void Persist(Pending pending);
  // Makes pending commits durable, a group at a time, until none is left.
  io::Task<void> Flush();
  void StartFlush();
  // Waits for `sequence`; kUnavailable after a crash.
  io::Task<absl::Status> Durable(uint64_t sequence);

  io::Executor* const executor_;
  ModelKvDisk* const disk_;
  const ModelKvOptions options_;

  std::map<std::string, KvValue> pairs_;  // Newest state.
  uint64_t sequence_;
  std::vector<Pending> pending_;  // In pairs_, not on the disk; ascending.
  bool flushing_ = false;
  bool closed_ = false;
  io::CancelToken crashed_;
  io::WaitQueue durable_;
  io::Gate gate_;

  uint64_t commits_ = 0;
  std::map<uint64_t, ModelKvFault> faults_;  // By number of the commit.
};

}  // namespace cairn::server
