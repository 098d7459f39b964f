#include "io/threads/mailbox.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "format/base/status.h"

namespace cairn::io {

Mailbox::Mailbox() : event_fd_(eventfd(0, EFD_CLOEXEC)) {
  CAIRN_CHECK(event_fd_ >= 0);
}

Mailbox::~Mailbox() {
  {
    const MutexLock lock(&mutex_);
    CAIRN_CHECK(resumed_.empty());
  }
  close(event_fd_);
}

void Mailbox::Post(std::function<void()> work) {
  const MutexLock lock(&mutex_);
  posted_.push_back(std::move(work));
  // Under the lock: once the loop has run the work, the mailbox may be gone.
  if (!std::exchange(signalled_, true)) Signal();
}

void Mailbox::Resume(std::coroutine_handle<> waiter) {
  const MutexLock lock(&mutex_);
  resumed_.push_back(waiter);
  if (!std::exchange(signalled_, true)) Signal();
}

void Mailbox::Signal() {
  const uint64_t one = 1;
  ssize_t written;
  do {
    written = write(event_fd_, &one, sizeof(one));
  } while (written < 0 && errno == EINTR);
  CAIRN_CHECK(written == sizeof(one));
}

void Mailbox::Drain(Executor* executor) {
  {
    const MutexLock lock(&mutex_);
    signalled_ = false;
    draining_.swap(posted_);
    waking_.swap(resumed_);
  }
  for (const std::coroutine_handle<> waiter : waking_) {
    executor->Schedule(waiter);
  }
  waking_.clear();
  for (std::function<void()>& work : draining_) {
    work();
    work = nullptr;
  }
  draining_.clear();
}

}  // namespace cairn::io
