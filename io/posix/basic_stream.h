// BasicStream and BasicListener: the sockets of both real backends. A Port does
// single operations; here are the loops, checks and errors around them.
//
// Port:
//   Receive(vectors, msghdr*, flags), Send(vectors, msghdr*, flags):
//       awaitables of an int64_t, the count moved or a negative errno;
//   Accept(SocketAddress*): the same, of a descriptor; an operation that
//   CancelAccept(operation*) makes end early with any result.
//   Adopt(fd):   a StatusOr<Port> for an accepted descriptor; on failure the
//                descriptor is closed.
//   Close():     closes the descriptor.
#pragma once

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <string>
#include <utility>

#include "io/env.h"
#include "io/posix/errno_status.h"
#include "io/posix/io_vectors.h"
#include "io/posix/sockets.h"

namespace cairn::io {

template <typename Port>
class BasicStream final : public Stream {
 public:
  BasicStream(Port port, std::string peer)
      : port_(std::move(port)), peer_(std::move(peer)) {}
  BasicStream(const BasicStream&) = delete;
  BasicStream& operator=(const BasicStream&) = delete;
  ~BasicStream() override { CloseNow(); }

  Task<absl::Status> ReceiveAll(std::span<const MutableBytes> to) override;
  Task<absl::StatusOr<uint64_t>> ReceiveSome(MutableBytes to) override;
  Task<absl::Status> SendAll(std::span<const ConstBytes> from,
                             bool more) override;
  void Shutdown() override {
    if (is_closed_ || std::exchange(is_shut_, true)) return;
    shutdown(port_.fd(), SHUT_RDWR);
  }
  std::string peer() const override { return peer_; }
  Task<void> Close() override {
    CAIRN_CHECK(!is_closed_);
    CloseNow();
    co_return;
  }

 private:
  void CloseNow() {
    CAIRN_CHECK(!is_receiving_ && !is_sending_);
    if (!std::exchange(is_closed_, true)) port_.Close();
  }
  absl::Status Shut() const {
    return absl::UnavailableError("connection to " + peer_ +
                                  " was shut down here");
  }
  // Why a receive that returned `result` (0 or a negative errno) got no more.
  absl::Status ReceiveFailure(int64_t result, bool got_some) const;
  // Whatever breaks a connection is kUnavailable.
  absl::Status Broken(int64_t result, const char* what) const {
    const absl::Status status =
        ErrnoStatus(static_cast<int>(-result), what + peer_);
    return absl::UnavailableError(status.message());
  }

  Port port_;
  const std::string peer_;
  bool is_receiving_ = false;
  bool is_sending_ = false;
  bool is_shut_ = false;
  bool is_closed_ = false;
};

template <typename Port>
Task<absl::Status> BasicStream<Port>::ReceiveAll(
    std::span<const MutableBytes> to) {
  CAIRN_CHECK(!is_closed_ && !std::exchange(is_receiving_, true));
  IoVectors<MutableBytes> rest(to);
  msghdr message;
  bool got_some = false;
  absl::Status status = is_shut_ ? Shut() : absl::OkStatus();
  while (status.ok() && !rest.done()) {
    auto receive = port_.Receive(rest.Next(), &message, MSG_WAITALL);
    const int64_t count = co_await receive;
    if (count > 0) {
      rest.Advance(static_cast<uint64_t>(count));
      got_some = true;
      if (is_shut_ && !rest.done()) status = Shut();
    } else if (count == 0 || !IsTransient(static_cast<int>(-count))) {
      status = ReceiveFailure(count, got_some);
    }
  }
  is_receiving_ = false;
  co_return status;
}

template <typename Port>
Task<absl::StatusOr<uint64_t>> BasicStream<Port>::ReceiveSome(MutableBytes to) {
  CAIRN_CHECK(!is_closed_ && !std::exchange(is_receiving_, true));
  CAIRN_CHECK(!to.empty());
  IoVectors<MutableBytes> rest(std::span<const MutableBytes>(&to, 1));
  msghdr message;
  int64_t count = -ESHUTDOWN;
  while (!is_shut_) {
    auto receive = port_.Receive(rest.Next(), &message, 0);
    count = co_await receive;
    if (count >= 0 || !IsTransient(static_cast<int>(-count))) break;
  }
  is_receiving_ = false;
  if (count > 0) co_return static_cast<uint64_t>(count);
  if (is_shut_) co_return Shut();
  if (count == 0) co_return uint64_t{0};
  co_return Broken(count, "receive from ");
}

template <typename Port>
Task<absl::Status> BasicStream<Port>::SendAll(std::span<const ConstBytes> from,
                                              bool more) {
  CAIRN_CHECK(!is_closed_ && !std::exchange(is_sending_, true));
  IoVectors<ConstBytes> rest(from);
  msghdr message;
  absl::Status status = is_shut_ ? Shut() : absl::OkStatus();
  while (status.ok() && !rest.done()) {
    const std::span<iovec> next = rest.Next();
    int flags = MSG_NOSIGNAL;
    if (more || !rest.is_last()) flags |= MSG_MORE;
    auto send = port_.Send(next, &message, flags);
    const int64_t count = co_await send;
    if (count >= 0) {
      rest.Advance(static_cast<uint64_t>(count));
    } else if (!IsTransient(static_cast<int>(-count))) {
      status = is_shut_ ? Shut() : Broken(count, "send to ");
    }
  }
  is_sending_ = false;
  co_return status;
}

template <typename Port>
absl::Status BasicStream<Port>::ReceiveFailure(int64_t result,
                                               bool got_some) const {
  if (is_shut_) return Shut();
  if (result < 0) return Broken(result, "receive from ");
  if (!got_some) return absl::UnavailableError("end of stream");
  return absl::UnavailableError(peer_ +
                                " closed the connection inside a message");
}

template <typename Port>
class BasicListener final : public Listener {
 public:
  BasicListener(Port port, posix::ListeningSocket socket)
      : port_(std::move(port)), socket_(socket) {}
  BasicListener(const BasicListener&) = delete;
  BasicListener& operator=(const BasicListener&) = delete;
  ~BasicListener() override { CloseNow(); }

