#include "io/posix/sockets.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include "gtest/gtest.h"
#include "io/limits.h"
#include "tests/support/status_matchers.h"

namespace cairn::io::posix {
namespace {

int OptionOf(int fd, int level, int name) {
  int value = -1;
  socklen_t size = sizeof(value);
  EXPECT_EQ(getsockopt(fd, level, name, &value, &size), 0);
  return value;
}

TEST(Sockets, TcpConnectionsNoticePeersThatVanish) {
  const absl::StatusOr<int> fd = MakeSocket(AF_INET, SocketMode::kBlocking);
  ASSERT_OK(fd);
  TuneConnected(*fd, AF_INET);
  EXPECT_EQ(OptionOf(*fd, SOL_SOCKET, SO_KEEPALIVE), 1);
  EXPECT_EQ(OptionOf(*fd, IPPROTO_TCP, TCP_KEEPIDLE), kKeepaliveIdleSeconds);
  EXPECT_EQ(OptionOf(*fd, IPPROTO_TCP, TCP_KEEPINTVL),
            kKeepaliveIntervalSeconds);
  EXPECT_EQ(OptionOf(*fd, IPPROTO_TCP, TCP_KEEPCNT), kKeepaliveProbes);
  EXPECT_EQ(OptionOf(*fd, IPPROTO_TCP, TCP_USER_TIMEOUT),
            static_cast<int>(kUnackedTimeoutMs));
  EXPECT_EQ(OptionOf(*fd, IPPROTO_TCP, TCP_NODELAY), 1);
  close(*fd);
}

}  // namespace
}  // namespace cairn::io::posix
