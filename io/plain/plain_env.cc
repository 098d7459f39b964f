#include "io/plain/plain_env.h"

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>

#include "io/loop/loop_core.h"
#include "io/plain/plain_ports.h"
#include "io/plain/poller.h"
#include "io/posix/basic_file.h"
#include "io/posix/basic_stream.h"
#include "io/posix/sockets.h"

namespace cairn::io {
namespace {

class PlainEnv final : public LoopCore {
 public:
  explicit PlainEnv(const LoopOptions& options)
      : LoopCore(options, kPlainFileThreads), poller_(this, mailbox()) {}

  Task<absl::StatusOr<std::unique_ptr<Listener>>> Listen(
      std::string address) override;
  Task<absl::StatusOr<std::unique_ptr<Stream>>> Connect(
      std::string address, TimeNs deadline) override;
  const char* name() const override { return "plain"; }

 private:
  void Poll(TimeNs timeout_ns) override;
  std::unique_ptr<File> MakeFile(posix::OpenedFile opened, OpenOptions options,
                                 std::string path) override;
  Task<absl::Status> ConnectSocket(int fd, const posix::SocketAddress* peer,
                                   const std::string* address, TimeNs deadline);

  Poller poller_;
  uint32_t turns_without_poll_ = 0;
};

void PlainEnv::Poll(TimeNs timeout_ns) {
  // Coroutines that only wake each other need no system call a turn.
  if (timeout_ns == 0 && ++turns_without_poll_ < kTurnsWithoutPollMax) return;
  turns_without_poll_ = 0;
  poller_.Poll(timeout_ns);
}

std::unique_ptr<File> PlainEnv::MakeFile(posix::OpenedFile opened,
                                         OpenOptions options,
                                         std::string path) {
  PlainFilePort port(blocking(), opened.fd);
  return std::make_unique<BasicFile<PlainFilePort>>(port, opened, options,
                                                    std::move(path));
}

Task<absl::StatusOr<std::unique_ptr<Listener>>> PlainEnv::Listen(
    std::string address) {
  CAIRN_CO_ASSIGN_OR_RETURN(
      const posix::ListeningSocket listening,
      posix::ListenOn(address, posix::SocketMode::kNonBlocking));
  CAIRN_CO_ASSIGN_OR_RETURN(PlainSocket socket,
                            PlainSocket::Make(&poller_, listening.fd));
  co_return std::make_unique<BasicListener<PlainSocket>>(std::move(socket),
                                                         listening);
}

// Until connected; both pointers are the caller's, who awaits this.
Task<absl::Status> PlainEnv::ConnectSocket(int fd,
                                           const posix::SocketAddress* peer,
                                           const std::string* address,
                                           TimeNs deadline) {
  for (;;) {
    if (connect(fd, peer->get(), peer->size_bytes) == 0) break;
    const int error = errno;
    if (error == EISCONN) break;
    if (error == EINTR) continue;
    // In progress, or a Unix socket whose backlog is full: ask again. A TCP
    // connect is then answered with how it went.
    const bool is_under_way = error == EINPROGRESS || error == EALREADY;
    if (!is_under_way && error != EAGAIN) {
      co_return posix::ConnectStatus(error, *address);
    }
    if (NowNs() >= deadline) {
      co_return absl::DeadlineExceededError("connect to " + *address);
    }
    if (!is_under_way) {
      const TimeNs again = std::min(NowNs() + kConnectRetryNs, deadline);
      co_await SleepUntil(this, again);
      continue;
    }
    // Watched by itself only now: an unconnected socket reports an edge.
    FdWatch watch;
    watch.fd = fd;
    CAIRN_CO_RETURN_IF_ERROR(poller_.Add(&watch));
    ReadinessWait writable(this, &watch.writer, deadline);
    co_await writable;
    poller_.Remove(&watch);
  }
  co_return absl::OkStatus();
}

Task<absl::StatusOr<std::unique_ptr<Stream>>> PlainEnv::Connect(
    std::string address, TimeNs deadline) {
  CAIRN_CO_ASSIGN_OR_RETURN(const posix::SocketAddress peer,
                            posix::ParseAddress(address));
  if (NowNs() >= deadline) {
    co_return absl::DeadlineExceededError("connect to " + address);
  }
  CAIRN_CO_ASSIGN_OR_RETURN(
      const int fd,
      posix::MakeSocket(peer.family(), posix::SocketMode::kNonBlocking));
  posix::TuneConnected(fd, peer.family());
  const absl::Status connected =
      co_await ConnectSocket(fd, &peer, &address, deadline);
  if (!connected.ok()) {
    close(fd);
    co_return connected;
  }
  CAIRN_CO_ASSIGN_OR_RETURN(PlainSocket socket,
                            PlainSocket::Make(&poller_, fd));
  co_return std::make_unique<BasicStream<PlainSocket>>(std::move(socket),
                                                       std::move(address));
}

}  // namespace

std::unique_ptr<RealEnv> MakePlainEnv(const LoopOptions& options) {
  return std::make_unique<PlainEnv>(options);
}

}  // namespace cairn::io
