// Rebuild: takes targets that stay away out of service, and moves shards of
// rows from targets to others, for one of three causes (format::MoveCause):
//   lost     their target is out. These come first.
//   drain    their target is to be emptied. When no lost shard waits.
//   balance  another target has fewer slots than its share
//            (format::ProposeMoves). When nothing else is to be moved, and all
//            targets are up.
//
// A move, by the epochs of the cluster map:
//   1. The row is fenced: a map gives it that map's epoch
//      (format::CarryPgEpochs) and tells writers to put nothing into it. For a
//      lost shard it is the map that takes the target out. Else the target
//      lives and its row is well, so it is the map that closes the row
//      (Pool::closed_pgs), in one transaction with 2.
//   2. A new target is chosen and the move is stored.
//   3. The new target is ordered, again and again, to make the shard from what
//      the others of the row list, and the old target if it answers, until it
//      says that all is there, written, read back and verified. Stripes that
//      cannot be made stop the move, unless no file refers to them (writes that
//      were given up).
//   4. One transaction switches the row and opens it, forgets the move, and
//      leaves chores (chores.h): the old target is to erase the group, the new
//      one to erase blobs that were deleted meanwhile.
// Each step may be done again, so a restart of anybody only repeats.
//
// Nothing is missed in 3, although it looks once. A stripe of the row that is
// ever committed was
//   - committed before 1: then all its chunks had been acknowledged, and every
//     list of an order that is given later has them; or
//   - put under a map from before 1, and not committed by then: never will it
//     be. A commit names the epoch under which its stripes were put, and is
//     refused in the same transaction that would count it if the row is younger
//     (Extents::ExpectRows). The client puts them elsewhere; or
//   - put under a map of 1 or later: no writer does
//   (client/blob/stripe_choice).
// If 1 happens again under a move (another target of the row went out), 3 does,
// too.
//
// Never: under the brake; if a row would have fewer than k targets that can be
//        read; if there is nowhere to rebuild. Nor is a row closed if its
//        writers had no other (row_closing.h), twice at a time, or for a new
//        target that shares a failure domain of the row when the old one does
//        not. The operator reads why in the status.
// Undone: a drain or balance whose reason has gone ends: the row is opened with
//        the targets it had, and the new target erases what it has made.
// Threads: one loop. Lifetime: as the Core; Loop() runs in its gate.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "format/cluster/rebalance.h"
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
  using Cause = format::MoveCause;
  struct Move {
    // As stored.
    format::TargetId from;
    format::TargetId to;
    format::Epoch fence;
    Cause cause = Cause::kLost;
    // Of this process.
    bool asking = false;
    bool done = false;
    uint32_t failures = 0;  // In a row, that speak against `to`.
    io::TimeNs not_before = 0;
    std::string problem;
    wire::RebuildShardResponse report;
  };
  // What a move is worth under a map.
  enum class Worth { kGoesOn, kSwitched, kPointless, kFencedAgain };
  struct Slot {  // A shard that has to move.
    MoveId id;
    format::TargetId from;
    Cause cause = Cause::kLost;
    uint32_t spare = 0;  // Targets that can be read beyond k.
  };
  struct Change {  // Of the stored moves.
    enum class Kind {
      kStart,
      kFence,  // It has another fence now.
      kEnd,    // Its row is switched.
      kCancel
    };
    Kind kind = Kind::kStart;
    MoveId id;
    Move move;
  };
  // Moves as they are chosen, one after the other.
  struct Draft {
    format::ClusterMap map;  // With the rows closed that the chosen ones close.
    format::TargetLoads loads;
    std::map<format::TargetId, uint32_t> coming;
    std::set<format::TargetId> full;  // Enough is coming.
    std::map<format::PgId, std::set<format::TargetId>> joining;
    std::map<format::PgId, uint32_t> lost;  // Moves of that cause.
    uint64_t moves = 0;                     // Those under way included.
    uint64_t moves_of_living = 0;
    std::vector<Change> changes;
    // Why slots were passed over.
    uint64_t homeless = 0;
    uint64_t kept_open = 0;
  };

  io::Task<absl::Status> Round(io::Gate* asking);
  bool Braked() const { return !health_->brake().empty(); }

  // --- rebuild_plan.cc: targets that go out, moves that have lost their point,
  // and storing.
  io::Task<absl::Status> TakeOut();
  std::string WhyNotOut(const format::ClusterMap& without,
                        format::TargetId target) const;
  io::Task<absl::Status> Reconcile();
  Worth WorthOf(const format::ClusterMap& map, const MoveId& id,
                const Move& move) const;
  bool HasCause(const format::ClusterMap& map, const MoveId& id,
                const Move& move) const;
  bool HasOtherHome(const format::ClusterMap& map, const MoveId& id) const;
  std::set<format::TargetId> JoiningOf(format::PgId pg) const;
  io::Task<absl::Status> OpenStray();
  std::vector<format::PgId> FindStray(const format::ClusterMap& map) const;
  io::Task<absl::Status> Store(std::vector<Change> changes);
  io::Task<absl::Status> StorePart(std::vector<Change> part);
  // False: the map changed meanwhile, nothing is stored.
  io::Task<absl::StatusOr<bool>> StoreWithMap(std::vector<Change>* part);
  static void Write(Txn* txn, const Chores* chores,
                    const std::vector<Change>& part);
  static io::Task<absl::Status> WriteIn(Txn* txn, const Chores* chores,
                                        const std::vector<Change>* part);

  // --- rebuild_homes.cc: shards that must move, and where to.
  io::Task<absl::Status> Plan();
  static std::optional<Cause> WhyMove(const format::ClusterMap& map,
                                      format::TargetId target);
  // As ClusterMap::MayRead(), which does not know of a target that died while
  // it was emptied.
  bool CanRead(const format::ClusterMap& map, format::TargetId target) const;
  uint32_t CountReadable(const format::ClusterMap& map,
                         std::span<const format::TargetId> row) const;
  std::vector<Slot> FindSlots(const format::ClusterMap& map) const;
  Draft StartDraft(const format::ClusterMap& map) const;
  bool HasRoom(const Draft& draft, const Slot& slot) const;
  void ChooseHomes(const std::vector<Slot>& slots, const Chores::Busy& busy,
                   Draft* draft) const;
  static void Choose(const Slot& slot, format::TargetId home, uint32_t home_max,
                     Draft* draft);
  void NoteWaiting(const std::vector<Slot>& slots);
  void NoteStuck(const Draft& draft);

  // --- rebuild_balance.cc: shards that had better move.
  bool BalanceIsDue() const;
  void Balance(const Chores::Busy& busy, Draft* draft);
  std::string WhyNoBalance(const format::ClusterMap& map) const;
  format::RebalanceRequest BalanceRequest(const format::ClusterMap& map,
                                          const format::Pool& pool) const;
  void TakeProposals(const format::Pool& pool,
                     const std::vector<format::SlotMove>& proposals,
                     const Chores::Busy& busy, Draft* draft) const;

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
  void NoteSwitched(const MoveId& id, const Move& move);

  // --- rebuild_report.cc: what is told of it.
  void NoteRate();
  void ReportRate(wire::RebuildStatus* status) const;
  void ReportProblems(wire::RebuildStatus* status) const;
  uint64_t CountMoves(Cause cause) const;

  Core* const core_;
  TargetOrders* const orders_;
  const HealthMonitor* const health_;
  const Chores* const chores_;

  std::map<MoveId, Move> moves_;
  // Shards without a move, in the newest round.
  uint64_t waiting_ = 0;
  uint64_t drain_waiting_ = 0;
  uint64_t balance_waiting_ = 0;
  std::string balance_waits_;          // Why.
  io::TimeNs next_balance_ = 0;        // Not before.
  format::Epoch balanced_;             // The map in which all is even.
  std::vector<std::string> problems_;  // Of the newest round.
  std::vector<std::string> found_;     // Of the one under way.
  uint64_t moved_shards_ = 0;
  uint64_t moved_bytes_ = 0;
  // When, and how many bytes had been made in all: for the rate.
  std::deque<std::pair<io::TimeNs, uint64_t>> samples_;
};

// "shard 2 of pg 1.17".
std::string NameOfShard(format::PgId pg, uint32_t shard);

}  // namespace cairn::server
