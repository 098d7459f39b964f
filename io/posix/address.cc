#include "io/posix/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <charconv>
#include <cstddef>
#include <cstring>

#include "format/base/bytes.h"
#include "io/limits.h"

namespace cairn::io::posix {
namespace {

constexpr std::string_view kUnixPrefix = "unix:";
static_assert(kUnixPathBytesMax < sizeof(sockaddr_un::sun_path));

absl::Status Malformed(std::string_view text) {
  return absl::InvalidArgumentError(absl::StrCat(
      "not an address (127.0.0.1:7400, [::1]:7400 or unix:/path): ",
      AbslText(text)));
}

absl::StatusOr<SocketAddress> ParseUnix(std::string_view path) {
  if (path.empty() || path.size() > kUnixPathBytesMax ||
      path.find('\0') != std::string_view::npos) {
    return Malformed(path);
  }
  sockaddr_un unix_address = {};
  unix_address.sun_family = AF_UNIX;
  std::memcpy(unix_address.sun_path, path.data(), path.size());
  SocketAddress address;
  std::memcpy(&address.storage, &unix_address, sizeof(unix_address));
  address.size_bytes =
      static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size() + 1);
  return address;
}

template <typename T>
SocketAddress Pack(const T& from) {
  SocketAddress address;
  std::memcpy(&address.storage, &from, sizeof(T));
  address.size_bytes = sizeof(T);
  return address;
}

}  // namespace

absl::StatusOr<SocketAddress> ParseAddress(std::string_view text) {
  if (text.starts_with(kUnixPrefix)) {
    return ParseUnix(text.substr(kUnixPrefix.size()));
  }
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return Malformed(text);
  const std::string_view port_text = text.substr(colon + 1);
  uint16_t port = 0;
  const auto [end, error] = std::from_chars(
      port_text.data(), port_text.data() + port_text.size(), port);
  if (error != std::errc() || end != port_text.data() + port_text.size()) {
    return Malformed(text);
  }
  std::string host(text.substr(0, colon));
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
    sockaddr_in6 v6 = {};
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(port);
    if (inet_pton(AF_INET6, host.c_str(), &v6.sin6_addr) == 1) return Pack(v6);
  }
  sockaddr_in v4 = {};
  v4.sin_family = AF_INET;
  v4.sin_port = htons(port);
  if (inet_pton(AF_INET, host.c_str(), &v4.sin_addr) == 1) return Pack(v4);
  return Malformed(text);
}

std::string FormatAddress(const SocketAddress& address) {
  char host[INET6_ADDRSTRLEN] = {};
  switch (address.family()) {
    case AF_INET: {
      const auto v4 = format::LoadLe<sockaddr_in>(&address.storage);
      inet_ntop(AF_INET, &v4.sin_addr, host, sizeof(host));
      return absl::StrCat(host, ":", ntohs(v4.sin_port));
    }
    case AF_INET6: {
      const auto v6 = format::LoadLe<sockaddr_in6>(&address.storage);
      inet_ntop(AF_INET6, &v6.sin6_addr, host, sizeof(host));
      return absl::StrCat("[", host, "]:", ntohs(v6.sin6_port));
    }
    case AF_UNIX: {
      const auto path = format::LoadLe<sockaddr_un>(&address.storage);
      const size_t start = offsetof(sockaddr_un, sun_path);
      const size_t room =
          address.size_bytes > start ? address.size_bytes - start : 0;
      return std::string(kUnixPrefix) +
             std::string(path.sun_path, strnlen(path.sun_path, room));
    }
    default:
      return absl::StrCat("address family ", address.family());
  }
}

}  // namespace cairn::io::posix
