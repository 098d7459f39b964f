// Poller: waits, with epoll, until sockets can make progress.
//
// Sockets are added once, edge-triggered: a coroutine tries its call first and
// waits only after EAGAIN, so no edge is missed.
//
// Threads:  belongs to one loop.
// Lifetime: a watch stays where it is between Add() and Remove(), and nobody
//           waits on it when it is removed (checked).
#pragma once

#include <coroutine>
#include <cstdint>
#include <utility>

#include "format/base/status.h"
#include "io/executor.h"
#include "io/threads/mailbox.h"

namespace cairn::io {

struct FdWatch {
  int fd = -1;
  std::coroutine_handle<> reader;  // Who waits, if anyone.
  std::coroutine_handle<> writer;
};

class Poller {
 public:
  Poller(Executor* executor, Mailbox* mailbox);
  Poller(const Poller&) = delete;
  Poller& operator=(const Poller&) = delete;
  ~Poller();

  absl::Status Add(FdWatch* watch);
  void Remove(FdWatch* watch);

  // Waits at most `timeout_ns` (0: not at all, kNoDeadline: forever); schedules
  // whom the news concern and drains the mailbox.
  void Poll(TimeNs timeout_ns);

  // Schedules whoever waits in `slot`, a member of a watch.
  void Wake(std::coroutine_handle<>* slot) {
    if (*slot) executor_->Schedule(std::exchange(*slot, {}));
  }
  Executor* executor() const { return executor_; }

 private:
  void ReadMail();

  Executor* const executor_;
  Mailbox* const mailbox_;
  const int epoll_fd_;
};

// Waits, after EAGAIN, until `slot`'s direction may go on, or `deadline`; may
// wake for nothing.
class ReadinessWait final : public Timer {
 public:
  ReadinessWait(Executor* executor, std::coroutine_handle<>* slot,
                TimeNs deadline)
      : executor_(executor), slot_(slot), deadline_(deadline) {}
  ReadinessWait(const ReadinessWait&) = delete;
  ReadinessWait& operator=(const ReadinessWait&) = delete;

  bool await_ready() const { return false; }
  void await_suspend(std::coroutine_handle<> waiter) {
    CAIRN_CHECK(!*slot_);
    *slot_ = waiter;
    if (deadline_ != kNoDeadline) executor_->AddTimer(deadline_, this);
  }
  // False: the deadline passed.
  bool await_resume() {
    executor_->RemoveTimer(this);
    return !has_fired_;
  }

 private:
  void Fire() override {
    if (!*slot_) return;  // Woken in this very turn.
    has_fired_ = true;
    executor_->Schedule(std::exchange(*slot_, {}));
  }

  Executor* const executor_;
  std::coroutine_handle<>* const slot_;
  const TimeNs deadline_;
  bool has_fired_ = false;
};

}  // namespace cairn::io
