// One run of a scenario in which servers crash as a plan says.
//
// Up to its first crash a run does what every other run of its scenario and
// seed does, to the last event. What happens then: the crash; after a seeded
// pause all servers that are down are started again, while the action goes on;
// the next crash, counted from that start; and so on. Once all is up and the
// action has ended: the checks of the scenario, of all that was acknowledged,
// the action once more, a loss of power of all servers with everything that is
// not flushed and the checks again, and everything is deleted: nothing may be
// left.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "tests/sim/crash_points/monitor.h"
#include "tests/sim/crash_points/plan.h"
#include "tests/sim/crash_points/stage.h"

namespace cairn::sim {

struct CrashRunOptions {
  uint64_t seed = 1;
  CrashPlan plan;
  std::FILE* trace = nullptr;
  // Called with the cluster before the scenario prepares; may be null.
  std::function<void(SimCluster*)> spoil;
};

struct CrashRunResult {
  std::string violation;  // Empty: none.
  bool finished = false;  // The action did all that it wanted, by retrying.
  // Where the next crash may be: points after the last one of the plan.
  std::vector<CrashPoint> points;
  uint64_t operations = 0;  // That they are made of.
};

CrashRunResult RunCrashes(Scenario* scenario, const CrashRunOptions& options);

}  // namespace cairn::sim
