// Rebuilder: the rebuilds and repairs that metadata ordered from the targets of
// a process, and the dropping of groups, which must not meet one.
//
// An order is repeated until its answer says that it is done: the first starts
// the work, the next ones report. So nothing need be kept on disk: after a
// restart the next order starts it again, and what is there is skipped.
//
// Order of things: a group is not rebuilt while it is dropped, nor dropped
//           while it is rebuilt; an order that comes later than a newer one
//           is refused.
// Deletes:  a repair never brings back a blob that is deleted meanwhile
//           (repair_guard.h), nor one that was deleted after the repair was
//           decided: such an order is refused, by its sequence. Rebuilds need
//           none of that: new targets of a row are swept
//           (server/meta/chores.h).
// Threads:  one loop.
// Lifetime: Close() before destruction if any order was taken (checked).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

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

  // All orders to erase that the target ever took were decided at or before
  // this sequence: what a store that was just opened says.
  void Expect(uint32_t target, uint64_t meta_sequence);
  // Before blobs are deleted there. kUnavailable: a chunk of one is being
  // repaired; order again.
  absl::Status NoteDeleted(uint32_t target,
                           const std::vector<format::BlobId>& blobs,
                           uint64_t meta_sequence);

  // Erases a group. kFailedPrecondition: the target is in the group's row, or
  // the order is old. kUnavailable: it is being rebuilt; that ends now.
  io::Task<absl::StatusOr<wire::DropGroupResponse>> Drop(
      ChunkStore* store, wire::DropGroupRequest request);

  // Ends what runs for a target that is not served any more.
  void Leave(uint32_t target);
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
  std::map<uint32_t, uint64_t> erased_;  // Newest sequence, by target.
  uint64_t orders_ = 0;
  bool closed_ = false;
  io::Gate gate_;
};

}  // namespace cairn::server
