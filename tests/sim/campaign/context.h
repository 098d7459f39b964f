// Context: what all parts of one campaign share.
//
// Lifetime: outlives every task of the campaign.
#pragma once

#include <string>

#include "tests/sim/campaign/fault_kind.h"
#include "tests/sim/campaign/judge.h"
#include "tests/sim/campaign/tunables.h"
#include "tests/sim/cluster/sim_cluster.h"

namespace cairn::sim {

class ClientPool;
class FileLedger;
class SetLedger;

struct Context {
  const Tunables* tunables = nullptr;
  SimCluster* cluster = nullptr;
  Judge* judge = nullptr;
  FaultLog* faults = nullptr;
  ClientPool* clients = nullptr;
  SetLedger* sets = nullptr;
  FileLedger* files = nullptr;
  bool stopping = false;  // Workloads begin nothing new.
  uint64_t operations = 0;
  uint64_t loads = 0;

  World* world() const { return cluster->world(); }
  io::TimeNs now() const { return cluster->world()->NowNs(); }
};

// Whether an operation that started at `started` may have failed with `status`
// because something was broken lately: a lost connection, a missed deadline, a
// lost session. Everything else is for the caller to judge.
bool Excused(const Context& context, io::TimeNs started,
             const absl::Status& status);

// Reports `status` unless it is excused. `what` says who did what.
void JudgeError(const Context& context, io::TimeNs started,
                const absl::Status& status, const std::string& what);

}  // namespace cairn::sim
