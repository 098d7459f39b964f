// Clock, timers, tasks, waiting and memory: see env_conformance.h.
#include <algorithm>
#include <set>
#include <thread>

#include "tests/conformance/io/env_conformance.h"

namespace cairn::io {
namespace {

using ::testing::ElementsAre;

// --- Clock and timers.

Task<void> SleepInto(Env* env, TimeNs duration, int id,
                     std::vector<int>* order) {
  const TimeNs deadline = env->NowNs() + duration;
  const WaitResult result = co_await SleepUntil(env, deadline);
  EXPECT_EQ(result, WaitResult::kDeadline);
  EXPECT_GE(env->NowNs(), deadline) << "woke before its time";
  order->push_back(id);
}

Task<void> SleepInReverse(Env* env) {
  std::vector<int> order;
  Gate gate(env);
  gate.Spawn(SleepInto(env, 60 * kMillisecond, 3, &order));
  gate.Spawn(SleepInto(env, 30 * kMillisecond, 2, &order));
  gate.Spawn(SleepInto(env, 0, 0, &order));
  gate.Spawn(SleepInto(env, 100 * kMicrosecond, 1, &order));
  co_await gate.Close();
  EXPECT_THAT(order, ElementsAre(0, 1, 2, 3));
}

TEST_P(EnvConformance, SleepersWakeInOrderOfDeadlineAndNeverEarly) {
  Run(SleepInReverse(env()));
}

class CountingTimer : public Timer {
 public:
  CountingTimer(Env* env, std::vector<int>* order, int id)
      : env_(env), order_(order), id_(id) {}
  void Fire() override {
    EXPECT_FALSE(env_->RemoveTimer(this))
        << "it left the queue before it fired";
    order_->push_back(id_);
  }

