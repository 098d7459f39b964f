// Waiting on one loop: Event, Semaphore, Gate, cancellation and sleeping.
//
// Every wait can carry a deadline and a CancelToken; whichever comes first ends
// it. A waiter is always resumed through the ready queue, never inline.
//
// Threads:  all of it belongs to one loop. To wake from another thread, go
//           through Env::Post().
// Lifetime: destroying a primitive on which somebody waits is a bug (checked).
#pragma once

#include <cstdint>
#include <list>
#include <utility>

#include "io/executor.h"
#include "io/task.h"

namespace cairn::io {

enum class WaitResult { kWoken, kDeadline, kCancelled };

class WaitQueue;

// Says "stop waiting" to every wait that was given its address.
class CancelToken {
 public:
  CancelToken() = default;
  CancelToken(const CancelToken&) = delete;
  CancelToken& operator=(const CancelToken&) = delete;
  ~CancelToken();

  // Idempotent. Waits in progress end with kCancelled; later ones at once.
  void Cancel();
  bool cancelled() const { return cancelled_; }

 private:
  friend class WaitNode;
  std::list<class WaitNode*> waiting_;
  bool cancelled_ = false;
};

// One suspended wait; internal to this header's primitives.
class WaitNode final : public Timer {
 public:
  WaitNode(Executor* executor, WaitQueue* queue, TimeNs deadline,
           CancelToken* cancel)
      : executor_(executor),
        queue_(queue),
        deadline_(deadline),
        cancel_(cancel) {}
  WaitNode(const WaitNode&) = delete;
  WaitNode& operator=(const WaitNode&) = delete;

  bool await_ready();
  void await_suspend(std::coroutine_handle<> handle);
  WaitResult await_resume() const { return result_; }

 private:
  friend class WaitQueue;
  friend class CancelToken;
  void Fire() override;
  void Finish(WaitResult result);  // Leaves every list; schedules the waiter.

  Executor* const executor_;
  WaitQueue* const queue_;  // Null for a plain sleep.
  const TimeNs deadline_;
  CancelToken* const cancel_;
  std::coroutine_handle<> handle_;
  WaitResult result_ = WaitResult::kWoken;
  bool in_timers_ = false;
  std::list<WaitNode*>::iterator queue_place_;
  std::list<WaitNode*>::iterator cancel_place_;
};

// First-in-first-out list of waiters; the base of the primitives below.
class WaitQueue {
 public:
  explicit WaitQueue(Executor* executor) : executor_(executor) {}
  WaitQueue(const WaitQueue&) = delete;
  WaitQueue& operator=(const WaitQueue&) = delete;
  ~WaitQueue() { CAIRN_CHECK(waiters_.empty()); }

  // Suspends until woken. A spurious wake is possible only if the caller's
  // condition was changed by another waiter: loop on the condition.
  [[nodiscard]] WaitNode Wait(TimeNs deadline = kNoDeadline,
                              CancelToken* cancel = nullptr) {
    return WaitNode(executor_, this, deadline, cancel);
  }
  bool WakeOne();  // False if nobody waits.
  void WakeAll();
  bool empty() const { return waiters_.empty(); }
  Executor* executor() const { return executor_; }

 private:
  friend class WaitNode;
  Executor* const executor_;
  std::list<WaitNode*> waiters_;
};

// Suspends until `deadline` on the loop's clock: kDeadline, or kCancelled.
[[nodiscard]] inline WaitNode SleepUntil(Executor* executor, TimeNs deadline,
                                         CancelToken* cancel = nullptr) {
  return WaitNode(executor, nullptr, deadline, cancel);
}
[[nodiscard]] inline WaitNode SleepFor(Executor* executor, TimeNs duration,
                                       CancelToken* cancel = nullptr) {
  return SleepUntil(executor, executor->NowNs() + duration, cancel);
}

// Set once; wakes all, and lets later waits through at once. Reset() re-arms.
class Event {
 public:
  explicit Event(Executor* executor) : queue_(executor) {}
  void Set() {
    set_ = true;
    queue_.WakeAll();
  }
  void Reset() { set_ = false; }
  bool is_set() const { return set_; }
  // kWoken once set.
  Task<WaitResult> Wait(TimeNs deadline = kNoDeadline,
                        CancelToken* cancel = nullptr);

 private:
  WaitQueue queue_;
  bool set_ = false;
};

// Counts units; first come, first served, so a large request is not starved.
class Semaphore {
 public:
  Semaphore(Executor* executor, uint64_t units)
      : executor_(executor), available_(units) {}
  Semaphore(const Semaphore&) = delete;
  Semaphore& operator=(const Semaphore&) = delete;
  ~Semaphore() { CAIRN_CHECK(queue_.empty()); }
  // kWoken: `units` are the caller's until Release(). Asking for more than the
  // semaphore ever holds waits forever: that is the caller's bug.
  Task<WaitResult> Acquire(uint64_t units = 1, TimeNs deadline = kNoDeadline,
                           CancelToken* cancel = nullptr);
  // Takes the units without waiting; false if they are not free or others wait.
  bool TryAcquire(uint64_t units = 1);
  void Release(uint64_t units = 1);
  uint64_t available() const { return available_; }

 private:
  struct Pending {
    Pending(Executor* executor, uint64_t wanted)
        : wake(executor), units(wanted) {}
    WaitQueue wake;
    uint64_t units;
  };
  void Grant();  // Hands free units to the head of the line.

  Executor* const executor_;
  std::list<Pending*> queue_;
  uint64_t available_;
};

// Owns started work: counts tasks in flight; Close() waits for all of them.
class Gate {
 public:
  explicit Gate(Executor* executor) : idle_(executor) {}
  ~Gate() { CAIRN_CHECK(in_flight_ == 0); }

  // Keeps the gate open while it lives.
  class Hold {
   public:
    explicit Hold(Gate* gate) : gate_(gate) { ++gate_->in_flight_; }
    Hold(Hold&& other) noexcept : gate_(std::exchange(other.gate_, nullptr)) {}
    Hold& operator=(Hold&&) = delete;
    ~Hold() {
      if (gate_) gate_->Leave();
    }

   private:
    Gate* gate_;
  };
  [[nodiscard]] Hold Enter() { return Hold(this); }

  // Starts `task` now and owns it: its frame lives until it ends.
  void Spawn(Task<void> task);

  // Waits until nothing is in flight. New work may still enter before that;
  // owners stop starting work first.
  Task<void> Close();

  uint64_t in_flight() const { return in_flight_; }

 private:
  static internal::DetachedTask Run(Task<void> task, Hold hold);
  void Leave();
  uint64_t in_flight_ = 0;
  WaitQueue idle_;
};

}  // namespace cairn::io
