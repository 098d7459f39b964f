// Scrub: has chunks made again that are damaged or gone.
//
// Targets read again all that they have (server/target/scrubber.h) and say in
// their status which chunks they found damaged. Here the lists of the targets
// of each row are compared, one row after the other, which finds chunks that a
// disk has lost without a trace. A row of which a target reports damage comes
// first. What is suspect is looked at again:
//   1. Does a file refer to the stripe? If not, it is garbage, or a write that
//   is
//      under way or was given up: none of our business.
//   2. The target is ordered to make its chunk again from the others of the row
//      (RebuildShard with `repair`), until it says that it is there and good.
// Whoever is suspect stays so until that; every step may be repeated, and
// nothing is kept over a restart: targets report again, lists are compared
// again.
//
// Only:    in rows of which all targets are up and answer, and no shard moves.
// Deletes: the order carries a sequence from before files were asked for, so a
//          target that has deleted the blob since refuses it, and one that is
//          told to delete it while it repairs does not bring it back
//          (server/target/rebuilder.h).
// Pace:    one row at a time; all rows once in RepairOptions::compare_ns.
// Threads: one loop. Lifetime: as the Core; Loop() runs in its gate.
#pragma once

#include <compare>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "format/wire/meta.pb.h"
#include "server/cluster/target_orders.h"
#include "server/meta/core.h"
#include "server/meta/group_lists.h"
#include "server/meta/health.h"

namespace cairn::server {

class Scrub {
 public:
  Scrub(Core* core, TargetOrders* orders, const HealthMonitor* health)
      : core_(core), orders_(orders), health_(health) {}

  // Until core->stopping.
  io::Task<void> Loop();

  // Fills in response->scrub(). What the targets said is there already.
  void Report(wire::ClusterStatusResponse* response) const;

 private:
  struct Place {  // Of a chunk.
    format::PgId pg;
    uint32_t shard = 0;
    format::BlobId blob;
    uint32_t stripe = 0;
    friend auto operator<=>(const Place&, const Place&) = default;
  };
  struct Suspect {
    bool damaged = false;  // Else absent.
    bool counted = false;
    bool unused = false;  // No file referred to it when that was looked up.
    io::TimeNs not_before = 0;
    std::string problem;  // Why it could not be repaired.
  };

  io::TimeNs Now() const { return core_->env->NowNs(); }
  // kUnavailable: the row is not whole now. kNotFound: there is none.
  io::Task<absl::Status> CheckRow(format::PgId pg) const;
  void AddSuspect(const Place& place, bool damaged);
  void Postpone(const std::vector<Place>& places, std::string problem);

  // --- Finding.
  io::Task<void> AskTargets();
  io::Task<void> AskTarget(format::TargetId target);
  void StartPass();
  void ChooseNext();
  io::Task<void> CompareDue();
  io::Task<absl::Status> Compare(format::PgId pg);
  void Judge(const format::Pool& pool, format::PgId pg,
             const GroupStripe& stripe);

  // --- Repairing.
  io::Task<void> RepairDue();
  std::vector<Place> TakeDue() const;
  io::Task<void> Repair(std::vector<Place> places);
  // Those that files need; the others are settled.
  io::Task<std::vector<Place>> KeepNeeded(std::vector<Place> places);
  wire::RebuildShardRequest OrderOf(const std::vector<Place>& places,
                                    uint64_t sequence) const;
  io::Task<absl::StatusOr<wire::RebuildShardResponse>> Carry(
      wire::RebuildShardRequest request);
  void Settle(const std::vector<Place>& places,
              const wire::RebuildShardResponse& answer);
  std::string NameOf(const Place& place) const;

  Core* const core_;
  TargetOrders* const orders_;
  const HealthMonitor* const health_;

  std::map<Place, Suspect> suspects_;  // At most kSuspectsMax.
  // Rows to be compared, and from when on.
  std::map<format::PgId, io::TimeNs> wanted_;
  std::set<format::PgId> left_;  // Of this pass over all rows.
  uint64_t groups_ = 0;          // Of this pass.
  uint64_t passes_ = 0;
  format::PgId cursor_;
  io::TimeNs next_compare_ = 0;
  std::map<format::PgId, std::string> disagreements_;  // Of targets, shown.
  uint64_t absent_ = 0;
  uint64_t repaired_ = 0;
};

}  // namespace cairn::server