 private:
  Env* const env_;
  std::vector<int>* const order_;
  const int id_;
};

Task<void> FireAndRemove(Env* env) {
  std::vector<int> order;
  CountingTimer first(env, &order, 1);
  CountingTimer removed(env, &order, 2);
  CountingTimer past(env, &order, 3);
  const TimeNs now = env->NowNs();
  env->AddTimer(now + 2 * kMillisecond, &first);
  env->AddTimer(now + kMillisecond, &removed);
  env->AddTimer(now - 1, &past);
  EXPECT_TRUE(order.empty()) << "a timer never fires inline";
  EXPECT_TRUE(env->RemoveTimer(&removed));
  EXPECT_FALSE(env->RemoveTimer(&removed));
  co_await SleepUntil(env, now + 4 * kMillisecond);
  EXPECT_THAT(order, ElementsAre(3, 1));
  env->AddTimer(env->NowNs(), &first);  // It may be used again.
  co_await SleepFor(env, kMillisecond);
  EXPECT_THAT(order, ElementsAre(3, 1, 1));
}

TEST_P(EnvConformance, RemovedTimerDoesNotFireAndThePastFiresSoon) {
  Run(FireAndRemove(env()));
}

Task<void> ManySleepers(Env* env) {
  std::vector<int> order;
  Gate gate(env);
  for (int i = 0; i < 1000; ++i) {
    const auto turn = static_cast<TimeNs>((i * 7919) % 1000);
    gate.Spawn(SleepInto(env, turn * 10 * kMicrosecond, i, &order));
  }
  co_await gate.Close();
  EXPECT_EQ(order.size(), 1000u);
}

TEST_P(EnvConformance, ThousandSleepersAllWake) { Run(ManySleepers(env())); }

Task<void> ReadClocks(Env* env) {
  const TimeNs before = env->NowNs();
  const TimeNs wall_before = env->WallNs();
  co_await SleepFor(env, 2 * kMillisecond);
  EXPECT_GE(env->NowNs(), before + 2 * kMillisecond);
  EXPECT_GE(wall_before, 1'600'000'000 * kSecond) << "nanoseconds since 1970";
  EXPECT_GE(env->WallNs(), wall_before);
}

TEST_P(EnvConformance, ClocksAdvanceAndTheWallIsNearTheReal) {
  Run(ReadClocks(env()));
}

Task<void> DrawRandom(Env* env) {
  std::set<uint64_t> drawn;
  for (int i = 0; i < 1000; ++i) drawn.insert(env->Random());
  EXPECT_EQ(drawn.size(), 1000u);
  co_return;
}

TEST_P(EnvConformance, RandomDiffersFromDrawToDraw) { Run(DrawRandom(env())); }

// --- Scheduling.

Task<void> Note(std::vector<int>* order, int id) {
  order->push_back(id);
  co_return;
}

Task<void> WaitAndNote(Event* event, std::vector<int>* order, int id) {
  co_await event->Wait();
  order->push_back(id);
}

Task<void> WakeAndGoOn(Env* env) {
  std::vector<int> order;
  Event event(env);
  Gate gate(env);
  gate.Spawn(WaitAndNote(&event, &order, 2));
  event.Set();
  co_await Note(&order, 1);  // The waker runs on; the woken one comes later.
  co_await gate.Close();
  EXPECT_THAT(order, ElementsAre(1, 2));
}

TEST_P(EnvConformance, WokenTaskRunsOnALaterTurn) { Run(WakeAndGoOn(env())); }

Task<void> PostSeveral(Env* env) {
  std::vector<int> order;
  Event done(env);
  env->Post([&order] { order.push_back(1); });
  env->Post([&order] { order.push_back(2); });
  env->Post([&order, &done] {
    order.push_back(3);
    done.Set();
  });
  EXPECT_TRUE(order.empty()) << "Post never runs inline";
  co_await done.Wait();
  EXPECT_THAT(order, ElementsAre(1, 2, 3));
}

TEST_P(EnvConformance, PostedWorkRunsInOrder) { Run(PostSeveral(env())); }

Task<void> RunBlockingTwice(Env* env) {
  const std::thread::id loop = std::this_thread::get_id();
  int value = 0;
  const std::function<void()> work = [&value] { value += 21; };
  co_await env->RunBlocking(work);
  co_await env->RunBlocking(work);
  EXPECT_EQ(value, 42);
  EXPECT_EQ(std::this_thread::get_id(), loop) << "resumed on another thread";
}

TEST_P(EnvConformance, BlockingWorkIsDoneWhenItsTaskResumesOnTheLoop) {
  Run(RunBlockingTwice(env()));
}

Task<void> AddBlocking(Env* env, std::vector<int>* sums, size_t index) {
  const std::function<void()> work = [sums, index] { (*sums)[index] = 1; };
  co_await env->RunBlocking(work);
}

Task<void> RunManyBlocking(Env* env) {
  std::vector<int> sums(200, 0);
  Gate gate(env);
  for (size_t i = 0; i < sums.size(); ++i) {
    gate.Spawn(AddBlocking(env, &sums, i));
  }
  co_await gate.Close();
  EXPECT_EQ(std::count(sums.begin(), sums.end(), 1), 200);
}

TEST_P(EnvConformance, MoreBlockingWorkThanThreadsAllRuns) {
  Run(RunManyBlocking(env()));
}

// --- Waiting primitives on this loop.

Task<void> AcquireInto(Semaphore* semaphore, uint64_t units, TimeNs deadline,
                       CancelToken* cancel, std::vector<WaitResult>* results) {
  const WaitResult result =
      co_await semaphore->Acquire(units, deadline, cancel);
  results->push_back(result);
}

Task<void> SemaphoreEndsEachWay(Env* env) {
  Semaphore semaphore(env, 1);
  CancelToken cancel;
  std::vector<WaitResult> deadline;
  std::vector<WaitResult> cancelled;
  std::vector<WaitResult> woken;
  Gate gate(env);
  EXPECT_TRUE(semaphore.TryAcquire());
  const TimeNs soon = env->NowNs() + kMillisecond;
  gate.Spawn(AcquireInto(&semaphore, 1, soon, nullptr, &deadline));
  gate.Spawn(AcquireInto(&semaphore, 1, kNoDeadline, &cancel, &cancelled));
  gate.Spawn(AcquireInto(&semaphore, 1, kNoDeadline, nullptr, &woken));
  co_await SleepFor(env, 2 * kMillisecond);
  EXPECT_THAT(deadline, ElementsAre(WaitResult::kDeadline));
  EXPECT_TRUE(cancelled.empty() && woken.empty());
  cancel.Cancel();
  semaphore.Release();
  co_await gate.Close();
  EXPECT_THAT(cancelled, ElementsAre(WaitResult::kCancelled));
  EXPECT_THAT(woken, ElementsAre(WaitResult::kWoken));
}

TEST_P(EnvConformance, WaitsEndByDeadlineCancelOrWake) {
  Run(SemaphoreEndsEachWay(env()));
}

Task<void> SleepCancellable(Env* env, CancelToken* cancel, WaitResult* result) {
  *result = co_await SleepFor(env, 3600 * kSecond, cancel);
}

Task<void> CancelSleep(Env* env) {
  CancelToken cancel;
  WaitResult first = WaitResult::kWoken;
  WaitResult second = WaitResult::kWoken;
  Gate gate(env);
  gate.Spawn(SleepCancellable(env, &cancel, &first));
  cancel.Cancel();
  gate.Spawn(SleepCancellable(env, &cancel, &second));
  co_await gate.Close();
  EXPECT_EQ(first, WaitResult::kCancelled);
  EXPECT_EQ(second, WaitResult::kCancelled);
}

TEST_P(EnvConformance, CancelledSleepEndsAtOnce) { Run(CancelSleep(env())); }

Task<void> SleepAndCount(Env* env, int* finished) {
  co_await SleepFor(env, kMillisecond);
  ++*finished;
}

Task<void> CloseGate(Env* env) {
  int finished = 0;
  Gate gate(env);
  for (int i = 0; i < 10; ++i) gate.Spawn(SleepAndCount(env, &finished));
  EXPECT_EQ(gate.in_flight(), 10u);
  co_await gate.Close();
  EXPECT_EQ(finished, 10);
  EXPECT_EQ(gate.in_flight(), 0u);
}

TEST_P(EnvConformance, GateClosesAfterItsLastTask) { Run(CloseGate(env())); }

// --- The buffer pool.

Task<void> TakeBuffer(Env* env, uint64_t size_bytes, int id,
                      std::vector<int>* order) {
  const Buffer buffer = co_await env->pool()->Acquire(size_bytes);
  EXPECT_TRUE(static_cast<bool>(buffer));
  EXPECT_GE(buffer.bytes().size(), size_bytes);
  order->push_back(id);
}

Task<void> ExhaustPool(Env* env) {
  BufferPool* const pool = env->pool();
  std::vector<Buffer> taken;
  while (true) {
    Buffer buffer = pool->TryAcquire(format::kChunkBytesMax);
    if (!buffer) break;
    EXPECT_TRUE(pool->Contains(buffer.bytes().data()));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.bytes().data()) %
                  format::kDiskAlignBytes,
              0u);
    taken.push_back(std::move(buffer));
  }
  CO_ASSERT_TRUE(taken.size() >= 2);
  std::vector<int> order;
  Gate gate(env);
  gate.Spawn(TakeBuffer(env, format::kChunkBytesMax, 1, &order));
  gate.Spawn(TakeBuffer(env, format::kBlockBytes, 2, &order));
  const Buffer late = co_await pool->Acquire(1, env->NowNs() + kMillisecond);
  EXPECT_FALSE(static_cast<bool>(late)) << "the pool is empty";
  EXPECT_TRUE(order.empty());
  taken.pop_back();
  co_await gate.Close();
  EXPECT_THAT(order, ElementsAre(1, 2));
}

TEST_P(EnvConformance, EmptyPoolServesItsWaitersFirstComeFirstServed) {
  Run(ExhaustPool(env()));
}

TEST_P(EnvConformance, EnvHasAName) {
  EXPECT_GT(std::string(env()->name()).size(), 0u);
}

}  // namespace
}  // namespace cairn::io
