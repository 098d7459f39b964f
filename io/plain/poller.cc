#include "io/plain/poller.h"

#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>

#include "io/limits.h"
#include "io/posix/errno_status.h"

namespace cairn::io {
namespace {

// Rounded up, so that no timer is asked for before it is due.
int TimeoutMs(TimeNs timeout_ns) {
  if (timeout_ns == kNoDeadline) return -1;
  const TimeNs ms = timeout_ns / kMillisecond + (timeout_ns % kMillisecond > 0);
  return static_cast<int>(
      std::min<TimeNs>(ms, std::numeric_limits<int>::max()));
}

}  // namespace

Poller::Poller(Executor* executor, Mailbox* mailbox)
    : executor_(executor),
      mailbox_(mailbox),
      epoll_fd_(epoll_create1(EPOLL_CLOEXEC)) {
  CAIRN_CHECK(epoll_fd_ >= 0);
  epoll_event event = {};
  event.events = EPOLLIN;
  event.data.ptr = nullptr;  // Stands for the mailbox.
  CAIRN_CHECK(
      epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, mailbox_->event_fd(), &event) == 0);
}

Poller::~Poller() { close(epoll_fd_); }

absl::Status Poller::Add(FdWatch* watch) {
  epoll_event event = {};
  event.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
  event.data.ptr = watch;
  if (epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, watch->fd, &event) == 0) {
    return absl::OkStatus();
  }
  const int error = errno;
  return ErrnoStatus(error, "epoll_ctl");
}

void Poller::Remove(FdWatch* watch) {
  CAIRN_CHECK(!watch->reader && !watch->writer);
  CAIRN_CHECK(epoll_ctl(epoll_fd_, EPOLL_CTL_DEL, watch->fd, nullptr) == 0);
}

void Poller::Poll(TimeNs timeout_ns) {
  std::array<epoll_event, kEpollEventsMax> events;
  const int count = epoll_wait(epoll_fd_, events.data(), kEpollEventsMax,
                               TimeoutMs(timeout_ns));
  CAIRN_CHECK(count >= 0 || errno == EINTR);
  bool has_mail = false;
  for (int i = 0; i < count; ++i) {
    const epoll_event& event = events[static_cast<size_t>(i)];
    auto* const watch = static_cast<FdWatch*>(event.data.ptr);
    if (watch == nullptr) {
      has_mail = true;
      continue;
    }
    const uint32_t broken = EPOLLHUP | EPOLLERR;
    if (event.events & (EPOLLIN | EPOLLRDHUP | broken)) Wake(&watch->reader);
    if (event.events & (EPOLLOUT | broken)) Wake(&watch->writer);
  }
  // Last: posted work may close sockets that have events above.
  if (has_mail) ReadMail();
}

void Poller::ReadMail() {
  uint64_t count = 0;
  if (read(mailbox_->event_fd(), &count, sizeof(count)) == sizeof(count)) {
    mailbox_->Drain(executor_);
  }
}

}  // namespace cairn::io
