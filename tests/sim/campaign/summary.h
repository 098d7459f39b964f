// Summary: what many seeds add up to, and the table of it.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/sim/campaign/seed_process.h"

namespace cairn::sim {

class Summary {
 public:
  void Add(const SeedOutcome& outcome);
  uint64_t seeds() const { return seeds_; }
  uint64_t failed() const { return failed_; }
  std::string ToString() const;
  // Fault points that never fired, and "sometimes" that never were true.
  std::vector<std::string> NeverReached() const;

 private:
  std::string PointsToString() const;

  uint64_t seeds_ = 0;
  uint64_t failed_ = 0;
  std::vector<double> real_seconds_;
  double virtual_seconds_ = 0;
  uint64_t events_ = 0;
  uint64_t operations_ = 0;
  uint64_t loads_ = 0;
  uint64_t broken_all_ways_ = 0;  // A crash, a network and a disk fault.
  std::array<uint64_t, kAttacks> attacks_{};
  std::array<uint64_t, kFaultKinds> faults_{};
  PointCounts points_;
};

}  // namespace cairn::sim
