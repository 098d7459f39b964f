// Socket addresses as text: "127.0.0.1:7400", "[::1]:7400", "unix:/path".
//
// Threads: any.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <string>
#include <string_view>

#include "format/base/status.h"

namespace cairn::io::posix {

struct SocketAddress {
  sockaddr_storage storage = {};
  socklen_t size_bytes = sizeof(sockaddr_storage);

  int family() const { return storage.ss_family; }
  const sockaddr* get() const {
    return reinterpret_cast<const sockaddr*>(&storage);
  }
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
};

// kInvalidArgument: not one of the three forms. Names are not looked up.
absl::StatusOr<SocketAddress> ParseAddress(std::string_view text);

// The inverse. A Unix socket without a path (an accepted one) is "unix:".
std::string FormatAddress(const SocketAddress& address);

}  // namespace cairn::io::posix
