// Making sockets, shared by both backends. TCP sockets get TCP_NODELAY, the
// cubic congestion control (the default here may be BBR, at 0.8 of the rate),
// and keepalive, so that a peer that vanished is noticed within
// kUnackedTimeoutMs; buffer sizes stay the kernel's to tune.
//
// Threads: any.
#pragma once

#include <string>

#include "format/base/status.h"
#include "io/posix/address.h"

namespace cairn::io::posix {

// kNonBlocking for epoll. Rings want blocking sockets: they wait inside.
enum class SocketMode { kBlocking, kNonBlocking };

// An unconnected stream socket for `family`; the caller owns it.
absl::StatusOr<int> MakeSocket(int family, SocketMode mode);
// Options of a connected or accepted socket; best effort.
void TuneConnected(int fd, int family);

struct ListeningSocket {
  int fd = -1;
  SocketAddress address;  // With the real port.
};

// kAlreadyExists: someone listens there. A Unix socket file that nobody listens
// on (left by a process that was killed) is replaced.
absl::StatusOr<ListeningSocket> ListenOn(const std::string& address,
                                         SocketMode mode);
// Closes it; removes the file of a Unix socket.
void CloseListening(const ListeningSocket& socket);

// What a failed connect() means: everything that time may mend is kUnavailable.
absl::Status ConnectStatus(int error, const std::string& address);

}  // namespace cairn::io::posix
