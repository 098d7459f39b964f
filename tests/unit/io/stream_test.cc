#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "tests/unit/io/real_env_fixture.h"

namespace cairn::io {
namespace {

using format::kMiB;
using testing::StatusIs;

using StreamOr = absl::StatusOr<std::unique_ptr<Stream>>;

Task<void> AcceptInto(Listener* listener, StreamOr* accepted) {
  *accepted = co_await listener->Accept();
}

Task<void> ConnectInto(Env* env, std::string address, StreamOr* connected) {
  *connected = co_await env->Connect(address, env->NowNs() + 10 * kSecond);
}

Task<void> ReceiveInto(Stream* stream, std::vector<MutableBytes> to,
                       absl::Status* status) {
  *status = co_await stream->ReceiveAll(to);
}

Task<void> SendFrom(Stream* stream, std::vector<ConstBytes> from,
                    absl::Status* status) {
  *status = co_await stream->SendAll(from);
}

// `bytes` in pieces whose sizes walk through odd numbers, some of them zero.
template <typename Bytes>
std::vector<Bytes> Scatter(Bytes bytes, uint64_t step) {
  std::vector<Bytes> pieces;
  for (uint64_t i = 0; !bytes.empty(); ++i) {
    const uint64_t wanted = i % 7 == 3 ? 0 : (i * step) % 1'000'003;
    const uint64_t size_bytes = std::min<uint64_t>(wanted, bytes.size());
    pieces.push_back(bytes.first(size_bytes));
    bytes = bytes.subspan(size_bytes);
  }
  return pieces;
}

class StreamTest : public RealEnvTest {
 protected:
  void SetUp() override {
    RealEnvTest::SetUp();
    if (env_ != nullptr) Connect("127.0.0.1:0");
  }
  void TearDown() override {
    CloseAll();
    RealEnvTest::TearDown();
  }

  void CloseAll() {
    for (auto* const stream : {&client_, &server_}) {
      if (*stream == nullptr) continue;
      Run((*stream)->Close());
      stream->reset();
    }
    if (listener_ != nullptr) Run(listener_->Close());
    listener_.reset();
  }

  void Connect(const std::string& address) {
    auto listener = Get(env_->Listen(address));
    ASSERT_OK(listener);
    listener_ = *std::move(listener);
    StreamOr accepted = absl::UnknownError("not run");
    StreamOr connected = absl::UnknownError("not run");
    Run(Pair(env_.get(), listener_.get(), &accepted, &connected));
    ASSERT_OK(accepted);
    ASSERT_OK(connected);
    server_ = *std::move(accepted);
    client_ = *std::move(connected);
  }

  static Task<void> Pair(Env* env, Listener* listener, StreamOr* accepted,
                         StreamOr* connected) {
    Gate gate(env);
    gate.Spawn(AcceptInto(listener, accepted));
    gate.Spawn(ConnectInto(env, listener->address(), connected));
    co_await gate.Close();
  }

  struct Exchange {
    std::vector<uint8_t> from_client = Noise(64 * kMiB, 1);
    std::vector<uint8_t> from_server = Noise(64 * kMiB, 2);
    std::vector<uint8_t> to_client = std::vector<uint8_t>(64 * kMiB);
    std::vector<uint8_t> to_server = std::vector<uint8_t>(64 * kMiB);
    std::vector<absl::Status> statuses =
        std::vector<absl::Status>(4, absl::UnknownError("not run"));
  };
  static Task<void> ExchangeAll(Env* env, Stream* client, Stream* server,
                                Exchange* all) {
    Gate gate(env);
    std::vector<absl::Status>& statuses = all->statuses;
    gate.Spawn(SendFrom(client, Scatter(ConstBytes(all->from_client), 4097),
                        &statuses[0]));
    gate.Spawn(ReceiveInto(client, Scatter(MutableBytes(all->to_client), 65537),
                           &statuses[1]));
    gate.Spawn(SendFrom(server, Scatter(ConstBytes(all->from_server), 99991),
                        &statuses[2]));
    gate.Spawn(ReceiveInto(server, Scatter(MutableBytes(all->to_server), 1009),
                           &statuses[3]));
    co_await gate.Close();
  }
  void ExpectExchange() {
    Exchange all;
    Run(ExchangeAll(env_.get(), client_.get(), server_.get(), &all));
    for (const absl::Status& status : all.statuses) EXPECT_OK(status);
    EXPECT_TRUE(all.to_server == all.from_client);
    EXPECT_TRUE(all.to_client == all.from_server);
  }

  absl::Status Send(Stream* stream, const std::vector<uint8_t>& bytes) {
    const ConstBytes piece(bytes);
    return Get(stream->SendAll({&piece, 1}));
  }
  absl::Status Receive(Stream* stream, std::vector<uint8_t>* bytes) {
    const MutableBytes piece(*bytes);
    return Get(stream->ReceiveAll({&piece, 1}));
  }

