// Listeners and streams: see env_conformance.h.
#include <algorithm>
#include <array>

#include "tests/conformance/io/env_conformance.h"

namespace cairn::io {
namespace {

using cairn::testing::IsOk;
using cairn::testing::StatusIs;

// A listener and both ends of one connection through it.
struct Pair {
  std::unique_ptr<Listener> listener;
  std::unique_ptr<Stream> client;
  std::unique_ptr<Stream> server;
};

Task<void> AcceptInto(Listener* listener, absl::Status* status,
                      std::unique_ptr<Stream>* stream) {
  auto accepted = co_await listener->Accept();
  *status = accepted.status();
  if (accepted.ok()) *stream = *std::move(accepted);
}

Task<Pair> MakePair(Env* env, std::string address) {
  Pair pair;
  auto listening = co_await env->Listen(address);
  EXPECT_OK(listening.status());
  if (!listening.ok()) co_return pair;
  pair.listener = *std::move(listening);
  Gate gate(env);
  absl::Status accepted;
  gate.Spawn(AcceptInto(pair.listener.get(), &accepted, &pair.server));
  auto connected = co_await env->Connect(pair.listener->address(), kNoDeadline);
  EXPECT_OK(connected.status());
  if (connected.ok()) {
    pair.client = *std::move(connected);
  } else {
    pair.listener->Shutdown();
  }
  co_await gate.Close();
  EXPECT_OK(accepted);
  co_return pair;
}

Task<void> ClosePair(Pair* pair) {
  if (pair->client) co_await pair->client->Close();
  if (pair->server) co_await pair->server->Close();
  if (pair->listener) {
    pair->listener->Shutdown();
    co_await pair->listener->Close();
  }
}

std::vector<ConstBytes> CutForSending(const std::vector<uint8_t>& bytes,
                                      std::vector<size_t> sizes) {
  std::vector<ConstBytes> pieces;
  ConstBytes left(bytes);
  for (const size_t size : sizes) {
    pieces.push_back(left.first(size));
    left = left.subspan(size);
  }
  pieces.push_back(left);
  return pieces;
}

std::vector<MutableBytes> CutForReceiving(std::vector<uint8_t>* bytes,
                                          std::vector<size_t> sizes) {
  std::vector<MutableBytes> pieces;
  MutableBytes left(*bytes);
  for (const size_t size : sizes) {
    pieces.push_back(left.first(size));
    left = left.subspan(size);
  }
  pieces.push_back(left);
  return pieces;
}

Task<void> SendPattern(Stream* stream, uint64_t seed, size_t size) {
  const std::vector<uint8_t> bytes = PatternOf(seed, size);
  const std::vector<ConstBytes> pieces =
      CutForSending(bytes, {1, 0, 4'095, 65'537, 1'000'000});
  const absl::Status sent = co_await stream->SendAll(pieces);
  EXPECT_OK(sent);
}

Task<void> ExpectPattern(Stream* stream, uint64_t seed, size_t size) {
  std::vector<uint8_t> bytes(size);
  const std::vector<MutableBytes> pieces =
      CutForReceiving(&bytes, {300'000, 0, 7, 2'000'000});
  const absl::Status received = co_await stream->ReceiveAll(pieces);
  EXPECT_OK(received);
  EXPECT_TRUE(bytes == PatternOf(seed, size));
}

constexpr size_t kBigBytes = 5'000'001;

Task<void> TransferBothWays(Env* env, std::string address) {
  Pair pair = co_await MakePair(env, address);
  CO_ASSERT_TRUE(pair.client && pair.server);
  Gate gate(env);
  gate.Spawn(SendPattern(pair.client.get(), 1, kBigBytes));
  gate.Spawn(SendPattern(pair.server.get(), 2, kBigBytes));
  gate.Spawn(ExpectPattern(pair.client.get(), 2, kBigBytes));
  gate.Spawn(ExpectPattern(pair.server.get(), 1, kBigBytes));
  co_await gate.Close();
  co_await ClosePair(&pair);
}

TEST_P(EnvConformance, LargeScatteredTransfersCrossBothWaysAtOnce) {
  Run(TransferBothWays(env(), listen_address()));
}

// More pieces than one system call takes.
Task<void> SendManyPieces(Stream* stream, const std::vector<uint8_t>* bytes) {
  std::vector<ConstBytes> pieces;
  for (size_t i = 0; i < bytes->size(); i += 3) {
    pieces.push_back(
        ConstBytes(*bytes).subspan(i, std::min<size_t>(3, bytes->size() - i)));
  }
  const absl::Status sent = co_await stream->SendAll(pieces, /*more=*/true);
  EXPECT_OK(sent);
  const std::array<ConstBytes, 1> last = {ConstBytes(*bytes).first(5)};
  const absl::Status flushed = co_await stream->SendAll(last);
  EXPECT_OK(flushed);
}

Task<void> ReceiveManyPieces(Stream* stream,
                             const std::vector<uint8_t>* expected) {
  std::vector<uint8_t> bytes(expected->size() + 5);
  std::vector<MutableBytes> pieces;
  for (size_t i = 0; i < bytes.size(); i += 2) {
    pieces.push_back(
        MutableBytes(bytes).subspan(i, std::min<size_t>(2, bytes.size() - i)));
  }
  const absl::Status received = co_await stream->ReceiveAll(pieces);
  EXPECT_OK(received);
  EXPECT_TRUE(std::equal(expected->begin(), expected->end(), bytes.begin()));
  EXPECT_TRUE(std::equal(bytes.end() - 5, bytes.end(), expected->begin()));
}

Task<void> TransferManyPieces(Env* env, std::string address) {
  Pair pair = co_await MakePair(env, address);
  CO_ASSERT_TRUE(pair.client && pair.server);
  const std::vector<uint8_t> bytes = PatternOf(3, 10'001);
  Gate gate(env);
  gate.Spawn(SendManyPieces(pair.client.get(), &bytes));
  gate.Spawn(ReceiveManyPieces(pair.server.get(), &bytes));
  co_await gate.Close();
  co_await ClosePair(&pair);
}

TEST_P(EnvConformance, ThousandsOfPiecesKeepTheirOrder) {
  Run(TransferManyPieces(env(), listen_address()));
}

Task<void> ReceiveByParts(Env* env, std::string address) {
  Pair pair = co_await MakePair(env, address);
  CO_ASSERT_TRUE(pair.client && pair.server);
  Gate gate(env);
  gate.Spawn(SendPattern(pair.client.get(), 4, 1'100'000));
  std::vector<uint8_t> bytes(1'100'000);
  size_t filled = 0;
  while (filled < bytes.size()) {
    const size_t ask = std::min<size_t>(50'000, bytes.size() - filled);
    const absl::StatusOr<uint64_t> count = co_await pair.server->ReceiveSome(
        MutableBytes(bytes).subspan(filled, ask));
    EXPECT_OK(count.status());
    const bool sane = count.ok() && *count >= 1 && *count <= ask;
    EXPECT_TRUE(sane);
    if (!sane) break;
    filled += *count;
  }
  co_await gate.Close();
  EXPECT_TRUE(bytes == PatternOf(4, bytes.size()));
  co_await ClosePair(&pair);
}

TEST_P(EnvConformance, ReceiveSomeGivesOneByteToAllAsked) {
  Run(ReceiveByParts(env(), listen_address()));
}

// --- How streams end.

Task<void> SendThenShutDown(Stream* stream, size_t size) {
  const std::vector<uint8_t> bytes = PatternOf(5, size);
  const std::array<ConstBytes, 1> pieces = {bytes};
  const absl::Status sent = co_await stream->SendAll(pieces);
  EXPECT_OK(sent);
  stream->Shutdown();
}

Task<void> ReadToTheEnd(Env* env, std::string address) {
  Pair pair = co_await MakePair(env, address);
  CO_ASSERT_TRUE(pair.client && pair.server);
  Gate gate(env);
  gate.Spawn(SendThenShutDown(pair.client.get(), 600'000));
  std::vector<uint8_t> bytes(600'000);
  const std::array<MutableBytes, 1> all = {MutableBytes(bytes)};
  const absl::Status received = co_await pair.server->ReceiveAll(all);
  EXPECT_OK(received) << "what was sent before the end must arrive";
  EXPECT_TRUE(bytes == PatternOf(5, bytes.size()));
  const absl::Status end = co_await pair.server->ReceiveAll(all);
  EXPECT_THAT(end, StatusIs(absl::StatusCode::kUnavailable, ""));
  EXPECT_EQ(std::string(end.message()), "end of stream");
  const absl::StatusOr<uint64_t> some =
      co_await pair.server->ReceiveSome(MutableBytes(bytes));
  CO_ASSERT_OK(some);
  EXPECT_EQ(*some, 0u);
  co_await gate.Close();
  co_await ClosePair(&pair);
}

TEST_P(EnvConformance, PeerThatClosesBetweenMessagesIsEndOfStream) {
  Run(ReadToTheEnd(env(), listen_address()));
}

Task<void> EndInTheMiddle(Env* env, std::string address) {
  Pair pair = co_await MakePair(env, address);
  CO_ASSERT_TRUE(pair.client && pair.server);
  Gate gate(env);
  gate.Spawn(SendThenShutDown(pair.client.get(), 10));
  std::vector<uint8_t> bytes(11);
  const std::array<MutableBytes, 1> all = {MutableBytes(bytes)};
  const absl::Status received = co_await pair.server->ReceiveAll(all);
  EXPECT_THAT(received, StatusIs(absl::StatusCode::kUnavailable, ""));
  EXPECT_NE(std::string(received.message()), "end of stream");
  co_await gate.Close();
  co_await ClosePair(&pair);
}

TEST_P(EnvConformance, PeerThatClosesWithinAMessageIsAnotherError) {
  Run(EndInTheMiddle(env(), listen_address()));
}

Task<void> ReceiveUntilError(Stream* stream, absl::Status* status) {
  std::vector<uint8_t> bytes(100);
  const std::array<MutableBytes, 1> all = {MutableBytes(bytes)};
  *status = co_await stream->ReceiveAll(all);
}

// Nobody reads at the other side, so this comes to wait.
Task<void> SendUntilError(Stream* stream, absl::Status* status) {
  const std::vector<uint8_t> bytes(1 << 20);
  const std::array<ConstBytes, 1> all = {bytes};
  while (status->ok()) *status = co_await stream->SendAll(all);
}

Task<void> ShutDownWhileBusy(Env* env, std::string address) {
  Pair pair = co_await MakePair(env, address);
  CO_ASSERT_TRUE(pair.client && pair.server);
  Gate gate(env);
  absl::Status received;
  absl::Status sent;
  gate.Spawn(ReceiveUntilError(pair.client.get(), &received));
  gate.Spawn(SendUntilError(pair.client.get(), &sent));
  co_await SleepFor(env, 20 * kMillisecond);
  EXPECT_TRUE(received.ok() && sent.ok()) << "both must still wait";
  pair.client->Shutdown();
  pair.client->Shutdown();
  co_await gate.Close();
  EXPECT_THAT(received, StatusIs(absl::StatusCode::kUnavailable, ""));
  EXPECT_THAT(sent, StatusIs(absl::StatusCode::kUnavailable, ""));
  absl::Status later;
  co_await ReceiveUntilError(pair.client.get(), &later);
  EXPECT_THAT(later, StatusIs(absl::StatusCode::kUnavailable, ""));
  co_await ClosePair(&pair);
}

TEST_P(EnvConformance, ShutdownEndsReceiveAndSendInFlight) {
  Run(ShutDownWhileBusy(env(), listen_address()));
}

Task<void> SendToTheGone(Env* env, std::string address) {
  Pair pair = co_await MakePair(env, address);
  CO_ASSERT_TRUE(pair.client && pair.server);
  co_await pair.server->Close();
  pair.server.reset();
  absl::Status sent;
  co_await SendUntilError(pair.client.get(), &sent);
  EXPECT_THAT(sent, StatusIs(absl::StatusCode::kUnavailable, ""));
  co_await ClosePair(&pair);
}

TEST_P(EnvConformance, SendingToAClosedPeerBecomesUnavailable) {
  Run(SendToTheGone(env(), listen_address()));
}

// --- Addresses and listeners.

Task<void> ConnectToNobody(Env* env, std::string address) {
  CO_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Listener> listener,
                          co_await env->Listen(address));
  const std::string free_now = listener->address();
  listener->Shutdown();
  co_await listener->Close();
  const auto refused =
      co_await env->Connect(free_now, env->NowNs() + 60 * kSecond);
  EXPECT_THAT(refused, StatusIs(absl::StatusCode::kUnavailable, ""));
}

TEST_P(EnvConformance, ConnectToNobodyIsUnavailable) {
  Run(ConnectToNobody(env(), listen_address()));
}

Task<void> ListenTwice(Env* env, std::string address) {
  CO_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Listener> listener,
                          co_await env->Listen(address));
  EXPECT_FALSE(listener->address().ends_with(":0")) << listener->address();
  const auto again = co_await env->Listen(listener->address());
  EXPECT_THAT(again, StatusIs(absl::StatusCode::kAlreadyExists, ""));
  listener->Shutdown();
  co_await listener->Close();
  CO_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Listener> after,
                          co_await env->Listen(listener->address()));
  co_await after->Close();
}

TEST_P(EnvConformance, AddressIsInUseUntilItsListenerCloses) {
  Run(ListenTwice(env(), listen_address()));
}

Task<void> UseBadAddresses(Env* env) {
  for (const std::string bad : {"", "7400", "127.0.0.1", "127.0.0.1:x",
                                "127.0.0.1:70000", "no.such.host:1x"}) {
    const auto listening = co_await env->Listen(bad);
    EXPECT_THAT(listening, StatusIs(absl::StatusCode::kInvalidArgument, ""))
        << bad;
    const auto connected = co_await env->Connect(bad, kNoDeadline);
    EXPECT_THAT(connected, StatusIs(absl::StatusCode::kInvalidArgument, ""))
        << bad;
  }
}

TEST_P(EnvConformance, AddressThatCannotBeIsInvalid) {
  Run(UseBadAddresses(env()));
}

Task<void> ShutDownListener(Env* env, std::string address) {
  CO_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Listener> listener,
                          co_await env->Listen(address));
  Gate gate(env);
  absl::Status status;
  std::unique_ptr<Stream> none;
  gate.Spawn(AcceptInto(listener.get(), &status, &none));
  co_await SleepFor(env, kMillisecond);
  EXPECT_OK(status) << "Accept must still wait";
  listener->Shutdown();
  listener->Shutdown();
  co_await gate.Close();
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kUnavailable, ""));
  const auto later = co_await listener->Accept();
  EXPECT_THAT(later, StatusIs(absl::StatusCode::kUnavailable, ""));
  co_await listener->Close();
}

TEST_P(EnvConformance, ListenerShutdownEndsAccept) {
  Run(ShutDownListener(env(), listen_address()));
}

Task<void> ServeMany(Env* env, std::string address) {
  CO_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Listener> listener,
                          co_await env->Listen(address));
  std::vector<std::unique_ptr<Stream>> streams;
  for (uint64_t i = 0; i < 20; ++i) {
    auto connected = co_await env->Connect(listener->address(), kNoDeadline);
    CO_ASSERT_OK(connected);
    EXPECT_EQ((*connected)->peer(), listener->address());
    streams.push_back(*std::move(connected));
    const std::vector<uint8_t> hello = PatternOf(i, 100);
    const std::array<ConstBytes, 1> pieces = {hello};
    const absl::Status sent = co_await streams.back()->SendAll(pieces);
    EXPECT_OK(sent);
  }
  for (uint64_t i = 0; i < 20; ++i) {
    auto accepted = co_await listener->Accept();
    CO_ASSERT_OK(accepted);
    streams.push_back(*std::move(accepted));
    std::vector<uint8_t> hello(100);
    const std::array<MutableBytes, 1> pieces = {MutableBytes(hello)};
    const absl::Status received = co_await streams.back()->ReceiveAll(pieces);
    EXPECT_OK(received);
    EXPECT_TRUE(hello == PatternOf(i, 100));
  }
  for (const auto& stream : streams) {
    stream->Shutdown();
    co_await stream->Close();
  }
  co_await listener->Close();
}

TEST_P(EnvConformance, ConnectionsWaitToBeAcceptedInOrder) {
  Run(ServeMany(env(), listen_address()));
}

}  // namespace
}  // namespace cairn::io
