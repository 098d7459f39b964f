// HealthMonitor: asks every target in turn whether it is there, and keeps the
// states of the map in line with what it hears.
//
// Round trip: a heartbeat is a status call; only its answer counts.
// Bounds:     one heartbeat a target at a time, all targets beside each other.
// Maps:       all states that changed in a round are one new map, stored
//             before anybody is told; at most one in map_pause_ns. No row of a
//             PG table changes, so commits under way are not disturbed.
// Standstill: time in which the service itself did not run is nobody's silence.
// Brake:      what brake() says binds everything that acts on states by itself
//             (taking targets out, rebuilding). Going around targets that are
//             down is no such action.
// Threads:    one loop. Lifetime: as the Core; Loop() runs in its gate.
#pragma once

#include <map>
#include <set>
#include <string>

#include "server/cluster/target_orders.h"
#include "server/meta/core.h"
#include "server/meta/target_health.h"

namespace cairn::server {

class HealthMonitor {
 public:
  HealthMonitor(Core* core, TargetOrders* orders)
      : core_(core), orders_(orders) {}

  // Until core->stopping.
  io::Task<void> Loop();

  struct View {
    io::TimeNs in_state_ns = 0;  // For how long; as far as known.
    std::string reason;          // Why it is not up.
    bool answers = false;        // Its newest heartbeat was answered.
  };
  // Of a target of the map; empty before the first round.
  View Look(format::TargetId target) const;
  // Why nothing may happen by itself now; empty: it may.
  const std::string& brake() const { return brake_; }

 private:
  void FollowMap();
  void Round(io::Gate* asking);
  io::Task<void> Ask(format::TargetId target);
  io::Task<absl::Status> StoreChanges();
  void NoteStored(
      const std::map<format::TargetId, format::TargetState>& states);
  void CheckBrake();

  Core* const core_;
  TargetOrders* const orders_;
  std::map<format::TargetId, TargetHealth> targets_;
  std::set<format::TargetId> asking_;
  io::TimeNs last_round_ = 0;  // 0: none yet.
  io::TimeNs last_map_ = 0;
  std::string brake_;
};

// How many of `targets` may be down before the brake engages.
uint64_t BrakeLimit(const HealthOptions& options, uint64_t targets);

}  // namespace cairn::server
