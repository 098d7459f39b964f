// Acting between events, killing at each of them, and counting faults.
#include <set>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/sim/sim_env.h"
#include "tests/sim/world.h"
#include "tests/support/co_assert.h"

namespace cairn::sim {
namespace {

io::Task<void> SaveTwice(SimEnv* env, int* stage) {
  io::OpenOptions options;
  options.write = true;
  options.create = true;
  auto file = co_await env->OpenFile("/f", options);
  if (!file.ok()) co_return;
  ++*stage;
  const std::vector<uint8_t> bytes(512, 1);
  for (int i = 0; i < 2; ++i) {
    const absl::Status written = co_await (*file)->WriteAt(0, bytes);
    const absl::Status synced = co_await (*file)->Sync();
    if (written.ok() && synced.ok()) ++*stage;
  }
  const absl::Status closed = co_await (*file)->Close();
  EXPECT_OK(closed);
}

TEST(World, HookRunsBeforeEveryEvent) {
  World world({.seed = 1});
  SimEnv* const env = world.Start(world.AddNode());
  uint64_t calls = 0;
  world.OnEvent([&] { EXPECT_EQ(world.events_run(), calls++); });
  int stage = 0;
  world.Run(SaveTwice(env, &stage));
  EXPECT_EQ(stage, 3);
  EXPECT_EQ(calls, world.events_run());
  world.OnEvent(nullptr);
  const uint64_t before = calls;
  world.Run(SaveTwice(env, &stage));
  EXPECT_EQ(calls, before);
}

TEST(World, EachDiskOperationIsToldWithItsProcess) {
  World world({.seed = 1});
  SimEnv* const env = world.Start(world.AddNode());
  std::vector<Trace> told;
  world.OnNote([&](Trace what, uint64_t process) {
    if (what != Trace::kWrite && what != Trace::kSync) return;
    EXPECT_EQ(process, env->process());
    told.push_back(what);
  });
  int stage = 0;
  world.Run(SaveTwice(env, &stage));
  world.OnNote(nullptr);
  EXPECT_EQ(told, std::vector<Trace>({Trace::kWrite, Trace::kSync,
                                      Trace::kWrite, Trace::kSync}));
}

TEST(World, HookMayKillAtTheFirstDiskWrite) {
  World world({.seed = 1});
  SimEnv* const env = world.Start(world.AddNode());
  world.OnEvent([&] {
    if (world.noted(Trace::kWrite) == 1) world.Kill(env);
  });
  int stage = 0;
  world.Run(SaveTwice(env, &stage));
  EXPECT_EQ(stage, 1) << "opened, nothing acknowledged";
  EXPECT_EQ(world.noted(Trace::kWrite), 1u);
  EXPECT_EQ(world.faults().of(FaultKind::kKill), 1u);
}

// However far it came before, it unwinds, and has the same past.
TEST(World, ProcessCanBeKilledBeforeEachOfItsEvents) {
  uint64_t events = 0;
  {
    World world({.seed = 5});
    int stage = 0;
    world.Run(SaveTwice(world.Start(world.AddNode()), &stage));
    events = world.events_run();
  }
  ASSERT_GT(events, 5u);
  std::set<int> stages;
  int last = 0;
  for (uint64_t n = 1; n <= events; ++n) {
    World world({.seed = 5});
    SimEnv* const env = world.Start(world.AddNode());
    world.KillAt(env, n);
    int stage = 0;
    world.Run(SaveTwice(env, &stage));
    EXPECT_FALSE(env->alive()) << "event " << n;
    EXPECT_GE(stage, last);
    last = stage;
    stages.insert(stage);
  }
  EXPECT_EQ(stages, (std::set<int>{0, 1, 2, 3}));
}

TEST(World, KillAtCountsOnlyEventsOfItsProcessAndCanBeTakenBack) {
  World world({.seed = 5});
  SimEnv* const env = world.Start(world.AddNode());
  SimEnv* const other = world.Start(world.AddNode());
  int stage = 0;
  world.KillAt(env, 1);
  world.Run(SaveTwice(other, &stage));
  EXPECT_TRUE(env->alive());
  world.KillAt(env, 0);
  world.Run(SaveTwice(env, &stage));
  EXPECT_TRUE(env->alive());
  EXPECT_EQ(stage, 6);
}

io::Task<void> WaitForEvent(io::Event* event, io::TimeNs deadline,
                            io::WaitResult* result) {
  *result = co_await event->Wait(deadline);
}

TEST(World, HookMayTakeAwayTheEventThatWasNext) {
  World world({.seed = 1});
  SimEnv* const env = world.Start(world.AddNode());
  io::Gate gate(&world);
  io::Event event(env);
  io::WaitResult result = io::WaitResult::kCancelled;
  gate.Spawn(WaitForEvent(&event, env->NowNs() + io::kSecond, &result));
  world.OnEvent([&] { event.Set(); });  // Before the deadline's timer.
  world.RunUntilIdle();
  EXPECT_EQ(result, io::WaitResult::kWoken);
}

TEST(World, FaultsArePartOfTheTrace) {
  World quiet({.seed = 1});
  World faulty({.seed = 1});
  for (World* const world : {&quiet, &faulty}) {
    world->AddNode();
    EXPECT_EQ(world->faults().total(), 0u);
  }
  EXPECT_EQ(quiet.trace_hash(), faulty.trace_hash());
  faulty.Fired(FaultKind::kStaleRead, 7);
  EXPECT_NE(quiet.trace_hash(), faulty.trace_hash());
  EXPECT_EQ(faulty.faults().Table(), "stale-read 1\n");
}

TEST(FaultKind, EveryKindHasItsOwnName) {
  std::set<std::string> names;
  for (size_t i = 0; i < kFaultKinds; ++i) {
    names.insert(std::string(NameOf(static_cast<FaultKind>(i))));
  }
  EXPECT_EQ(names.size(), kFaultKinds);
  EXPECT_EQ(NameOf(FaultKind::kTornWrite), "torn-write");
  EXPECT_EQ(NameOf(FaultKind::kHalfOpen), "half-open");
  EXPECT_EQ(NameOf(FaultKind::kClockDrift), "clock-drift");
}

}  // namespace
}  // namespace cairn::sim
