// Garbage collection: decides which blobs are deleted, and orders it.
//
// A blob comes up for deletion when it loses a reference, or its writer ends
// while no file refers to it. When its grace is over (the last one, if it was
// referred to again meanwhile) it is looked at again:
//   1. One transaction that expects no reference to it marks it as doomed. From
//      then on no commit can refer to it (commits expect the blob's record).
//   2. The references are read once more, and all targets that may hold chunks
//      of it are ordered to delete them.
//   3. When all have confirmed, its record goes.
// Each step may be repeated, so a crash between any two is harmless.
//
// A blob whose writer is alive but which lost its last reference is deleted as
// well: a writer that goes on with it gets kAborted at its next commit.
//
// Threads: one loop.
#pragma once

#include <map>
#include <set>
#include <vector>

#include "absl/status/statusor.h"
#include "server/cluster/target_orders.h"
#include "server/meta/chores.h"
#include "server/meta/core.h"

namespace cairn::server {

class Garbage {
 public:
  Garbage(Core* core, TargetOrders* orders, Chores* chores)
      : core_(core), orders_(orders), chores_(chores) {}

  // Passes, with those of the chores between them.
  io::Task<void> Loop();
  // One pass over what is due now. True: there may be more.
  io::Task<absl::StatusOr<bool>> Pass();

 private:
  struct Doomed {
    format::BlobId blob;
    std::string key;  // Of its garbage entry.
  };
  io::Task<absl::Status> Doom(Txn* txn, Doomed item, bool* doomed);
  io::Task<absl::StatusOr<bool>> HasReference(Txn* txn, format::BlobId blob);
  // The targets of all PGs that chunks of the blob can lie on.
  std::set<format::TargetId> TargetsOf(format::BlobId blob) const;
  // Blobs that not all targets confirmed.
  io::Task<std::set<format::BlobId>> Order(std::vector<Doomed> doomed);
  io::Task<absl::Status> Settle(std::vector<Doomed> doomed,
                                std::set<format::BlobId> unconfirmed);

  Core* const core_;
  TargetOrders* const orders_;
  Chores* const chores_;
};

}  // namespace cairn::server
