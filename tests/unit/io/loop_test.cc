#include <atomic>
#include <future>
#include <thread>

#include "tests/unit/io/real_env_fixture.h"

namespace cairn::io {
namespace {

class LoopTest : public RealEnvTest {
 protected:
  LoopOptions Options() const {
    LoopOptions options;
    options.backend = GetParam();
    options.pool_large_buffers = 1;
    return options;
  }
};
CAIRN_FOR_BOTH_BACKENDS(LoopTest);

Task<void> SleepInto(Env* env, TimeNs deadline, int id,
                     std::vector<int>* order) {
  co_await SleepUntil(env, deadline);
  EXPECT_GE(env->NowNs(), deadline);
  order->push_back(id);
}

// `in_time`: all slept before the first was due.
Task<void> SleepAll(Env* env, TimeNs lead, std::vector<int>* order,
                    bool* in_time) {
  Gate gate(env);
  const TimeNs start = env->NowNs() + lead;
  gate.Spawn(SleepInto(env, start + 2 * kMillisecond, 3, order));
  gate.Spawn(SleepInto(env, start, 1, order));
  gate.Spawn(SleepInto(env, start + kMillisecond, 2, order));
  gate.Spawn(SleepInto(env, start + 2 * kMillisecond, 4, order));
  *in_time = env->NowNs() < start;
  co_await gate.Close();
}

TEST_P(LoopTest, SleepersWakeInOrderOfDeadlineAndNeverEarly) {
  std::vector<int> order;
  bool in_time = false;
  // A deadline that has passed already is no sleep: more lead on a slow
  // machine.
  for (TimeNs lead = kMillisecond; !in_time; lead *= 2) {
    order.clear();
    Run(SleepAll(env_.get(), lead, &order, &in_time));
  }
  EXPECT_EQ(order, (std::vector<int>{1, 2, 3, 4}));
}

Task<void> WaitFor(Event* event, TimeNs deadline, WaitResult* result) {
  *result = co_await event->Wait(deadline);
}

TEST_P(LoopTest, EventBeforeTheDeadlineLeavesNoTimerBehind) {
  Event event(env_.get());
  WaitResult result = WaitResult::kCancelled;
  env_->Post([&event] { event.Set(); });
  Run(WaitFor(&event, env_->NowNs() + 3600 * kSecond, &result));
  EXPECT_EQ(result, WaitResult::kWoken);
}

Task<void> Wait(Event* event) { co_await event->Wait(); }

TEST_P(LoopTest, PostFromOtherThreadsWakesASleepingLoopInOrder) {
  constexpr int kPosts = 1000;
  Event done(env_.get());
  std::vector<int> order;
  std::thread poster([&] {
    for (int i = 0; i < kPosts; ++i) {
      env_->Post([&order, i] { order.push_back(i); });
    }
    env_->Post([&done] { done.Set(); });
  });
  Run(Wait(&done));
  poster.join();
  ASSERT_EQ(order.size(), static_cast<size_t>(kPosts));
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
}

Task<void> RunOn(Env* env, std::function<void()> work) {
  co_await env->RunBlocking(std::move(work));
}

Task<void> RunBlockedUntilLoopReleases(Env* env, std::promise<void>* release,
                                       std::function<void()> work) {
  Gate gate(env);
  gate.Spawn(RunOn(env, std::move(work)));
  // The loop is free while the helper is stuck.
  for (int i = 0; i < 3; ++i) co_await SleepFor(env, kMillisecond);
  release->set_value();
  co_await gate.Close();
}

TEST_P(LoopTest, RunBlockingBlocksAnotherThreadAndNotTheLoop) {
  std::promise<void> release;
  std::thread::id worker;
  Run(RunBlockedUntilLoopReleases(env_.get(), &release, [&release, &worker] {
    release.get_future().wait();
    worker = std::this_thread::get_id();
  }));
  EXPECT_NE(worker, std::thread::id());
  EXPECT_NE(worker, std::this_thread::get_id());
}

Task<void> RunManyBlocking(Env* env, int count, std::atomic<int>* ran) {
  Gate gate(env);
  for (int i = 0; i < count; ++i) {
    gate.Spawn(RunOn(env, [ran] { ran->fetch_add(1); }));
  }
  co_await gate.Close();
}

TEST_P(LoopTest, MoreBlockingWorkThanThreadsAllRuns) {
  std::atomic<int> ran = 0;
  Run(RunManyBlocking(env_.get(), 500, &ran));
  EXPECT_EQ(ran.load(), 500);
}

TEST_P(LoopTest, RandomWordsDiffer) {
  std::vector<uint64_t> words(100);
  for (uint64_t& word : words) word = env_->Random();
  std::sort(words.begin(), words.end());
  EXPECT_EQ(std::adjacent_find(words.begin(), words.end()), words.end());
  EXPECT_GT(env_->WallNs(), 1'700'000'000 * kSecond);
}

Task<std::string> NameOfBackend(Env* env) {
  co_await SleepFor(env, kMicrosecond);
  co_return env->name();
}

Task<std::thread::id> ThreadOf(Env* env) {
  co_await SleepFor(env, kMicrosecond);
  co_return std::this_thread::get_id();
}

TEST_P(LoopTest, LoopThreadRunsWorkOfSeveralCallersOnItsOwnThread) {
  auto loop = LoopThread::Start("test", Options());
  ASSERT_OK(loop);
  EXPECT_EQ((*loop)->Run<std::string>(NameOfBackend), env_->name());
  std::vector<std::thread> callers;
  std::vector<std::thread::id> ids(4);
  for (std::thread::id& id : ids) {
    callers.emplace_back(
        [&id, &loop] { id = (*loop)->Run<std::thread::id>(ThreadOf); });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(std::count(ids.begin(), ids.end(), ids[0]), 4);
  EXPECT_NE(ids[0], std::this_thread::get_id());
}

Task<void> FinishLater(Env* env, bool* finished) {
  for (int i = 0; i < 5; ++i) co_await SleepFor(env, kMillisecond);
  *finished = true;
}

TEST_P(LoopTest, LoopThreadWaitsForWorkInFlightWhenDestroyed) {
  bool finished = false;
  std::future<void> done;
  {
    auto loop = LoopThread::Start("test", Options());
    ASSERT_OK(loop);
    bool* const flag = &finished;
    done = (*loop)->Start<void>(
        [flag](Env* env) { return FinishLater(env, flag); });
  }
  EXPECT_TRUE(finished);
  EXPECT_EQ(done.wait_for(std::chrono::seconds(0)), std::future_status::ready);
}

}  // namespace
}  // namespace cairn::io
