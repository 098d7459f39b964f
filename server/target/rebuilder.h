// Rebuilder: the rebuilds that metadata ordered from the targets of a process,
// and the dropping of groups, which must not meet one.
//
// An order is repeated until its answer says that it is done: the first starts
// the work, the next ones report. So nothing need be kept on disk: after a
// restart the next order starts it again, and what is there is skipped.
//
// Order of things: a group is not rebuilt while it is dropped, nor dropped
//           while it is rebuilt; an order that comes later than a newer one
//           is refused.
// Threads:  one loop.
// Lifetime: Close() before destruction if any order was taken (checked).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "absl/status/statusor.h"
#include "format/wire/target.pb.h"
#include "io/env.h"
#include "server/target/chunk_store.h"
#include "server/target/shard_rebuild.h"

namespace cairn::server {

class Rebuilder {
 public:
  explicit Rebuilder(io::Env* env);
  ~Rebuilder();
  Rebuilder(const Rebuilder&) = delete;
  Rebuilder& operator=(const Rebuilder&) = delete;

  // `store` is the request's target; it outlives Close().
  // kInvalidArgument: no such order can be. kFailedPrecondition: it is older
  // than what the target has seen. kUnavailable: not now; order again.
  absl::StatusOr<wire::RebuildShardResponse> Order(
      ChunkStore* store, const wire::RebuildShardRequest& request);

  // Erases a group. kFailedPrecondition: the target is in the group's row, or
  // the order is old. kUnavailable: it is being rebuilt; that ends now.
  io::Task<absl::StatusOr<wire::DropGroupResponse>> Drop(
      ChunkStore* store, wire::DropGroupRequest request);

  // Ends what runs, and waits for it.
  io::Task<void> Close();

 private:
  // A group at one of the targets.
  using Place = std::pair<uint32_t, format::PgId>;
  struct Entry {
    std::unique_ptr<ShardRebuild> rebuild;
    uint64_t fence_epoch = 0;
    uint64_t sequence = 0;  // Of the newest order.
    uint64_t started = 0;   // Counts orders, to find the oldest.
    bool over = false;
  };
  absl::Status Start(ChunkStore* store, const Place& place,
                     const wire::RebuildShardRequest& request);
  io::Task<void> Run(Place place, ShardRebuild* rebuild);
  void ForgetOldest();
  uint64_t Running() const;

  io::Env* const env_;
  RebuildShare share_;
  std::map<Place, Entry> rebuilds_;
  std::set<Place> dropping_;
  uint64_t orders_ = 0;
  bool closed_ = false;
  io::Gate gate_;
};

}  // namespace cairn::server
