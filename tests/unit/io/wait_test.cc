#include "io/wait.h"

#include <deque>
#include <map>
#include <vector>

#include "gtest/gtest.h"

namespace cairn::io {
namespace {

// A loop with a hand-moved clock.
class ManualExecutor : public Executor {
 public:
  TimeNs NowNs() override { return now_; }
  void Schedule(std::coroutine_handle<> handle) override {
    ready_.push_back(handle);
  }
  void AddTimer(TimeNs deadline, Timer* timer) override {
    timers_.emplace(deadline, timer);
  }
  bool RemoveTimer(Timer* timer) override {
    for (auto it = timers_.begin(); it != timers_.end(); ++it) {
      if (it->second != timer) continue;
      timers_.erase(it);
      return true;
    }
    return false;
  }
  void Drain() {
    while (!ready_.empty()) {
      const std::coroutine_handle<> next = ready_.front();
      ready_.pop_front();
      next.resume();
    }
  }
  void AdvanceTo(TimeNs now) {
    now_ = now;
    while (!timers_.empty() && timers_.begin()->first <= now_) {
      Timer* const timer = timers_.begin()->second;
      timers_.erase(timers_.begin());
      timer->Fire();
      Drain();
    }
  }

 private:
  TimeNs now_ = 1;
  std::deque<std::coroutine_handle<>> ready_;
  std::multimap<TimeNs, Timer*> timers_;
};

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
