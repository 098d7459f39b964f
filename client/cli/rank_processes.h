// N rank processes of one save or load, started by the command and watched
// until all have ended.
//
// A rank is this very program with a hidden subcommand. It reports on file
// descriptor kReportFd, a line at a time: "P done total", "E message".
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace cairn::client::cli {

inline constexpr int kReportFd = 3;

struct RankRun {
  std::string label;  // Of the progress line.
  uint32_t ranks = 1;
  // Arguments of each rank after the program's name; "--rank N" is appended.
  std::vector<std::string> arguments;
};

struct RankOutcome {
  uint64_t bytes = 0;  // Sum over the ranks.
  double seconds = 0;  // Until the last one ended.
};

// Starts them, shows progress, waits for all. The first that fails ends the
// others (SIGTERM); its message is the error.
absl::StatusOr<RankOutcome> RunRanks(const RankRun& run);

// In a rank: tell the parent. Nothing happens without one.
void ReportProgress(uint64_t done, uint64_t total);
void ReportFailure(const absl::Status& status);

}  // namespace cairn::client::cli
