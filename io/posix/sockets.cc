#include "io/posix/sockets.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "io/limits.h"
#include "io/posix/errno_status.h"

namespace cairn::io::posix {
namespace {

constexpr char kCongestionControl[] = "cubic";

int OpenSocket(int family, SocketMode mode) {
  int type = SOCK_STREAM | SOCK_CLOEXEC;
  if (mode == SocketMode::kNonBlocking) type |= SOCK_NONBLOCK;
  return socket(family, type, 0);
}

std::string UnixPathOf(const SocketAddress& address) {
  return FormatAddress(address).substr(sizeof("unix:") - 1);
}

// True if `address` is the file of a Unix socket that refuses connections.
bool IsStaleUnixSocket(const SocketAddress& address) {
  if (address.family() != AF_UNIX) return false;
  struct stat info;
  if (lstat(UnixPathOf(address).c_str(), &info) != 0) return false;
  if (!S_ISSOCK(info.st_mode)) return false;
  const int fd = OpenSocket(AF_UNIX, SocketMode::kNonBlocking);
  if (fd < 0) return false;
  const bool refused = connect(fd, address.get(), address.size_bytes) != 0 &&
                       errno == ECONNREFUSED;
  close(fd);
  return refused;
}

void NoticeLostPeers(int fd) {
  const int on = 1;
  setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
  const int idle = kKeepaliveIdleSeconds;
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
  const int interval = kKeepaliveIntervalSeconds;
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof(interval));
  const int probes = kKeepaliveProbes;
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes));
  const unsigned unacked = kUnackedTimeoutMs;
  setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &unacked, sizeof(unacked));
}

// 0, or the errno.
int BindAndListen(int fd, const SocketAddress& address) {
  if (bind(fd, address.get(), address.size_bytes) != 0) return errno;
  if (listen(fd, kListenBacklog) != 0) return errno;
  return 0;
}

}  // namespace

absl::StatusOr<int> MakeSocket(int family, SocketMode mode) {
  const int fd = OpenSocket(family, mode);
  if (fd < 0) {
    const int error = errno;
    return ErrnoStatus(error, "socket");
  }
  return fd;
}

void TuneConnected(int fd, int family) {
  if (family == AF_UNIX) return;
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, kCongestionControl,
             sizeof(kCongestionControl) - 1);
  NoticeLostPeers(fd);
}

absl::StatusOr<ListeningSocket> ListenOn(const std::string& address,
                                         SocketMode mode) {
  ListeningSocket listening;
  CAIRN_ASSIGN_OR_RETURN(listening.address, ParseAddress(address));
  CAIRN_ASSIGN_OR_RETURN(listening.fd,
                         MakeSocket(listening.address.family(), mode));
  const int on = 1;
  setsockopt(listening.fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  TuneConnected(listening.fd, listening.address.family());
  int error = BindAndListen(listening.fd, listening.address);
  if (error == EADDRINUSE && IsStaleUnixSocket(listening.address)) {
    unlink(UnixPathOf(listening.address).c_str());
    error = BindAndListen(listening.fd, listening.address);
  }
  if (error != 0) {
    close(listening.fd);
    return ErrnoStatus(error, "listen on " + address);
  }
  if (listening.address.family() != AF_UNIX) {
    listening.address.size_bytes = sizeof(listening.address.storage);
    CAIRN_CHECK(getsockname(listening.fd, listening.address.get(),
                            &listening.address.size_bytes) == 0);
  }
  return listening;
}

void CloseListening(const ListeningSocket& socket) {
  if (socket.address.family() == AF_UNIX) {
    unlink(UnixPathOf(socket.address).c_str());
  }
  close(socket.fd);
}

absl::Status ConnectStatus(int error, const std::string& address) {
  const std::string what = "connect to " + address;
  switch (error) {
    case ENOENT:         // No Unix socket there yet: like a refused port.
    case EADDRNOTAVAIL:  // All local ports are in use for now.
    case EAGAIN:
      return absl::UnavailableError(ErrnoStatus(error, what).message());
    default:
      return ErrnoStatus(error, what);
  }
}

}  // namespace cairn::io::posix
