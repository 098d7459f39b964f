// Membership: which processes serve the targets, and where. Targets join here
// (Register), get their ids here (Allocate), and operators add, drain and
// remove them here (Change). The rule of joining is join_judge.h.
//
// Addresses:  those of the processes that were let in are laid over the map in
//             memory and kept in the store: they raise no epoch. Host, rack,
//             directory and capacity are in the map: a change makes a new one.
// Durability: an answer tells only what is on stable storage.
// Quarantine: who was turned away is kept in the store until the place that it
//             came from joins properly, or an operator has it forgotten; at
//             most kQuarantinedMax places.
// Threads:    one loop. Lifetime: as the Core; Load() first.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "format/wire/member.pb.h"
#include "format/wire/meta.pb.h"
#include "server/cluster/target_orders.h"
#include "server/meta/core.h"
#include "server/meta/join_judge.h"

namespace cairn::server {

class Membership {
 public:
  Membership(Core* core, TargetOrders* orders) : core_(core), orders_(orders) {}

  // Errors: damaged records.
  io::Task<absl::Status> Load();

  // What a process that claims to be a target may do: RegisterTargetResponse.
  // kInvalidArgument: a request that cannot be. kFailedPrecondition: the
  // target has seen newer metadata than this store has. kUnavailable: ask
  // again.
  io::Task<absl::StatusOr<wire::RegisterTargetResponse>> Register(
      wire::RegisterTargetRequest request);
  // An id that was never given before; the same one for the same nonce.
  io::Task<absl::StatusOr<wire::AllocateTargetResponse>> Allocate(
      wire::AllocateTargetRequest request);
  io::Task<absl::StatusOr<wire::ListTargetsResponse>> List(
      wire::ListTargetsRequest request);
  // kNotFound: no such target. kFailedPrecondition: not in this state; says
  // what to do first.
  io::Task<absl::StatusOr<wire::ChangeTargetResponse>> Change(
      wire::ChangeTargetRequest request);

  void AddQuarantined(wire::ClusterStatusResponse* response) const;

 private:
  using Place = std::pair<format::TargetId, uint64_t>;

  // --- Joining (membership.cc).
  // Null: unknown. A target of a map from before there were members counts as
  // known by what it says the first time.
  const store::Member* Known(const wire::RegisterTargetRequest& request,
                             store::Member* adopted) const;
  io::Task<bool> HolderAlive(format::TargetId target, uint64_t incarnation);
  io::Task<absl::Status> CheckSequence(uint64_t target, uint64_t sequence);
  io::Task<absl::StatusOr<JoinDecision>> Decide(
      const wire::RegisterTargetRequest* request);
  io::Task<absl::Status> StoreMember(const wire::RegisterTargetRequest* request,
                                     const JoinDecision* decision);
  io::Task<absl::Status> Follow(format::TargetId target);
  // Memory follows what is stored.
  void TakeOver(format::TargetId target, const store::Member& member);
  void SpreadAddress(format::TargetId target, const store::Member& member);
  io::Task<absl::Status> NoteQuarantine(
      const wire::RegisterTargetRequest* request, const JoinDecision* decision);

  // --- What operators ask (membership_change.cc).
  io::Task<absl::StatusOr<bool>> Apply(format::TargetId target,
                                       format::TargetChange change);
  io::Task<absl::StatusOr<bool>> Add(format::TargetId target);
  io::Task<absl::StatusOr<bool>> Remove(format::TargetId target);
  io::Task<absl::StatusOr<bool>> Forget(format::TargetId target);
  wire::AllocateTargetResponse AllocatedId(format::TargetId id) const;
  wire::Member View(format::TargetId target, uint64_t rows) const;

  Core* const core_;
  TargetOrders* const orders_;
  // As stored.
  std::map<format::TargetId, store::Member> members_;
  std::map<Place, store::Quarantine> quarantined_;
};

}  // namespace cairn::server
