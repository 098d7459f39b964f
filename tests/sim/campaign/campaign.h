// A campaign: one seed's whole life. A cluster is made, workloads run on it
// while faults are fired; then everything is healed, must finish, and is
// checked.
//
// Determinism: the same seed gives the same trace hash.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

#include "tests/sim/campaign/attack.h"
#include "tests/sim/campaign/judge.h"
#include "tests/sim/campaign/seeded_fault_points.h"
#include "tests/sim/fault_kind.h"

namespace cairn::sim {

struct CampaignOptions {
  uint64_t seed = 1;
  bool fault_points = true;    // False: none fires.
  std::FILE* trace = nullptr;  // Every event of the world; null: none.
  // Hears of the first violation while the world still stands; after it the
  // campaign ends as soon as it can.
  Judge::Handler on_violation = [](const std::string&) {};
};

struct CampaignResult {
  std::string violation;  // Empty: none.
  std::string tunables;
  std::string attacks;  // In words.
  std::string points;   // Fault points: how often each fired and was reached.
  std::array<uint64_t, kAttacks> attack_counts{};
  std::array<uint64_t, kFaultKinds> fault_counts{};  // Of World::faults().
  PointCounts point_counts;
  uint64_t trace_hash = 0;
  uint64_t events = 0;
  uint64_t operations = 0;  // Acknowledged: saves, writes, names.
  uint64_t loads = 0;       // Reads that were compared.
  double virtual_seconds = 0;
};

CampaignResult RunCampaign(const CampaignOptions& options);

}  // namespace cairn::sim
