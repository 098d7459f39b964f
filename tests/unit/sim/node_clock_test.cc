#include "tests/sim/node_clock.h"

#include <vector>

#include "gtest/gtest.h"
#include "tests/sim/random.h"
#include "tests/sim/sim_env.h"
#include "tests/sim/world.h"

namespace cairn::sim {
namespace {

constexpr io::TimeNs kHour = 3600 * io::kSecond;

TEST(NodeClock, DriftGainsItsPartsPerMillion) {
  NodeClock fast;
  NodeClock slow;
  fast.SetDrift(0, 50'000);
  slow.SetDrift(0, -50'000);
  EXPECT_EQ(fast.ToLocal(kHour), kHour / 100 * 105);
  EXPECT_EQ(slow.ToLocal(kHour), kHour / 100 * 95);
}

TEST(NodeClock, ChangeOfDriftDoesNotJump) {
  NodeClock clock;
  clock.SetDrift(0, 50'000);
  const io::TimeNs before = clock.ToLocal(kHour);
  clock.SetDrift(kHour, -30'000);
  EXPECT_EQ(clock.ToLocal(kHour), before);
  EXPECT_EQ(clock.ToLocal(2 * kHour), before + kHour / 100 * 97);
}

// A timer that fired early would be set again at the same instant, for ever.
TEST(NodeClock, DeadlineIsReachedExactlyWhenItsTimerFires) {
  Random random(1);
  for (int i = 0; i < 10'000; ++i) {
    NodeClock clock;
    const auto drift = static_cast<int64_t>(random.Below(400'001)) - 200'000;
    const io::TimeNs start = random.Below(kHour);
    clock.SetDrift(start, drift);
    const io::TimeNs deadline = clock.ToLocal(start) + random.Below(kHour);
    const io::TimeNs fires = clock.ToWorld(deadline);
    EXPECT_GE(clock.ToLocal(fires), deadline);
    if (fires > start) EXPECT_LT(clock.ToLocal(fires - 1), deadline);
  }
}

TEST(NodeClock, NoDeadlineStaysNone) {
  NodeClock clock;
  clock.SetDrift(0, -50'000);
  EXPECT_EQ(clock.ToWorld(io::kNoDeadline), io::kNoDeadline);
}

TEST(NodeClock, WallClockJumpsBothWaysAndStopsAt1970) {
  NodeClock clock;
  EXPECT_EQ(clock.Wall(5), NodeClock::kWallBaseNs + 5);
  clock.JumpWall(static_cast<int64_t>(kHour));
  EXPECT_EQ(clock.Wall(5), NodeClock::kWallBaseNs + kHour + 5);
  clock.JumpWall(-2 * static_cast<int64_t>(kHour));
  EXPECT_EQ(clock.Wall(5), NodeClock::kWallBaseNs - kHour + 5);
  clock.SetWall(5, 0);
  EXPECT_EQ(clock.Wall(5), 0u);
  EXPECT_EQ(clock.Wall(25), 20u);
  clock.JumpWall(-static_cast<int64_t>(kHour));
  EXPECT_EQ(clock.Wall(25), 0u);
}

io::Task<void> NoteWake(World* world, SimEnv* env, io::TimeNs duration,
                        std::vector<io::TimeNs>* times) {
  co_await io::SleepFor(env, duration);
  times->push_back(world->NowNs());
}

TEST(NodeClock, SleepsOfANodeLastAsItsClockSays) {
  World world({.seed = 1});
  SimEnv* const fast = world.Start(world.AddNode());
  SimEnv* const slow = world.Start(world.AddNode());
  const io::TimeNs start = world.NowNs();
  world.SetClockDrift(fast->node(), 50'000);
  world.SetClockDrift(slow->node(), -50'000);
  io::Gate gate(&world);
  std::vector<io::TimeNs> times;
  gate.Spawn(NoteWake(&world, slow, 95 * io::kSecond, &times));
  gate.Spawn(NoteWake(&world, fast, 105 * io::kSecond, &times));
  world.RunUntilIdle();
  ASSERT_EQ(times.size(), 2u);
  EXPECT_EQ(times[0], start + 100 * io::kSecond);
  EXPECT_EQ(times[1], start + 100 * io::kSecond);
  EXPECT_EQ(fast->NowNs() - slow->NowNs(), 10 * io::kSecond);
  EXPECT_EQ(world.faults().of(FaultKind::kClockDrift), 2u);
}

TEST(NodeClock, WallJumpOfANodeIsItsOwnAndMovesNoTimer) {
  World world({.seed = 1});
  SimEnv* const env = world.Start(world.AddNode());
  SimEnv* const other = world.Start(world.AddNode());
  const io::TimeNs start = world.NowNs();
  io::Gate gate(&world);
  std::vector<io::TimeNs> times;
  gate.Spawn(NoteWake(&world, env, io::kSecond, &times));
  world.JumpWallClock(env->node(), static_cast<int64_t>(kHour));
  EXPECT_EQ(env->WallNs(), other->WallNs() + kHour);
  world.SetWallClock(env->node(), 0);
  EXPECT_EQ(env->WallNs(), 0u);
  world.RunUntilIdle();
  ASSERT_EQ(times.size(), 1u);
  EXPECT_EQ(times[0], start + io::kSecond);
  EXPECT_EQ(world.faults().of(FaultKind::kWallClockJump), 2u);
}

}  // namespace
}  // namespace cairn::sim
