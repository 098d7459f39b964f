// The Ports of the plain backend: files on helper threads, sockets with epoll.
//
// Threads: belong to one loop.
#pragma once

#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <span>
#include <utility>

#include "io/env.h"
#include "io/plain/poller.h"
#include "io/posix/address.h"
#include "io/threads/blocking_pool.h"

namespace cairn::io {

// The count, or the negative errno.
inline int64_t CountOrErrno(ssize_t result) {
  return result >= 0 ? static_cast<int64_t>(result) : -errno;
}

// See io/posix/basic_file.h.
class PlainFilePort {
 public:
  PlainFilePort(BlockingPool* blocking, int fd)
      : blocking_(blocking), fd_(fd) {}

  auto Read(uint64_t offset, MutableBytes to) {
    auto read = [fd = fd_, offset, to] {
      return CountOrErrno(
          pread(fd, to.data(), to.size(), static_cast<off_t>(offset)));
    };
    return BlockingCall(blocking_, std::move(read));
  }

  auto Write(uint64_t offset, ConstBytes from, bool durable) {
    auto write = [fd = fd_, offset, from, durable] {
      const iovec piece = {const_cast<uint8_t*>(from.data()), from.size()};
      return CountOrErrno(pwritev2(fd, &piece, 1, static_cast<off_t>(offset),
                                   durable ? RWF_DSYNC : 0));
    };
    return BlockingCall(blocking_, std::move(write));
  }

  auto Sync() {
    auto sync = [fd = fd_] { return CountOrErrno(fdatasync(fd)); };
    return BlockingCall(blocking_, std::move(sync));
  }

  void Forget() {}
  BlockingPool* blocking() const { return blocking_; }

 private:
  BlockingPool* blocking_;
  int fd_;
};

// Tries a call; if it would block, waits for an edge and tries once more.
// `Attempt` returns a count or a negative errno.
template <typename Attempt>
class ReadinessOp {
 public:
  ReadinessOp(std::coroutine_handle<>* slot, Attempt attempt)
      : slot_(slot), attempt_(std::move(attempt)) {}

  bool await_ready() {
    result_ = attempt_();
    return result_ != -EAGAIN;
  }
  void await_suspend(std::coroutine_handle<> waiter) {
    CAIRN_CHECK(!*slot_);
    *slot_ = waiter;
  }
  int64_t await_resume() {
    if (result_ == -EAGAIN) result_ = attempt_();
    return result_;
  }

 private:
  std::coroutine_handle<>* const slot_;
  Attempt attempt_;
  int64_t result_ = 0;
};

// See io/posix/basic_stream.h.
class PlainSocket {
 public:
  // Owns `fd` also when this fails.
  static absl::StatusOr<PlainSocket> Make(Poller* poller, int fd) {
    auto watch = std::make_unique<FdWatch>();
    watch->fd = fd;
    const absl::Status added = poller->Add(watch.get());
    if (!added.ok()) {
      close(fd);
      return added;
    }
    return PlainSocket(poller, std::move(watch));
  }

  int fd() const { return watch_->fd; }

  auto Receive(std::span<iovec> vectors, msghdr* message, int flags) {
    FillMessage(message, vectors);
    auto attempt = [fd = fd(), message, flags] {
      return CountOrErrno(recvmsg(fd, message, flags));
    };
    return ReadinessOp(&watch_->reader, std::move(attempt));
  }

  auto Send(std::span<iovec> vectors, msghdr* message, int flags) {
    FillMessage(message, vectors);
    auto attempt = [fd = fd(), message, flags] {
      return CountOrErrno(sendmsg(fd, message, flags));
    };
    return ReadinessOp(&watch_->writer, std::move(attempt));
  }

  auto Accept(posix::SocketAddress* peer) {
    auto attempt = [fd = fd(), peer] {
      peer->size_bytes = sizeof(peer->storage);
      return CountOrErrno(accept4(fd, peer->get(), &peer->size_bytes,
                                  SOCK_CLOEXEC | SOCK_NONBLOCK));
    };
    return ReadinessOp(&watch_->reader, std::move(attempt));
  }
  template <typename Operation>
  void CancelAccept(const Operation* /*accept*/) {
    poller_->Wake(&watch_->reader);
  }

  absl::StatusOr<PlainSocket> Adopt(int fd) { return Make(poller_, fd); }
  void Forget() { poller_->Remove(watch_.get()); }
  void Close() {
    Forget();
    close(watch_->fd);
  }

 private:
  PlainSocket(Poller* poller, std::unique_ptr<FdWatch> watch)
      : poller_(poller), watch_(std::move(watch)) {}
  static void FillMessage(msghdr* message, std::span<iovec> vectors) {
    *message = {};
    message->msg_iov = vectors.data();
    message->msg_iovlen = vectors.size();
  }

  Poller* poller_;
  std::unique_ptr<FdWatch> watch_;  // Stays put while the socket moves.
};

}  // namespace cairn::io
