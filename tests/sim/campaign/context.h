// Context: what all parts of one campaign share.
//
// Lifetime: outlives every task of the campaign.
#pragma once

#include <set>
#include <string>

#include "tests/sim/campaign/attack.h"
#include "tests/sim/campaign/judge.h"
#include "tests/sim/campaign/tunables.h"
#include "tests/sim/cluster/sim_cluster.h"

namespace cairn::sim {

class ClientPool;
class FileLedger;
class SeededFaultPoints;
class SetLedger;

struct Context {
  const Tunables* tunables = nullptr;
  SimCluster* cluster = nullptr;
  Judge* judge = nullptr;
  AttackLog* faults = nullptr;
  SeededFaultPoints* points = nullptr;
  ClientPool* clients = nullptr;
  SetLedger* sets = nullptr;
  FileLedger* files = nullptr;
  // Targets that damage has made unusable for good: writes cannot succeed any
  // more, and what was ordered to be deleted may be left.
  std::set<uint32_t> ruined;
  // Targets that the nemesis has lost for good; others take their place.
  std::set<uint32_t> lost;
  bool stopping = false;  // Workloads begin nothing new.
  uint64_t operations = 0;
  uint64_t loads = 0;

  World* world() const { return cluster->world(); }
  io::TimeNs now() const { return cluster->world()->NowNs(); }
};

// The least that a grace time of the service lasts, though its clock drifts.
inline io::TimeNs Grace(uint64_t ms) { return ms * io::kMillisecond * 9 / 10; }

// From the end of a fault until the map says that every target is up, at most.
io::TimeNs TimeUntilUp(const Context& context);

// Whether an operation that started at `started` may have failed with `status`
// because something was broken lately: a lost connection, a missed deadline, a
// lost session. Everything else is for the caller to judge.
bool Excused(const Context& context, io::TimeNs started,
             const absl::Status& status);

// Reports `status` unless it is excused. `what` says who did what.
void JudgeError(const Context& context, io::TimeNs started,
                const absl::Status& status, const std::string& what);

}  // namespace cairn::sim
