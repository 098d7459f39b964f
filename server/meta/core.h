// What all parts of the metadata service share: the store, ids, the service
// clock, the cluster map, counts for status, and the owner of background work.
//
// Threads:  one loop.
// Lifetime: the Core outlives every part; parts are stopped through `stopping`
//           and `gate` before it is destroyed (MetaService::Close()).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "format/cluster/cluster_map.h"
#include "io/env.h"
#include "server/meta/limits.h"
#include "server/meta/options.h"
#include "server/meta/txn.h"

namespace cairn::server {

// Hands out ids that are never handed out again. Takes them from the store in
// ranges, so that most calls touch memory only; a crash loses what was left.
class IdAllocator {
 public:
  IdAllocator(io::Env* env, KvEngine* kv) : env_(env), kv_(kv) {}
  // The next id, from 1 on (inodes: from 2, the root has 1).
  io::Task<absl::StatusOr<uint64_t>> Next(format::CounterId counter,
                                          uint64_t part = 0);

 private:
  struct Range {
    uint64_t next = 0;
    uint64_t end = 0;
    bool refilling = false;
    std::unique_ptr<io::Event> refilled;
  };
  io::Task<absl::StatusOr<uint64_t>> Reserve(format::CounterId counter,
                                             uint64_t part);

  io::Env* const env_;
  KvEngine* const kv_;
  std::map<std::pair<format::CounterId, uint64_t>, Range> ranges_;
};

// Milliseconds of service time: monotonic, stands still while the service is
// down. Grace times count on it, because the wall clock may jump.
class ServiceClock {
 public:
  ServiceClock(io::Env* env, KvEngine* kv) : env_(env), kv_(kv) {}
  io::Task<absl::Status> Load();
  io::Task<absl::Status> Save();
  uint64_t NowMs() const {
    return base_ms_ + (env_->NowNs() - started_ns_) / io::kMillisecond;
  }

 private:
  io::Env* const env_;
  KvEngine* const kv_;
  uint64_t base_ms_ = 0;
  io::TimeNs started_ns_ = 0;
};

// The map in force. Addresses are overlaid in memory (SetAddress) and change
// neither the stored map nor its epoch.
class MapHolder {
 public:
  explicit MapHolder(KvEngine* kv) : kv_(kv) {}
  // kFailedPrecondition: the store was never initialised.
  io::Task<absl::Status> Load();
  // Stores `map` as the successor: its epoch must be the current one plus 1
  // (kInvalidArgument). The epochs of its rows are set here. Conflict(): the
  // map changed meanwhile: make the successor of the new one.
  // `also` puts what must change with it into the same transaction.
  using AlsoWrite = std::function<void(Txn* txn)>;
  io::Task<absl::Status> Replace(format::ClusterMap map,
                                 AlsoWrite also = nullptr);
  void SetAddress(format::TargetId target, std::string address);

  std::shared_ptr<const format::ClusterMap> map() const { return map_; }
  format::Epoch epoch() const { return map_->epoch; }
  // For Txn::Expect(MapKey(), ...): a commit under this map.
  uint64_t version() const { return version_; }

 private:
  KvEngine* const kv_;
  std::shared_ptr<const format::ClusterMap> map_;
  uint64_t version_ = 0;
};

// Counts for ClusterStatus. Files are counted by a scan after the start; those
// made or removed meanwhile are counted once (see FileCounter::Removed).
class FileCounter {
 public:
  void Made() { ++count_; }
  void Removed(format::InodeId inode) {
    // The scan in progress will not see it any more.
    if (scanning_ && inode.value >= cursor_ && inode.value < first_new_) return;
    if (count_ > 0) --count_;
  }
  void StartScan(uint64_t first_new) {
    scanning_ = true;
    first_new_ = first_new;
  }
  void Scanned(uint64_t cursor, uint64_t found) {
    cursor_ = cursor;
    count_ += found;
  }
  void EndScan() { scanning_ = false; }
  uint64_t count() const { return count_; }

 private:
  uint64_t count_ = 0;
  uint64_t cursor_ = 0;     // Inodes below are counted.
  uint64_t first_new_ = 0;  // Inodes from here on were made after the start.
  bool scanning_ = false;
};

struct Core {
  Core(io::Env* environment, KvEngine* engine, MetaOptions meta_options)
      : env(environment),
        kv(engine),
        options(std::move(meta_options)),
        ids(environment, engine),
        clock(environment, engine),
        map(engine),
        gate(environment) {}

  io::Env* const env;
  KvEngine* const kv;
  const MetaOptions options;
  IdAllocator ids;
  ServiceClock clock;
  MapHolder map;
  FileCounter files;
  io::CancelToken stopping;
  io::Gate gate;
};

// Sleeps before try `attempt` (0: not at all), longer each time, with jitter.
io::Task<void> Backoff(Core* core, uint32_t attempt);
absl::Status TooBusy();  // kUnavailable: conflicts without end.

// Runs `body` in a Txn and commits, again on conflicts and after unknown
// outcomes: a body must do nothing (and succeed) where its work is done
// already.
using TxnBody = std::function<io::Task<absl::Status>(Txn* txn)>;
io::Task<absl::Status> RunTxn(Core* core, TxnBody body);

// Runs `body`, which only reads, until it meets no conflict; the answer waits
// until all it was made from is durable.
template <typename Owner, typename Request, typename Response>
io::Task<absl::StatusOr<Response>> ReadOp(
    Core* core, Owner* owner,
    io::Task<absl::StatusOr<Response>> (Owner::*body)(Txn*, const Request*),
    Request request) {
  const io::Gate::Hold hold = core->gate.Enter();
  for (uint32_t attempt = 0; attempt < kTxnAttemptsMax; ++attempt) {
    co_await Backoff(core, attempt);
    Txn txn(core->kv);
    absl::StatusOr<Response> response = co_await (owner->*body)(&txn, &request);
    if (!response.ok()) response = co_await txn.Confirm(response.status());
    if (IsConflict(response.status())) continue;
    CAIRN_CO_RETURN_IF_ERROR(
        co_await core->kv->AwaitDurable(txn.read_sequence()));
    co_return response;
  }
  co_return TooBusy();
}

// All pairs of a range, page by page, at most `limit`.
io::Task<absl::StatusOr<uint64_t>> CountKeys(Core* core, format::KeyRange range,
                                             uint64_t limit);
// Deletes every key of the range in as many transactions as it takes. For
// ranges that nobody adds to any more.
io::Task<absl::Status> EraseRange(Core* core, format::KeyRange range);

}  // namespace cairn::server
