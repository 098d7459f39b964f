#include "io/wait.h"

#include <vector>

#include "gtest/gtest.h"
#include "tests/support/manual_executor.h"

namespace cairn::io {
namespace {

using testing::ManualExecutor;

Task<void> AcquireInto(Semaphore* semaphore, uint64_t units, TimeNs deadline,
                       int id, std::vector<int>* order) {
  const WaitResult result = co_await semaphore->Acquire(units, deadline);
  order->push_back(result == WaitResult::kWoken ? id : -id);
}

Task<void> WaitInto(Event* event, CancelToken* cancel,
                    std::vector<WaitResult>* results) {
  results->push_back(co_await event->Wait(kNoDeadline, cancel));
}

Task<void> CloseInto(Gate* gate, bool* closed) {
  co_await gate->Close();
  *closed = true;
}

TEST(Semaphore, LargeRequestIsNotStarvedBySmallerOnesBehindIt) {
  ManualExecutor loop;
  Gate gate(&loop);
  Semaphore semaphore(&loop, 4);
  std::vector<int> order;
  gate.Spawn(AcquireInto(&semaphore, 3, kNoDeadline, 1, &order));
  gate.Spawn(AcquireInto(&semaphore, 4, kNoDeadline, 2, &order));
  gate.Spawn(AcquireInto(&semaphore, 1, kNoDeadline, 3, &order));
  loop.Drain();
  EXPECT_EQ(order, (std::vector<int>{1}));
  semaphore.Release(3);
  loop.Drain();
  EXPECT_EQ(order, (std::vector<int>{1, 2}));
  semaphore.Release(4);
  loop.Drain();
  EXPECT_EQ(order, (std::vector<int>{1, 2, 3}));
  semaphore.Release(1);
}

TEST(Semaphore, WaiterThatGivesUpLetsTheNextOneIn) {
  ManualExecutor loop;
  Gate gate(&loop);
  Semaphore semaphore(&loop, 2);
  std::vector<int> order;
  gate.Spawn(AcquireInto(&semaphore, 1, kNoDeadline, 1, &order));
  gate.Spawn(AcquireInto(&semaphore, 2, 100, 2, &order));
  gate.Spawn(AcquireInto(&semaphore, 1, kNoDeadline, 3, &order));
  loop.AdvanceTo(100);
  EXPECT_EQ(order, (std::vector<int>{1, -2, 3}));
  semaphore.Release(2);
}

Task<void> AcquireOrCancel(Semaphore* semaphore, CancelToken* cancel,
                           WaitResult* result) {
  *result = co_await semaphore->Acquire(1, kNoDeadline, cancel);
}

// The cancelled waiter is still in line when the units come free: it has not
// resumed yet.
TEST(Semaphore, UnitsPassOverAWaiterThatWasJustCancelled) {
  ManualExecutor loop;
  Gate gate(&loop);
  Semaphore semaphore(&loop, 1);
  CancelToken cancel;
  std::vector<int> order;
  WaitResult result = WaitResult::kWoken;
  EXPECT_TRUE(semaphore.TryAcquire());
  gate.Spawn(AcquireOrCancel(&semaphore, &cancel, &result));
  gate.Spawn(AcquireInto(&semaphore, 1, kNoDeadline, 2, &order));
  cancel.Cancel();
  semaphore.Release();
  loop.Drain();
  EXPECT_EQ(result, WaitResult::kCancelled);
  EXPECT_EQ(order, (std::vector<int>{2}));
  semaphore.Release();
  EXPECT_EQ(semaphore.available(), 1u);
}

TEST(Event, CancelEndsTheWaitAndLaterWaitsAtOnce) {
  ManualExecutor loop;
  Gate gate(&loop);
  Event event(&loop);
  CancelToken cancel;
  std::vector<WaitResult> results;
  gate.Spawn(WaitInto(&event, &cancel, &results));
  EXPECT_TRUE(results.empty());
  cancel.Cancel();
  loop.Drain();
  gate.Spawn(WaitInto(&event, &cancel, &results));
  EXPECT_EQ(results, (std::vector<WaitResult>{WaitResult::kCancelled,
                                              WaitResult::kCancelled}));
}

TEST(Gate, CloseWaitsForEveryTask) {
  ManualExecutor loop;
  Gate gate(&loop);
  Gate closer(&loop);
  Event event(&loop);
  std::vector<WaitResult> results;
  bool closed = false;
  gate.Spawn(WaitInto(&event, nullptr, &results));
  closer.Spawn(CloseInto(&gate, &closed));
  loop.Drain();
  EXPECT_FALSE(closed);
  event.Set();
  loop.Drain();
  EXPECT_TRUE(closed);
}

}  // namespace
}  // namespace cairn::io
