#include "client/core/core.h"

#include <algorithm>
#include <vector>

#include "gtest/gtest.h"
#include "tests/sim/sim_env.h"
#include "tests/sim/world.h"

namespace cairn::client {
namespace {

using io::Task;
using io::TimeNs;

TEST(MutationIds, AscendFromOne) {
  MutationIds ids;
  EXPECT_EQ(ids.DoneBelow(), 1u);
  EXPECT_EQ(ids.Take(), 1u);
  EXPECT_EQ(ids.Take(), 2u);
  EXPECT_EQ(ids.Take(), 3u);
}

TEST(MutationIds, NothingIsForgottenFromTheOldestUnansweredOn) {
  MutationIds ids;
  const uint64_t first = ids.Take();
  const uint64_t second = ids.Take();
  const uint64_t third = ids.Take();
  ids.Done(second);
  EXPECT_EQ(ids.DoneBelow(), first);
  ids.Done(first);
  EXPECT_EQ(ids.DoneBelow(), third);
  ids.Done(third);
  EXPECT_EQ(ids.DoneBelow(), third + 1);
}

TEST(MutationIds, AnsweredIdsAreNotGivenOutAgain) {
  MutationIds ids;
  ids.Done(ids.Take());
  EXPECT_EQ(ids.Take(), 2u);
  EXPECT_EQ(ids.DoneBelow(), 2u);
}

// The lengths of `count` pauses, or fewer when one gives false.
Task<void> PauseOften(io::Env* env, Backoff* backoff, int count,
                      std::vector<TimeNs>* pauses) {
  for (int i = 0; i < count; ++i) {
    const TimeNs before = env->NowNs();
    const bool slept = co_await backoff->Pause();
    if (!slept) co_return;
    pauses->push_back(env->NowNs() - before);
  }
}

std::vector<TimeNs> Pauses(uint64_t seed, TimeNs timeout_ns, int count) {
  sim::World world({.seed = seed});
  sim::SimEnv* const env = world.Start(world.AddNode());
  Backoff backoff(env, env->NowNs() + timeout_ns);
  std::vector<TimeNs> pauses;
  world.Run(PauseOften(env, &backoff, count, &pauses));
  return pauses;
}

TEST(Backoff, PausesDoubleUpToTheLongestWithJitterOfAHalf) {
  const std::vector<TimeNs> pauses = Pauses(3, 1000 * io::kSecond, 20);
  ASSERT_EQ(pauses.size(), 20u);
  TimeNs longest = kRetryPauseMin;
  for (const TimeNs pause : pauses) {
    EXPECT_GE(pause, longest / 2);
    EXPECT_LE(pause, longest);
    longest = std::min(2 * longest, kRetryPauseMax);
  }
}

TEST(Backoff, ClientsThatFailTogetherDoNotComeBackTogether) {
  EXPECT_NE(Pauses(3, io::kSecond, 3), Pauses(4, io::kSecond, 3));
}

Task<void> PauseOnce(Backoff* backoff, bool* slept) {
  *slept = co_await backoff->Pause();
}

TEST(Backoff, PauseThatWouldEndAfterTheDeadlineIsNotBegun) {
  sim::World world({.seed = 1});
  sim::SimEnv* const env = world.Start(world.AddNode());
  const TimeNs now = env->NowNs();
  Backoff backoff(env, now + kRetryPauseMin / 2);
  bool slept = true;
  world.Run(PauseOnce(&backoff, &slept));
  EXPECT_FALSE(slept);
  EXPECT_EQ(env->NowNs(), now);
  EXPECT_EQ(backoff.attempts(), 1);
}

TEST(Backoff, NoPauseEndsAfterTheDeadlineAndAttemptsAreCounted) {
  sim::World world({.seed = 1});
  sim::SimEnv* const env = world.Start(world.AddNode());
  const TimeNs deadline = env->NowNs() + io::kSecond;
  Backoff backoff(env, deadline);
  std::vector<TimeNs> pauses;
  world.Run(PauseOften(env, &backoff, 1000, &pauses));
  EXPECT_LT(env->NowNs(), deadline);
  EXPECT_GT(pauses.size(), 5u);
  EXPECT_LT(pauses.size(), 30u);
  EXPECT_EQ(backoff.attempts(), static_cast<int>(pauses.size()) + 1);
}

TEST(Backoff, WithoutADeadlineItNeverGivesUp) {
  sim::World world({.seed = 1});
  sim::SimEnv* const env = world.Start(world.AddNode());
  Backoff backoff(env, io::kNoDeadline);
  std::vector<TimeNs> pauses;
  world.Run(PauseOften(env, &backoff, 50, &pauses));
  EXPECT_EQ(pauses.size(), 50u);
}

TEST(Core, DeadlineIsTheCallsOwnElseTheClustersElseNone) {
  sim::World world({.seed = 1});
  sim::SimEnv* const env = world.Start(world.AddNode());
  Options options;
  options.timeout_ms = 70;
  const Core core(env, options);
  EXPECT_EQ(core.Deadline(), env->NowNs() + 70 * io::kMillisecond);
  EXPECT_EQ(core.Deadline(5), env->NowNs() + 5 * io::kMillisecond);
  options.timeout_ms = 0;
  const Core patient(env, options);
  EXPECT_EQ(patient.Deadline(), io::kNoDeadline);
  EXPECT_EQ(patient.Deadline(5), env->NowNs() + 5 * io::kMillisecond);
}

TEST(Core, KeepsTheFirstExamplesOfRepairs) {
  sim::World world({.seed = 1});
  Core core(world.Start(world.AddNode()), Options());
  for (uint64_t i = 0; i < 2 * kRepairExamplesMax; ++i) {
    core.NoteRepair(std::to_string(i));
  }
  ASSERT_EQ(core.repairs()->examples.size(), kRepairExamplesMax);
  EXPECT_EQ(core.repairs()->examples.front(), "0");
}

TEST(Core, MetadataSequenceNeverGoesBack) {
  sim::World world({.seed = 1});
  Core core(world.Start(world.AddNode()), Options());
  core.NoteSequence(7);
  core.NoteSequence(3);
  EXPECT_EQ(core.meta_sequence(), 7u);
}

}  // namespace
}  // namespace cairn::client
