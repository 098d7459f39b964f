// SeedProcess: one campaign in a child process, so that a failed check, a
// sanitizer's abort or a deadlock is one failed seed and not the end of all.
//
// Threads: fork()s; the parent has one thread.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

#include "tests/sim/campaign/campaign.h"

namespace cairn::sim {

struct SeedOutcome {
  uint64_t seed = 0;
  std::string failure;  // Empty: the seed passed.
  std::string output;   // What the child said on standard error.
  // Absent if the child died.
  std::optional<CampaignResult> result;
  double real_seconds = 0;
};

struct SeedOptions {
  uint32_t limit_seconds = 120;  // A child that runs for longer is killed.
  bool fault_points = true;      // Fire.
};

class SeedProcess {
 public:
  // Starts it.
  SeedProcess(uint64_t seed, SeedOptions options);
  SeedProcess(const SeedProcess&) = delete;
  SeedProcess& operator=(const SeedProcess&) = delete;
  ~SeedProcess();

  pid_t pid() const { return pid_; }
  // After waitpid() gave `wait_status` for it.
  SeedOutcome Collect(int wait_status);

 private:
  const uint64_t seed_;
  pid_t pid_ = -1;
  int output_ = -1;  // An unlinked file: the child's standard error.
  int result_ = -1;  // Another: its result.
  double started_ = 0;
};

}  // namespace cairn::sim
