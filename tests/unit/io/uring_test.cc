#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>

#include "gtest/gtest.h"
#include "io/uring/uring_env.h"
#include "tests/support/status_matchers.h"

namespace cairn::io {
namespace {

constexpr int kConnections = 200;

// One byte from each of many peers.
struct Crowd {
  std::vector<int> peers;  // Raw sockets, connected to `streams`.
  std::vector<std::unique_ptr<Stream>> streams;
  std::vector<uint8_t> received;
  int failed = 0;
};

void ConnectRaw(const std::string& path, Crowd* crowd) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  CAIRN_CHECK(
      connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0);
  crowd->peers.push_back(fd);
}

Task<void> ReceiveByte(Crowd* crowd, size_t index) {
  const MutableBytes piece(&crowd->received[index], 1);
  const absl::Status status =
      co_await crowd->streams[index]->ReceiveAll({&piece, 1});
  if (!status.ok()) ++crowd->failed;
}

Task<void> ReceiveFromAllAtOnce(Env* env, std::string path, Crowd* crowd) {
  auto listener = co_await env->Listen("unix:" + path);
  CAIRN_CHECK(listener.ok());
  for (int i = 0; i < kConnections; ++i) {
    ConnectRaw(path, crowd);
    auto accepted = co_await (*listener)->Accept();
    CAIRN_CHECK(accepted.ok());
    crowd->streams.push_back(*std::move(accepted));
  }
  crowd->received.resize(kConnections);
  Gate gate(env);
  for (size_t i = 0; i < kConnections; ++i) {
    gate.Spawn(ReceiveByte(crowd, i));
  }
  co_await SleepFor(env, kMillisecond);  // All receives are in the kernel.
  for (int i = 0; i < kConnections; ++i) {
    const uint8_t byte = static_cast<uint8_t>(i);
    CAIRN_CHECK(write(crowd->peers[static_cast<size_t>(i)], &byte, 1) == 1);
  }
  co_await gate.Close();
  for (auto& stream : crowd->streams) co_await stream->Close();
  co_await (*listener)->Close();
  for (const int peer : crowd->peers) close(peer);
}

TEST(UringEnv, CompletionsBeyondTheQueueAreNotLost) {
  RingOptions tiny;
  tiny.submit_entries = 4;
  tiny.completion_entries = 8;
  LoopOptions options;
  options.pool_large_buffers = 1;
  auto env = MakeUringEnv(options, tiny);
  if (!env.ok()) GTEST_SKIP() << std::string(env.status().message());
  const std::string path =
      ::testing::TempDir() + "/cairn_crowd_" + std::to_string(getpid());
  Crowd crowd;
  (*env)->RunUntilDone(ReceiveFromAllAtOnce(env->get(), path, &crowd));
  EXPECT_EQ(crowd.failed, 0);
  for (size_t i = 0; i < kConnections; ++i) {
    EXPECT_EQ(crowd.received[i], static_cast<uint8_t>(i));
  }
}

}  // namespace
}  // namespace cairn::io