  std::unique_ptr<Listener> listener_;
  std::unique_ptr<Stream> server_;
  std::unique_ptr<Stream> client_;
};
CAIRN_FOR_BOTH_BACKENDS(StreamTest);

TEST_P(StreamTest, ScatteredBytesCrossBothWaysAtOnce) { ExpectExchange(); }

TEST_P(StreamTest, UnixSocketCarriesScatteredBytesBothWaysAtOnce) {
  CloseAll();
  Connect("unix:" + PathOf("socket"));
  ExpectExchange();
}

TEST_P(StreamTest, PeersAreNamedByTheirAddresses) {
  EXPECT_EQ(client_->peer(), listener_->address());
  EXPECT_EQ(server_->peer().substr(0, 10), "127.0.0.1:");
  EXPECT_NE(server_->peer(), listener_->address());
}

TEST_P(StreamTest, ReceiveSomeReturnsWhatThereIsAndZeroAtTheEnd) {
  ASSERT_OK(Send(client_.get(), Noise(10, 1)));
  std::vector<uint8_t> to(100);
  EXPECT_EQ(*Get(server_->ReceiveSome(to)), 10u);
  to.resize(10);
  EXPECT_EQ(to, Noise(10, 1));
  client_->Shutdown();
  EXPECT_EQ(*Get(server_->ReceiveSome(to)), 0u);
}

TEST_P(StreamTest, PeerThatClosesBetweenMessagesIsTheEndOfTheStream) {
  client_->Shutdown();
  std::vector<uint8_t> to(10);
  const absl::Status status = Receive(server_.get(), &to);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(std::string(status.message()), "end of stream");
}

TEST_P(StreamTest, PeerThatClosesInsideAMessageIsNotTheEndOfTheStream) {
  ASSERT_OK(Send(client_.get(), Noise(5, 1)));
  client_->Shutdown();
  std::vector<uint8_t> to(10);
  EXPECT_THAT(Receive(server_.get(), &to),
              StatusIs(absl::StatusCode::kUnavailable, "inside a message"));
}

TEST_P(StreamTest, SendToAPeerThatIsGoneFailsAndTheProcessLives) {
  Run(server_->Close());
  server_.reset();
  const std::vector<uint8_t> bytes = Noise(kMiB, 1);
  absl::Status status;
  for (int i = 0; i < 100 && status.ok(); ++i) {
    status = Send(client_.get(), bytes);
  }
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kUnavailable, "send to"));
}

Task<void> ShutdownAfterTurns(Env* env, Stream* stream) {
  for (int i = 0; i < 3; ++i) co_await SleepFor(env, kMillisecond);
  stream->Shutdown();
  stream->Shutdown();
}

Task<void> ShutdownWhileBusy(Env* env, Stream* stream, MutableBytes to,
                             ConstBytes from,
                             std::vector<absl::Status>* statuses) {
  Gate gate(env);
  gate.Spawn(ReceiveInto(stream, Scatter(to, 1), &(*statuses)[0]));
  gate.Spawn(SendFrom(stream, Scatter(from, 65537), &(*statuses)[1]));
  gate.Spawn(ShutdownAfterTurns(env, stream));
  co_await gate.Close();
}

TEST_P(StreamTest, ShutdownEndsReceiveAndSendInFlightAndLaterOnes) {
  std::vector<uint8_t> to(10);
  const std::vector<uint8_t> bytes = Noise(64 * kMiB, 1);
  std::vector<absl::Status> statuses(2);
  Run(ShutdownWhileBusy(env_.get(), client_.get(), to, bytes, &statuses));
  const auto shut = StatusIs(absl::StatusCode::kUnavailable, "shut down here");
  EXPECT_THAT(statuses[0], shut);
  EXPECT_THAT(statuses[1], shut);
  EXPECT_THAT(Receive(client_.get(), &to), shut);
  EXPECT_THAT(Send(client_.get(), bytes), shut);
  EXPECT_THAT(Get(client_->ReceiveSome(to)), shut);
}

TEST_P(StreamTest, BytesThatArrivedBeforeShutdownAreNotReceivedAfterIt) {
  ASSERT_OK(Send(client_.get(), Noise(10, 1)));
  server_->Shutdown();
  std::vector<uint8_t> to(10);
  EXPECT_THAT(Receive(server_.get(), &to),
              StatusIs(absl::StatusCode::kUnavailable, "shut down here"));
}

TEST_P(StreamTest, ConnectWhereNobodyListensIsUnavailable) {
  const std::string address = listener_->address();
  Run(listener_->Close());
  listener_.reset();
  const TimeNs deadline = env_->NowNs() + 10 * kSecond;
  EXPECT_THAT(Get(env_->Connect(address, deadline)),
              StatusIs(absl::StatusCode::kUnavailable, "ECONNREFUSED"));
  EXPECT_THAT(Get(env_->Connect("unix:" + PathOf("absent"), deadline)),
              StatusIs(absl::StatusCode::kUnavailable, "absent"));
}

TEST_P(StreamTest, ConnectAfterItsDeadlineIsNotTried) {
  EXPECT_THAT(Get(env_->Connect(listener_->address(), env_->NowNs())),
              StatusIs(absl::StatusCode::kDeadlineExceeded, "connect to"));
}

