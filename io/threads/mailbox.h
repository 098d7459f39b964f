// Mailbox: how other threads reach a loop.
//
// Work is appended under a mutex; the first piece after the loop looked writes
// an eventfd, on which the sleeping loop waits. So a burst costs one wake-up.
//
// Threads:  Post() and Resume() from any; Drain() from the loop only.
// Lifetime: whoever posts makes sure that the loop still exists.
#pragma once

#include <coroutine>
#include <functional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "io/executor.h"
#include "io/mutex.h"

namespace cairn::io {

class Mailbox {
 public:
  Mailbox();
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;
  ~Mailbox();

  // Runs `work` on the loop.
  void Post(std::function<void()> work);
  // Schedules `waiter` on the loop; allocates nothing in steady state.
  void Resume(std::coroutine_handle<> waiter);

  // Readable (a 64-bit count, to be read whole) when there is something to
  // drain. Blocking, so that a ring can wait for it.
  int event_fd() const { return event_fd_; }
  // Call after the count was read. Runs posted work, in order, and schedules
  // waiters on `executor`.
  void Drain(Executor* executor);

 private:
  void Signal();

  const int event_fd_;
  Mutex mutex_;
  std::vector<std::function<void()>> posted_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::coroutine_handle<>> resumed_ ABSL_GUARDED_BY(mutex_);
  bool signalled_ ABSL_GUARDED_BY(mutex_) = false;
  // Only the loop's: what Drain() works on; keeps its capacity.
  std::vector<std::function<void()>> draining_;
  std::vector<std::coroutine_handle<>> waking_;
};

}  // namespace cairn::io
