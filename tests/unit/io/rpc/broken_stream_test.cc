// Streams that are split, cut off or stand still, and too many of them: rows
// N12, N13, N16, N17 and N19 of the fault catalogue.
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "format/checksum/block_checksum.h"
#include "io/rpc/limits.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/io/rpc/rig.h"
#include "tests/unit/io/rpc/sim_rpc.h"

namespace cairn::io {
namespace {

using ::cairn::testing::IsOk;
using ::cairn::testing::StatusIs;
using format::FrameHeader;
using format::FrameKind;
using format::Method;
using internal::Frame;

using BrokenStream = SimRpc;

Task<void> ExpectPong(Rig* rig) {
  const absl::StatusOr<std::string> pong =
      co_await rig->Call(Method::kPing, "p");
  EXPECT_THAT(pong, IsOk());
}

// --- Split and merged frames.

// Hello, a Ping and a PutChunk with its payload, as one run of bytes.
std::string WholeSession(const std::vector<uint8_t>& payload) {
  MemorySource source(payload);
  source.Next();
  FrameHeader put = RequestOf(Method::kPutChunk, 2);
  put.payload_bytes = source.size_bytes();
  put.trailer_bytes = source.trailer_bytes();
  std::string bytes =
      Wire(HeaderOf(FrameKind::kHello), HelloBody(TestCluster()));
  bytes += Wire(RequestOf(Method::kPing, 1), "ping");
  bytes += Wire(put, "put");
  bytes += format::AsText(payload);
  bytes += format::AsText(source.Trailer());
  return bytes;
}

Task<void> ExpectSessionAnswers(RawPeer* peer) {
  for (const std::string_view expected : {"ping", "300"}) {
    const absl::StatusOr<Frame> answer = co_await peer->Read();
    EXPECT_THAT(answer, IsOk());
    if (!answer.ok()) co_return;
    EXPECT_EQ(answer->header.status, 0u);
    EXPECT_EQ(answer->body, expected);
  }
}

Task<void> SplitAt(Rig* rig, std::string bytes, size_t split) {
  const std::unique_ptr<RawPeer> peer = co_await Dial(rig);
  std::string head = bytes.substr(0, split);
  std::string tail = bytes.substr(split);
  const absl::Status first = co_await peer->SendBytes(std::move(head));
  EXPECT_THAT(first, IsOk());
  co_await SleepFor(rig->client_env, kMillisecond);  // It arrives alone.
  const absl::Status second = co_await peer->SendBytes(std::move(tail));
  EXPECT_THAT(second, IsOk());
  const absl::StatusOr<Frame> ack = co_await peer->Read();
  EXPECT_THAT(ack, IsOk());
  co_await ExpectSessionAnswers(peer.get());
  co_await peer->Close();
}

Task<void> EverySplit(Rig* rig) {
  const std::vector<uint8_t> payload = Pattern(300, 4);
  const std::string bytes = WholeSession(payload);
  for (size_t split = 0; split <= bytes.size(); ++split) {
    co_await SplitAt(rig, bytes, split);
  }
  EXPECT_TRUE(rig->service.last_put == payload);
}
TEST_F(BrokenStream, SessionSplitAtAnyByteIsTheSame) { Run(EverySplit); }

Task<void> ByteByByte(Rig* rig) {
  const std::vector<uint8_t> payload = Pattern(300, 4);
  const std::unique_ptr<RawPeer> peer = co_await Dial(rig);
  for (const char byte : WholeSession(payload)) {
    std::string one(1, byte);
    const absl::Status sent = co_await peer->SendBytes(std::move(one));
    EXPECT_THAT(sent, IsOk());
    co_await SleepFor(rig->client_env, kMillisecond);
  }
  const absl::StatusOr<Frame> ack = co_await peer->Read();
  EXPECT_THAT(ack, IsOk());
  co_await ExpectSessionAnswers(peer.get());
  co_await peer->Close();
  EXPECT_TRUE(rig->service.last_put == payload);
}
TEST_F(BrokenStream, SessionSentByteByByteIsTheSame) { Run(ByteByByte); }

// --- Connections that end or stand still inside a frame.

Task<void> CutOff(Rig* rig) {
  const std::vector<uint8_t> payload = Pattern(300, 4);
  const std::string bytes = WholeSession(payload);
  for (size_t cut = 1; cut < bytes.size(); cut += 3) {
    const std::unique_ptr<RawPeer> peer = co_await Dial(rig);
    std::string head = bytes.substr(0, cut);
    const absl::Status sent = co_await peer->SendBytes(std::move(head));
    EXPECT_THAT(sent, IsOk());
    if (cut % 2 == 0) co_await SleepFor(rig->client_env, kMillisecond);
    co_await peer->Close();
  }
  co_await ExpectPong(rig);
  co_await SleepFor(rig->client_env, kSecond);
  EXPECT_EQ(rig->server->connections(), 1u);
  // A payload that was cut off is never taken for a whole one.
  for (const absl::Status& put : rig->service.puts) {
    EXPECT_THAT(put, StatusIs(absl::StatusCode::kUnavailable, "payload from"));
  }
  EXPECT_GT(rig->service.puts.size(), 10u);
}
TEST_F(BrokenStream, ConnectionCutAtAnyByteLeavesNothingBehind) { Run(CutOff); }

Task<void> VanishedSender(Rig* rig) {
  const std::unique_ptr<RawPeer> peer = co_await DialAndGreet(rig);
  FrameHeader put = RequestOf(Method::kPutChunk, 1);
  put.payload_bytes = 1000;
  put.trailer_bytes = format::TrailerBytes(1);
  const absl::Status sent = co_await peer->Send(put, "", "only the begin");
  EXPECT_THAT(sent, IsOk());
  co_await SleepFor(rig->client_env, kSecond);
  EXPECT_EQ(rig->service.puts_begun, 1u);
  EXPECT_EQ(rig->service.puts.size(), 0u);
  co_await SleepFor(rig->client_env, kReadStallTimeout);
  EXPECT_EQ(rig->service.puts.size(), 1u);
  EXPECT_EQ(rig->server->connections(), 0u);
  co_await peer->Close();
}
TEST_F(BrokenStream, SenderThatVanishesInsideAFrameIsDropped) {
  Run(VanishedSender);
}

Task<void> SlowReceiver(Rig* rig) {
  const std::unique_ptr<RawPeer> peer = co_await DialAndGreet(rig);
  for (uint64_t id = 1; id <= 3; ++id) {
    const absl::Status sent =
        co_await peer->Send(RequestOf(Method::kGetChunk, id), "4000000");
    EXPECT_THAT(sent, IsOk());
  }
  co_await SleepFor(rig->client_env, kWriteStallTimeout / 2);
  EXPECT_EQ(rig->server->connections(), 1u);
  co_await ExpectPong(rig);  // Others are served meanwhile.
  co_await SleepFor(rig->client_env, kWriteStallTimeout);
  EXPECT_EQ(rig->server->connections(), 1u);  // The channel's.
  const bool ended = co_await peer->SeesTheEnd();
  EXPECT_TRUE(ended);
  co_await peer->Close();
}
TEST_F(BrokenStream, ReceiverThatStandsStillIsDropped) { Run(SlowReceiver); }

Task<void> CallsOverTheLimit(Rig* rig) {
  const std::unique_ptr<RawPeer> peer = co_await DialAndGreet(rig);
  for (uint64_t id = 1; id <= kCallsPerConnectionMax + 50; ++id) {
    const absl::Status sent =
        co_await peer->Send(RequestOf(Method::kLookup, id), "x");
    EXPECT_THAT(sent, IsOk());
  }
  co_await SleepFor(rig->client_env, kSecond);
  EXPECT_EQ(rig->service.holding, kCallsPerConnectionMax);
  rig->service.release.Set();
  std::set<uint64_t> answered;
  for (uint64_t id = 1; id <= kCallsPerConnectionMax + 50; ++id) {
    const absl::StatusOr<Frame> answer = co_await peer->Read();
    EXPECT_THAT(answer, IsOk());
    if (answer.ok()) answered.insert(answer->header.request_id);
  }
  EXPECT_EQ(answered.size(), kCallsPerConnectionMax + 50);
  co_await peer->Close();
}
TEST_F(BrokenStream, CallsOverTheLimitWaitInTheConnection) {
  Run(CallsOverTheLimit);
}

Task<void> ManyConnections(Rig* rig) {
  std::vector<std::unique_ptr<RawPeer>> peers;
  for (int i = 0; i < 1000; ++i) {
    peers.push_back(co_await DialAndGreet(rig));
  }
  EXPECT_EQ(rig->server->connections(), 1000u);
  for (size_t i = 0; i < peers.size(); i += 7) {
    const absl::Status sent =
        co_await peers[i]->Send(RequestOf(Method::kPing, 1), "x");
    EXPECT_THAT(sent, IsOk());
    const absl::StatusOr<Frame> answer = co_await peers[i]->Read();
    EXPECT_THAT(answer, IsOk());
  }
  for (const std::unique_ptr<RawPeer>& peer : peers) co_await peer->Close();
  co_await ExpectPong(rig);
  EXPECT_EQ(rig->server->connections(), 1u);
}
TEST_F(BrokenStream, ThousandConnectionsAreServed) { Run(ManyConnections); }

Task<void> TooManyConnections(Rig* rig) {
  std::vector<std::unique_ptr<RawPeer>> peers;
  for (uint32_t i = 0; i < kConnectionsMax; ++i) {
    peers.push_back(co_await DialAndGreet(rig));
  }
  const std::unique_ptr<RawPeer> refused = co_await Dial(rig);
  const bool ended = co_await refused->SeesTheEnd();
  EXPECT_TRUE(ended);
  co_await refused->Close();
  EXPECT_EQ(rig->server->connections(), kConnectionsMax);
  co_await peers.back()->Close();
  peers.pop_back();
  while (rig->server->connections() == kConnectionsMax) {
    co_await SleepFor(rig->client_env, kMillisecond);
  }
  co_await ExpectPong(rig);  // There is room again.
  for (const std::unique_ptr<RawPeer>& peer : peers) co_await peer->Close();
}
TEST_F(BrokenStream, ConnectionOverTheLimitIsTurnedAway) {
  Run(TooManyConnections);
}

}  // namespace
}  // namespace cairn::io
