// The whole cluster from one seed: a run can be repeated to the last event.
#include "tests/unit/client/cluster_fixture.h"

namespace cairn::client {
namespace {

class DeterminismTest : public ClusterTest {
 protected:
  struct Run {
    uint64_t hash = 0;
    uint64_t events = 0;
    io::TimeNs end = 0;
    friend bool operator==(const Run&, const Run&) = default;
  };
  // A save with deaths of all kinds, and a load.
  Run SaveWithDeaths(uint64_t seed) {
    sim::ClusterOptions options;
    options.seed = seed;
    options.targets = 4;
    options.world.shuffle_ready = true;
    MakeCluster(options);
    MakeModel(seed, format::kMiB);
    StartSaves(3);
    cluster_->Sleep(20 * io::kMillisecond);
    cluster_->KillTarget(1);
    cluster_->CrashMeta();
    cluster_->Sleep(cluster_->random()->Below(io::kSecond));
    EXPECT_OK(cluster_->Await(cluster_->StartMeta()));
    EXPECT_OK(cluster_->Await(cluster_->StartTarget(1)));
    cluster_->CrashTarget(2);
    cluster_->Sleep(cluster_->random()->Below(io::kSecond));
    EXPECT_OK(cluster_->Await(cluster_->StartTarget(2)));
    ExpectAllSaved();
    cluster_->KillTarget(3);
    EXPECT_OK(Load(cluster_->NewClient("reader"), 2));
    const sim::World& world = *cluster_->world();
    return {world.trace_hash(), world.events_run(), cluster_->world()->NowNs()};
  }
};

TEST_F(DeterminismTest, OneSeedGivesOneTraceAndAnotherGivesAnother) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    const Run first = SaveWithDeaths(seed);
    const Run again = SaveWithDeaths(seed);
    // In the XML report, to compare runs of the program and its builds.
    RecordProperty(absl::StrCat("trace_of_seed_", seed),
                   absl::StrCat(first.hash));
    EXPECT_EQ(first.hash, again.hash);
    EXPECT_EQ(first.events, again.events);
    EXPECT_EQ(first.end, again.end);
    EXPECT_NE(first.hash, SaveWithDeaths(seed + 100).hash);
  }
}

}  // namespace
}  // namespace cairn::client
