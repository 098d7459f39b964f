// The checkpoint workload: series of saves, each by several rank processes;
// ranks that die, are replaced or are fenced by a new attempt that starts while
// the old one still runs; sets that are loaded, removed and saved again.
//
// Lifetime: the context outlives Run().
#pragma once

#include <string>
#include <vector>

#include "tests/sim/campaign/context.h"

namespace cairn::sim {

struct SetAttempt;

class CheckpointWorkload {
 public:
  CheckpointWorkload(Context* context, Random random)
      : context_(context), random_(random) {}

  // All series, beside each other, until they are done or the campaign stops.
  io::Task<void> Run();

 private:
  struct Series;
  struct RankRun;

  static io::Task<void> RunSeries(Context* context, Series series);
  static io::Task<void> SaveOne(Series* series, std::string path);
  static io::Task<void> RunAttempt(Series* series, SetAttempt* attempt);
  static io::Task<void> RunRank(RankRun run);
  static io::Task<void> DieLater(RankRun* run, SimClient* client,
                                 io::CancelToken* ended);
  static io::Task<void> LoadOne(Series* series, std::string path);
  static io::Task<void> RemoveOne(Series* series);
  static std::string NextPath(Series* series);

  Context* const context_;
  Random random_;
};

}  // namespace cairn::sim
