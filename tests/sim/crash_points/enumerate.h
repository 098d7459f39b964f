// Runs a scenario once to find its crash points, then once for each way in
// which servers may crash there, or for an even sample of them.
//
// The environment of the test program says how much, and replays:
//   CAIRN_CRASH_POINTS=all            every case of every seed
//   CAIRN_CRASH_SEED=3                only this seed
//   CAIRN_CRASH_PLAN=17/one/some:5    only this run (plan.h); "": no crash
//   CAIRN_CRASH_TRACE=1               every event of the world, to stderr
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/sim/crash_points/stage.h"

namespace cairn::sim {

// How many cases to run for the first crash, for a second one during what
// follows each of those, and so on.
inline constexpr uint64_t kEveryCase = UINT64_MAX;
using Breadth = std::vector<uint64_t>;

struct EnumerateOptions {
  std::string scenario;  // Its name, for messages.
  std::function<std::unique_ptr<Scenario>()> make;
  // As part of `make test`: one seed, some cases. For all: more seeds.
  Breadth sample = {110};
  Breadth full = {kEveryCase, 1};
  uint64_t full_seeds = 2;
  // Called with each new cluster: to see that the enumeration objects.
  std::function<void(SimCluster*)> spoil;
  uint64_t violations_max = 3;  // Then it stops.
};

struct EnumerationReport {
  uint64_t seeds = 0;
  uint64_t operations = 0;  // Of the action without a crash, of all seeds.
  uint64_t points = 0;      // Likewise.
  uint64_t cases = 0;       // Ways to crash at those.
  uint64_t runs = 0;        // That were run, with what follows them.
  uint64_t nested = 0;      // Runs among them with more than one crash.
  uint64_t finished = 0;    // In so many the action did all that it wanted.
  // Each: scenario, seed, plan, what is wrong, how to replay it.
  std::vector<std::string> violations;
};
std::string ToString(const EnumerationReport& report);

EnumerationReport Enumerate(const EnumerateOptions& options);

}  // namespace cairn::sim
