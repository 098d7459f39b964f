// GroupCommit: many small changes of the index, few synced batches.
//
// Before each batch the payload that its changes speak of is flushed, once for
// all of them: a flush for every write costs a disk two thirds of its rate.
//
// One batch is on its way to the disk at a time; whatever is asked for
// meanwhile makes the next. After the first failure nothing is written any
// more: every change waiting or to come fails with that cause.
//
// Threads:  one loop.
// Lifetime: Close() before destruction (checked by the gate).
#pragma once

#include <deque>
#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "format/target/index_log.h"
#include "io/env.h"
#include "server/target/chunk_index.h"
#include "server/target/slab_set.h"

namespace cairn::server {

class GroupCommit {
 public:
  // `index` and `slabs` (null: no payload to flush) must outlive this.
  GroupCommit(io::Env* env, ChunkIndex* index, SlabSet* slabs = nullptr)
      : env_(env), index_(index), slabs_(slabs), gate_(env) {}

  // Finishes when `ops` (at least one, at most kGroupCommitBytesMax) are on
  // stable storage. `applied` then has run, before any later change's: what it
  // changes in memory follows the order of the index.
  io::Task<absl::Status> Commit(std::vector<format::IndexOp> ops,
                                std::function<void()> applied);

  io::Task<void> Close() { return gate_.Close(); }
  uint64_t batches() const { return batches_; }

 private:
  struct Change {
    Change(io::Env* env, std::vector<format::IndexOp> change_ops,
           std::function<void()> then)
        : ops(std::move(change_ops)), applied(std::move(then)), done(env) {}
    std::vector<format::IndexOp> ops;
    std::function<void()> applied;
    absl::Status status;
    io::Event done;
  };
  io::Task<void> Drain();
  // Moves what fits one batch out of waiting_.
  std::vector<Change*> TakeBatch();

  io::Env* const env_;
  ChunkIndex* const index_;
  SlabSet* const slabs_;
  std::deque<Change*> waiting_;
  absl::Status failed_;
  bool draining_ = false;
  uint64_t batches_ = 0;
  io::Gate gate_;
};

}  // namespace cairn::server
