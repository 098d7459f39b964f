// Chores: what is left to do at targets after a row has changed its targets.
//
//   drop   a target that is in the row no more erases the group, once nobody
//          can be putting into it under the old map any more;
//   sweep  a target that is new in the row erases chunks of blobs that were
//          deleted while it copied them (delete orders went to the old row).
//
// Decided here alone, kept in the store with the map that made them due, and
// repeated until the target confirms. A target that is not in the cluster map
// any more has nothing left to do.
//
// Order: Pass() runs between passes of garbage collection, so no pass that
//        began under the old row is still under way.
// Threads: one loop. Lifetime: as the Core.
#pragma once

#include <map>
#include <set>
#include <string>

#include "absl/status/statusor.h"
#include "server/cluster/target_orders.h"
#include "server/meta/core.h"
#include "server/meta/health.h"

namespace cairn::server {

class Chores {
 public:
  Chores(Core* core, TargetOrders* orders, const HealthMonitor* health)
      : core_(core), orders_(orders), health_(health) {}

  // Does what is due, once.
  io::Task<absl::Status> Pass();

  // Adds to a transaction: due after the orphan grace.
  void Add(Txn* txn, format::GroupChore chore, format::TargetId target,
           format::PgId pg) const;

  // Targets with anything left to do, by group: they are no new homes for it.
  using Busy = std::map<format::PgId, std::set<format::TargetId>>;
  io::Task<absl::StatusOr<Busy>> FindBusy() const;

 private:
  struct Item {
    std::string key;
    format::TargetId target;
    format::PgId pg;
    store::Chore record;
  };
  static absl::StatusOr<Item> Parse(const KvPair& pair);
  io::Task<absl::Status> Do(Item item);
  io::Task<absl::Status> Drop(Item item);
  io::Task<absl::Status> Sweep(Item item);
  io::Task<absl::StatusOr<std::set<format::BlobId>>> FindGone(Item item);
  io::Task<absl::Status> Forget(Item item);

  Core* const core_;
  TargetOrders* const orders_;
  const HealthMonitor* const health_;
  std::map<std::string, io::TimeNs> retry_at_;  // By key.
};

}  // namespace cairn::server
