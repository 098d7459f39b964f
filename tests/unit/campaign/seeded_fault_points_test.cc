#include "tests/sim/campaign/seeded_fault_points.h"

#include <sys/wait.h>

#include <algorithm>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "spdlog/spdlog.h"
#include "tests/fault_points/list.h"
#include "tests/sim/campaign/campaign.h"
#include "tests/sim/campaign/seed_process.h"
#include "tests/sim/campaign/summary.h"
#include "tests/sim/world.h"

namespace cairn::sim {
namespace {

using ::testing::Contains;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr std::string_view kFull = "target.put.full";  // One that may fail.

size_t NumberOf(std::string_view name) {
  const auto points = AllFaultPoints();
  const auto found =
      std::ranges::find(points, name, [](const auto& p) { return p.name; });
  return static_cast<size_t>(found - points.begin());
}

class SeededFaultPointsTest : public ::testing::Test {
 protected:
  SeededFaultPointsTest() { spdlog::set_level(spdlog::level::off); }

  // Which calls fire if every point is come by that often, in turn.
  std::vector<bool> FireAll(uint64_t seed, int rounds, bool may_fail = true) {
    SeededFaultPoints points(seed);
    points.Arm(&world_, &log_, may_fail);
    std::vector<bool> fired;
    for (int round = 0; round < rounds; ++round) {
      for (const NamedPoint& point : AllFaultPoints()) {
        fired.push_back(FaultPointFires(point.name));
      }
    }
    counts_ = points.counts();
    return fired;
  }

  World world_{WorldOptions()};
  AttackLog log_{&world_};
  PointCounts counts_;
};

TEST_F(SeededFaultPointsTest, SameSeedFiresTheSameAndAnotherSeedOthers) {
  const std::vector<bool> fired = FireAll(7, 50);
  EXPECT_EQ(fired, FireAll(7, 50));
  EXPECT_NE(fired, FireAll(8, 50));
}

TEST_F(SeededFaultPointsTest, EachPointIsOnInSomeSeedsAndOffInMost) {
  std::vector<int> seeds(AllFaultPoints().size());
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    FireAll(seed, 1000);
    for (size_t i = 0; i < seeds.size(); ++i) seeds[i] += counts_.fired[i] > 0;
  }
  for (size_t i = 0; i < seeds.size(); ++i) {
    SCOPED_TRACE(AllFaultPoints()[i].name);
    EXPECT_GE(seeds[i], 5);
    EXPECT_LE(seeds[i], 70);
  }
}

TEST_F(SeededFaultPointsTest, PointsCountWhenDisarmedButDoNotFire) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    SeededFaultPoints points(seed);
    points.Arm(&world_, &log_, true);
    points.Disarm();
    for (const NamedPoint& point : AllFaultPoints()) {
      EXPECT_FALSE(FaultPointFires(point.name));
    }
    SometimesReached(AllSometimes().front().name);
    EXPECT_THAT(points.counts().reached, Each(1));
    EXPECT_THAT(points.counts().fired, Each(0));
    EXPECT_EQ(points.counts().sometimes.front(), 1);
  }
}

TEST_F(SeededFaultPointsTest, PointsThatMayFailStayOffInSeedsWithoutFaults) {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    log_.Settle();
    FireAll(seed, 3000, /*may_fail=*/false);
    EXPECT_EQ(counts_.fired[NumberOf(kFull)], 0);
  }
  EXPECT_TRUE(log_.QuietSince(1));
  uint64_t fired = 0;
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    FireAll(seed, 3000, /*may_fail=*/true);
    fired += counts_.fired[NumberOf(kFull)];
  }
  EXPECT_GT(fired, 0);
}

TEST_F(SeededFaultPointsTest, FullTargetOfAPointIsAnExcuseLikeAFullDisk) {
  EXPECT_FALSE(log_.WasFull());
  uint64_t seed = 0;
  do {
    FireAll(++seed, 3000);
  } while (counts_.fired[NumberOf(kFull)] == 0);
  EXPECT_TRUE(log_.WasFull());
  EXPECT_FALSE(log_.QuietSince(world_.NowNs()));
}

TEST_F(SeededFaultPointsTest, NothingFiresWhenNoneAreInstalled) {
  FireAll(1, 1);
  EXPECT_FALSE(FaultPointFires(kFull));
  SometimesReached(AllSometimes().front().name);
}

TEST(SummaryTest, PointThatNeverFiredIsNamedWithItsSource) {
  SeedOutcome outcome;
  outcome.result.emplace();
  PointCounts& counts = outcome.result->point_counts;
  counts.reached.assign(AllFaultPoints().size(), 9);
  counts.fired.assign(AllFaultPoints().size(), 2);
  counts.sometimes.assign(AllSometimes().size(), 1);
  Summary whole;
  whole.Add(outcome);
  EXPECT_THAT(whole.NeverReached(), IsEmpty());
  EXPECT_THAT(whole.ToString(), Not(HasSubstr("NEVER")));

  counts.fired[NumberOf(kFull)] = 0;
  counts.sometimes.back() = 0;
  Summary idle;
  idle.Add(outcome);
  const std::vector<std::string> never = idle.NeverReached();
  EXPECT_EQ(never.size(), 2);
  EXPECT_THAT(never, Contains("target.put.full (server/target/local_store.cc) "
                              "did not fire"));
  EXPECT_THAT(never,
              Contains(HasSubstr(std::string(AllSometimes().back().name))));
  EXPECT_THAT(idle.ToString(), HasSubstr("NEVER IN THESE SEEDS (2)"));
  // Another seed makes up for it.
  counts.fired[NumberOf(kFull)] = 1;
  counts.sometimes.back() = 3;
  idle.Add(outcome);
  EXPECT_THAT(idle.NeverReached(), IsEmpty());
}

// Also that all counts come through the pipe.
TEST_F(SeededFaultPointsTest, SeedInAChildEndsAsInThisProcess) {
  CampaignOptions options;
  options.seed = 12;
  const CampaignResult here = RunCampaign(options);
  SeedProcess child(options.seed, SeedOptions());
  int status = 0;
  ASSERT_EQ(waitpid(child.pid(), &status, 0), child.pid());
  const SeedOutcome outcome = child.Collect(status);
  ASSERT_TRUE(outcome.result.has_value()) << outcome.failure;
  EXPECT_EQ(outcome.result->trace_hash, here.trace_hash);
  EXPECT_EQ(outcome.result->attack_counts, here.attack_counts);
  EXPECT_EQ(outcome.result->fault_counts, here.fault_counts);
  EXPECT_EQ(outcome.result->points, here.points);
  EXPECT_EQ(outcome.result->point_counts.reached, here.point_counts.reached);
  EXPECT_EQ(outcome.result->point_counts.fired, here.point_counts.fired);
  EXPECT_EQ(outcome.result->point_counts.sometimes,
            here.point_counts.sometimes);
}

}  // namespace
}  // namespace cairn::sim
