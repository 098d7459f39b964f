// Rebuild: takes targets that stay away out of service, and moves shards of
// rows from targets that are out to others.
//
// A move, by the epochs of the cluster map:
//   1. The map that takes the target out gives all its rows that epoch
//      (format::CarryPgEpochs), which fences them: chunks that were put before
//      are committed already, and so listed by all, or never will be. Writers
//      do not touch a row with a target that is out.
//   2. A new target is chosen and the move is stored.
//   3. The new target is ordered, again and again, to make the shard from what
//      the others of the row list, until it says that all is there, written,
//      read back and verified. Stripes that cannot be made stop the move,
//      unless no file refers to them (writes that were given up).
//   4. One transaction switches the row, forgets the move, and leaves chores
//      (chores.h): the old target is to erase the group should it come back.
// Each step may be done again, so a restart of anybody only repeats.
//
// Never: under the brake; if a row would have fewer than k targets that can be
//        read; if there is nowhere to rebuild. The operator reads why in the
//        status.
// Another trigger (a target that is to be emptied) is the same move: `from`
//        may be alive, and is a source then.
// Threads: one loop. Lifetime: as the Core; Loop() runs in its gate.
#pragma once

#include <deque>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "format/cluster/replacement.h"
#include "format/wire/meta.pb.h"
#include "format/wire/rebuild_state.h"
#include "server/cluster/target_orders.h"
#include "server/meta/chores.h"
#include "server/meta/core.h"
#include "server/meta/health.h"

namespace cairn::server {

class Rebuild {
 public:
  Rebuild(Core* core, TargetOrders* orders, const HealthMonitor* health,
          const Chores* chores)
      : core_(core), orders_(orders), health_(health), chores_(chores) {}

  // The moves that were under way.
  io::Task<absl::Status> Load();
  // Until core->stopping.
  io::Task<void> Loop();

  wire::RebuildStatus Report() const;

 private:
  using MoveId = std::pair<format::PgId, uint32_t>;  // Group and shard.
  struct Move {
    // As stored.
    format::TargetId from;
    format::TargetId to;
    format::Epoch fence;
    // Of this process.
    bool asking = false;
    bool done = false;
    uint32_t home_failures = 0;
    io::TimeNs not_before = 0;
    std::string problem;
    wire::RebuildShardResponse report;
  };
  // What a move is worth under a map.
  enum class Worth { kGoesOn, kSwitched, kPointless, kFencedAgain };
  struct Slot {  // A shard that has to move.
    MoveId id;
    format::TargetId from;
    uint32_t spare = 0;  // Targets that can be read beyond k.
  };
  struct Change {  // Of the stored moves.
    enum class Kind { kPut, kEnd, kCancel };
    Kind kind = Kind::kPut;
    MoveId id;
    Move move;
  };

  io::Task<absl::Status> Round(io::Gate* asking);
  bool Braked() const { return !health_->brake().empty(); }

  // --- rebuild_plan.cc: what is to be moved, and where to.
  io::Task<absl::Status> TakeOut();
  std::string WhyNotOut(const format::ClusterMap& without,
                        format::TargetId target) const;
  io::Task<absl::Status> Reconcile();
  Worth WorthOf(const format::ClusterMap& map, const MoveId& id,
                const Move& move) const;
  bool HasOtherHome(const format::ClusterMap& map, const MoveId& id) const;
  io::Task<absl::Status> Plan();
  std::vector<Slot> FindSlots(const format::ClusterMap& map) const;
  std::vector<Change> ChooseHomes(const format::ClusterMap& map,
                                  const std::vector<Slot>& slots,
                                  const Chores::Busy& busy);
  std::set<format::TargetId> JoiningOf(format::PgId pg) const;
  io::Task<absl::Status> Store(std::vector<Change> changes);
  static io::Task<absl::Status> StoreIn(Txn* txn, const Chores* chores,
                                        std::vector<Change> part);

  // --- rebuild.cc: carrying it out.
  void AskAll(io::Gate* asking);
  absl::StatusOr<wire::RebuildShardRequest> OrderOf(const MoveId& id,
                                                    const Move& move) const;
  io::Task<void> Ask(MoveId id);
  io::Task<void> Answered(MoveId id, format::Epoch fence,
                          absl::StatusOr<wire::RebuildShardResponse> answer);
  // Why the lost stripes stop the move; empty: they do not.
  io::Task<std::string> Excuse(wire::RebuildShardResponse report) const;
  io::Task<absl::Status> Switch();
  void NoteRate();

  Core* const core_;
  TargetOrders* const orders_;
  const HealthMonitor* const health_;
  const Chores* const chores_;

  std::map<MoveId, Move> moves_;
  uint64_t waiting_ = 0;  // Shards without a move, in the newest round.
  std::vector<std::string> problems_;  // Of the newest round.
  std::vector<std::string> found_;     // Of the one under way.
  uint64_t moved_shards_ = 0;
  uint64_t moved_bytes_ = 0;
  // When, and how many bytes had been made in all: for the rate.
  std::deque<std::pair<io::TimeNs, uint64_t>> samples_;
};

}  // namespace cairn::server
