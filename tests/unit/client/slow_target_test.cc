// One target answers all it is asked, but takes a hundred times as long as the
// others: saves and loads hardly notice.
#include "tests/unit/client/cluster_fixture.h"

namespace cairn::client {
namespace {

constexpr uint64_t kTimesAsSlow = 100;

class SlowTargetTest : public ClusterTest {
 protected:
  void Make(const char* scheme, uint32_t targets, uint64_t seed,
            io::TimeNs latency = 80 * io::kMillisecond) {
    sim::ClusterOptions options;
    options.seed = seed;
    options.scheme = scheme;
    options.targets = targets;
    // So long that what one slow call costs is small beside it.
    options.client_write_window_bytes = format::kMiB;
    options.client_read_window_bytes = format::kMiB;
    options.world.disk.latency_ns_min = latency / 4;
    options.world.disk.latency_ns_max = latency;
    options.world.disk.sync_ns_max = latency;
    MakeCluster(options);
    MakeModel(seed, 24 * format::kMiB);
  }
  void MakeSlow(uint32_t target) {
    cluster_->world()->SlowDisk(cluster_->TargetNode(target), kTimesAsSlow);
  }
  io::TimeNs TimeOfSave(uint64_t attempt) {
    const io::TimeNs begin = cluster_->world()->NowNs();
    Rank* const rank = StartSave(RankOptions(0, 1, attempt));
    ExpectAllSaved();
    slow_calls_ += rank->client->core()->counters()->slow_calls;
    return cluster_->world()->NowNs() - begin;
  }
  io::TimeNs TimeOfLoad(sim::SimClient* client) {
    const io::TimeNs begin = cluster_->world()->NowNs();
    EXPECT_OK(Load(client));
    return cluster_->world()->NowNs() - begin;
  }
  uint64_t slow_calls_ = 0;
};

TEST_F(SlowTargetTest, SaveTakesHalfAsLongAgainAtMost) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    Make("rs:4+2", 8, seed);
    const io::TimeNs healthy = TimeOfSave(1);
    EXPECT_EQ(slow_calls_, 0u);
    Make("rs:4+2", 8, seed);
    MakeSlow(3);
    const io::TimeNs with_slow = TimeOfSave(1);
    EXPECT_LE(with_slow, healthy + healthy / 2);
    EXPECT_GT(std::exchange(slow_calls_, 0), 0u);
    EXPECT_OK(Load(cluster_->NewClient("reader")));
  }
}

TEST_F(SlowTargetTest, LoadGoesAroundIt) {
  for (const auto& [scheme, targets] :
       {std::pair("rs:4+2", 6), std::pair("replicate:2", 4)}) {
    SCOPED_TRACE(scheme);
    Make(scheme, static_cast<uint32_t>(targets), 1);
    (void)TimeOfSave(1);
    const io::TimeNs healthy = TimeOfLoad(cluster_->NewClient("before"));
    MakeSlow(2);
    sim::SimClient* const reader = cluster_->NewClient("reader");
    EXPECT_LE(TimeOfLoad(reader), 3 * healthy);
    EXPECT_GT(reader->core()->counters()->slow_calls, 0u);
  }
}

// Every stripe needs it: there is nothing to be gained by impatience. (What
// takes so long that an attempt is given up is sent again, though.)
TEST_F(SlowTargetTest, SaveThatCannotDoWithoutItSendsNothingTwice) {
  Make("rs:2+1", 3, 1, 6 * io::kMillisecond);
  MakeModel(1, format::kMiB);
  MakeSlow(1);
  Rank* const rank = StartSave(RankOptions(0, 1));
  ExpectAllSaved();
  EXPECT_EQ(rank->client->core()->counters()->retries, 0u);
  EXPECT_EQ(rank->client->core()->counters()->stripes_moved, 0u);
}

// They are slow, but so are all.
TEST_F(SlowTargetTest, TargetsThatAreAllSlowAreAllWaitedFor) {
  Make("rs:4+2", 8, 1, 6 * io::kMillisecond);
  MakeModel(1, 2 * format::kMiB);
  for (uint32_t target = 1; target <= 8; ++target) MakeSlow(target);
  Rank* const rank = StartSave(RankOptions(0, 1));
  ExpectAllSaved();
  EXPECT_LE(rank->client->core()->counters()->stripes_moved, 4u);
}

}  // namespace
}  // namespace cairn::client
