// ManualExecutor: a loop with a hand-moved clock, for tests of waiting.
//
// Time stands still until AdvanceTo(); nothing runs until Drain() or
// AdvanceTo(). Timers with one deadline fire in the order they were added.
//
// Threads: one.
#pragma once

#include <coroutine>
#include <deque>
#include <map>

#include "io/executor.h"

namespace cairn::testing {

class ManualExecutor : public io::Executor {
 public:
  io::TimeNs NowNs() override { return now_; }
  void Schedule(std::coroutine_handle<> handle) override {
    ready_.push_back(handle);
  }
  void AddTimer(io::TimeNs deadline, io::Timer* timer) override {
    timers_.emplace(deadline, timer);
  }
  bool RemoveTimer(io::Timer* timer) override {
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
  // Timers that are due fire, and what they wake has not run yet: as in a loop
  // that is busy with something else.
  void FireTo(io::TimeNs now) {
    now_ = now;
    while (!timers_.empty() && timers_.begin()->first <= now_) {
      io::Timer* const timer = timers_.begin()->second;
      timers_.erase(timers_.begin());
      timer->Fire();
    }
  }
  void AdvanceTo(io::TimeNs now) {
    now_ = now;
    while (!timers_.empty() && timers_.begin()->first <= now_) {
      io::Timer* const timer = timers_.begin()->second;
      timers_.erase(timers_.begin());
      timer->Fire();
      Drain();
    }
  }

 private:
  io::TimeNs now_ = 1;
  std::deque<std::coroutine_handle<>> ready_;
  std::multimap<io::TimeNs, io::Timer*> timers_;
};

}  // namespace cairn::testing