  Task<absl::StatusOr<std::unique_ptr<Stream>>> Accept() override;
  std::string address() const override {
    return posix::FormatAddress(socket_.address);
  }
  void Shutdown() override {
    if (is_closed_ || std::exchange(is_shut_, true)) return;
    if (accepting_ != nullptr) port_.CancelAccept(accepting_);
  }
  Task<void> Close() override {
    CAIRN_CHECK(!is_closed_);
    CloseNow();
    co_return;
  }

 private:
  using AcceptOperation = decltype(std::declval<Port&>().Accept(
      std::declval<posix::SocketAddress*>()));

  void CloseNow() {
    CAIRN_CHECK(accepting_ == nullptr);
    if (std::exchange(is_closed_, true)) return;
    port_.Forget();
    posix::CloseListening(socket_);
  }
  absl::StatusOr<std::unique_ptr<Stream>> MakeStream(
      int fd, const posix::SocketAddress& peer);

  Port port_;
  const posix::ListeningSocket socket_;
  AcceptOperation* accepting_ = nullptr;
  bool is_shut_ = false;
  bool is_closed_ = false;
};

// A connection that died before it was accepted says nothing about the others.
inline bool IsOfOneConnection(int error) {
  return error == ECONNABORTED || error == EPROTO || error == ECONNRESET ||
         error == EHOSTDOWN || error == EHOSTUNREACH || error == ENETUNREACH;
}

template <typename Port>
Task<absl::StatusOr<std::unique_ptr<Stream>>> BasicListener<Port>::Accept() {
  CAIRN_CHECK(!is_closed_ && accepting_ == nullptr);
  while (!is_shut_) {
    posix::SocketAddress peer;
    auto accept = port_.Accept(&peer);
    accepting_ = &accept;
    const int64_t result = co_await accept;
    accepting_ = nullptr;
    if (is_shut_) {
      if (result >= 0) close(static_cast<int>(result));
      break;
    }
    if (result >= 0) co_return MakeStream(static_cast<int>(result), peer);
    const int error = static_cast<int>(-result);
    if (!IsTransient(error) && !IsOfOneConnection(error)) {
      co_return ErrnoStatus(error, "accept on " + address());
    }
  }
  co_return absl::UnavailableError(address() + ": listener was shut down");
}

template <typename Port>
absl::StatusOr<std::unique_ptr<Stream>> BasicListener<Port>::MakeStream(
    int fd, const posix::SocketAddress& peer) {
  posix::TuneConnected(fd, socket_.address.family());
  CAIRN_ASSIGN_OR_RETURN(Port port, port_.Adopt(fd));
  return std::make_unique<BasicStream<Port>>(std::move(port),
                                             posix::FormatAddress(peer));
}

}  // namespace cairn::io