// A listening socket that accepts nothing, with its backlog filled, so that
// further connects hang.
class FullListener {
 public:
  // Binds to `address`, a sockaddr, and keeps the address it got.
  template <typename Address>
  explicit FullListener(Address* address) {
    auto* const generic = reinterpret_cast<sockaddr*>(address);
    const int family = generic->sa_family;
    socklen_t size_bytes = sizeof(Address);
    fd_ = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CAIRN_CHECK(bind(fd_, generic, size_bytes) == 0 && listen(fd_, 0) == 0);
    if (family == AF_INET) getsockname(fd_, generic, &size_bytes);
    for (int& client : clients_) {
      client = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
      connect(client, generic, size_bytes);
    }
  }
  FullListener(const FullListener&) = delete;
  FullListener& operator=(const FullListener&) = delete;
  ~FullListener() {
    for (const int client : clients_) close(client);
    close(fd_);
  }

 private:
  int fd_;
  int clients_[4];
};

TEST_P(StreamTest, ConnectThatHangsEndsAtItsDeadline) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const FullListener full(&address);
  const std::string text =
      "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
  const TimeNs deadline = env_->NowNs() + 50 * kMillisecond;
  EXPECT_THAT(Get(env_->Connect(text, deadline)),
              StatusIs(absl::StatusCode::kDeadlineExceeded, text));
  EXPECT_GE(env_->NowNs(), deadline);
}

TEST_P(StreamTest, ConnectToABusyUnixSocketEndsAtItsDeadline) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  const std::string path = PathOf("socket");
  std::ranges::copy(path, address.sun_path);
  const FullListener full(&address);
  const TimeNs deadline = env_->NowNs() + 50 * kMillisecond;
  EXPECT_THAT(Get(env_->Connect("unix:" + path, deadline)),
              StatusIs(absl::StatusCode::kDeadlineExceeded, path));
  EXPECT_GE(env_->NowNs(), deadline);
}

TEST_P(StreamTest, ListenOnAUsedAddressAlreadyExists) {
  EXPECT_THAT(Get(env_->Listen(listener_->address())),
              StatusIs(absl::StatusCode::kAlreadyExists, "EADDRINUSE"));
  const std::string path = "unix:" + PathOf("socket");
  auto first = Get(env_->Listen(path));
  ASSERT_OK(first);
  EXPECT_THAT(Get(env_->Listen(path)),
              StatusIs(absl::StatusCode::kAlreadyExists, "EADDRINUSE"));
  Run((*first)->Close());
  EXPECT_FALSE(std::filesystem::exists(PathOf("socket")));
}

TEST_P(StreamTest, SocketFileOfAKilledProcessIsReplaced) {
  const std::string path = PathOf("socket");
  const std::string address = "unix:" + path;
  auto first = Get(env_->Listen(address));
  ASSERT_OK(first);
  // What a killed process leaves: the name, and nobody behind it.
  std::filesystem::create_hard_link(path, path + ".kept");
  Run((*first)->Close());
  std::filesystem::rename(path + ".kept", path);
  auto second = Get(env_->Listen(address));
  ASSERT_OK(second);
  Run((*second)->Close());
}

TEST_P(StreamTest, TextThatIsNoAddressIsRefused) {
  for (const char* const text :
       {"", "7400", "localhost:7400", "127.0.0.1", "127.0.0.1:", "[::1]",
        "127.0.0.1:65536", "127.0.0.1:-1", "127.0.0.1:80x", "::1:80",
        "unix:"}) {
    EXPECT_THAT(Get(env_->Listen(text)),
                StatusIs(absl::StatusCode::kInvalidArgument, "not an address"))
        << text;
  }
  const std::string too_long = "unix:/" + std::string(107, 'x');
  EXPECT_THAT(Get(env_->Connect(too_long, kNoDeadline)),
              StatusIs(absl::StatusCode::kInvalidArgument, "not an address"));
}

Task<void> ShutdownListenerSoon(Env* env, Listener* listener) {
  for (int i = 0; i < 3; ++i) co_await SleepFor(env, kMillisecond);
  listener->Shutdown();
  listener->Shutdown();
}

Task<void> AcceptUntilShutdown(Env* env, Listener* listener,
                               StreamOr* accepted) {
  Gate gate(env);
  gate.Spawn(AcceptInto(listener, accepted));
  gate.Spawn(ShutdownListenerSoon(env, listener));
  co_await gate.Close();
}

TEST_P(StreamTest, ListenerShutdownEndsAcceptInFlightAndLaterOnes) {
  StreamOr accepted = absl::UnknownError("not run");
  Run(AcceptUntilShutdown(env_.get(), listener_.get(), &accepted));
  const auto shut = StatusIs(absl::StatusCode::kUnavailable, "shut down");
  EXPECT_THAT(accepted, shut);
  EXPECT_THAT(Get(listener_->Accept()), shut);
}

}  // namespace
}  // namespace cairn::io
