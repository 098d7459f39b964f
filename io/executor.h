// The part of an Env that waiting needs: the loop's ready queue, its clock and
// its timers. Waiting primitives (io/wait.h) and every Env build on it.
//
// Threads: everything here belongs to the loop's own thread.
#pragma once

#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace cairn::io {

// Nanoseconds on the loop's monotonic clock.
using TimeNs = uint64_t;
inline constexpr TimeNs kNoDeadline = std::numeric_limits<TimeNs>::max();
inline constexpr TimeNs kMicrosecond = 1'000;
inline constexpr TimeNs kMillisecond = 1'000'000;
inline constexpr TimeNs kSecond = 1'000'000'000;

// A one-shot timer node, owned by whoever waits. Fire() runs on the loop, after
// the node left the timer queue, and must not suspend.
class Timer {
 public:
  virtual void Fire() = 0;

 protected:
  ~Timer() = default;

 private:
  friend class TimerHeap;
  size_t heap_place_ = 0;  // One-based; 0: not in a TimerHeap.
};

class Executor {
 public:
  virtual ~Executor() = default;

  // Monotonic; starts anywhere; never jumps back.
  virtual TimeNs NowNs() = 0;

  // Resumes `handle` on a later turn of the loop. Never resumes inline, so a
  // waker's invariants hold until it suspends itself.
  virtual void Schedule(std::coroutine_handle<> handle) = 0;

  // `timer` must stay alive until it fired or was removed. Each timer object is
  // in the queue at most once.
  virtual void AddTimer(TimeNs deadline, Timer* timer) = 0;
  // Removes `timer` if it has not fired yet; false if it was not in the queue.
  virtual bool RemoveTimer(Timer* timer) = 0;
};

}  // namespace cairn::io
