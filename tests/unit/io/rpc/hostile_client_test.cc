// Clients whose bytes are no protocol, and refused handshakes: rows N15 and N20
// of the fault catalogue.
#include <functional>
#include <memory>
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

using HostileClient = SimRpc;

Task<void> ExpectPong(Rig* rig) {
  const absl::StatusOr<std::string> pong =
      co_await rig->Call(Method::kPing, "p");
  EXPECT_THAT(pong, IsOk());
}

// The server closes a connection that sends `bytes`, and serves others.
Task<void> ExpectDropped(Rig* rig, bool greet, std::string bytes) {
  std::unique_ptr<RawPeer> peer;
  if (greet) {
    peer = co_await DialAndGreet(rig);
  } else {
    peer = co_await Dial(rig);
  }
  const absl::Status sent = co_await peer->SendBytes(std::move(bytes));
  EXPECT_THAT(sent, IsOk());
  const bool ended = co_await peer->SeesTheEnd();
  EXPECT_TRUE(ended);
  co_await peer->Close();
  co_await ExpectPong(rig);
  EXPECT_EQ(rig->server->connections(), 1u);
}

// --- Bytes that are no frames.

Task<void> Garbage(Rig* rig) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const std::vector<uint8_t> noise = Pattern(64 + seed * 7, seed);
    std::string bytes(format::AsText(noise));
    co_await ExpectDropped(rig, seed % 2 == 0, std::move(bytes));
  }
}
TEST_F(HostileClient, GarbageClosesItsConnectionAndNoOther) { Run(Garbage); }

Task<void> FlippedBits(Rig* rig) {
  const std::string frame = Wire(RequestOf(Method::kPing, 1), "body");
  for (size_t byte = 0; byte < frame.size(); ++byte) {
    std::string damaged = frame;
    damaged[byte] = static_cast<char>(damaged[byte] ^ 0x10);
    co_await ExpectDropped(rig, true, std::move(damaged));
  }
}
TEST_F(HostileClient, AnyDamagedByteOfHeaderOrBodyIsNoticed) {
  Run(FlippedBits);
}

// `change` is made to a valid header, whose checksum is then made to fit.
std::string Changed(const std::function<void(FrameHeader*)>& change) {
  std::string wire = Wire(RequestOf(Method::kPing, 1), "body");
  auto header = format::LoadLe<FrameHeader>(wire.data());
  change(&header);
  const ConstBytes view(reinterpret_cast<const uint8_t*>(&header), 56);
  header.header_xxh3 = format::Xxh3(view);
  format::StoreLe(wire.data(), header);
  return wire;
}

std::vector<std::string> MalformedFrames() {
  const std::function<void(FrameHeader*)> changes[] = {
      [](FrameHeader* h) { h->magic = 0; },
      [](FrameHeader* h) { h->version = 2; },
      [](FrameHeader* h) { h->kind = 9; },
      [](FrameHeader* h) { h->kind = 4; },
      [](FrameHeader* h) { h->body_bytes = 0xffff'ffff; },
      [](FrameHeader* h) { h->body_bytes = format::kFrameBodyBytesMax + 1; },
      [](FrameHeader* h) { h->body_bytes = 3; },
      [](FrameHeader* h) { h->payload_bytes = ~0ULL; },
      [](FrameHeader* h) {
        h->payload_bytes = format::kFramePayloadBytesMax + 1;
      },
      [](FrameHeader* h) { h->payload_bytes = 100; },
      [](FrameHeader* h) { h->trailer_bytes = 0xffff'fff8; },
      [](FrameHeader* h) { h->status = 5; },
      [](FrameHeader* h) { h->traffic_class = 99; },
      [](FrameHeader* h) { h->flags = 1; },
      [](FrameHeader* h) { h->reserved = 1; },
  };
  std::vector<std::string> frames;
  for (const auto& change : changes) frames.push_back(Changed(change));
  return frames;
}

Task<void> Malformed(Rig* rig) {
  for (const std::string& frame : MalformedFrames()) {
    std::string greeted = frame;
    co_await ExpectDropped(rig, true, std::move(greeted));
    std::string at_once = frame;
    co_await ExpectDropped(rig, false, std::move(at_once));
  }
}
TEST_F(HostileClient, WellSummedFramesWithBadFieldsAreRefused) {
  Run(Malformed);
}

Task<void> LargeHello(Rig* rig) {
  const std::string body(kHandshakeBodyBytesMax + 1, 'x');
  std::string wire = Wire(HeaderOf(FrameKind::kHello), body);
  wire.resize(64);  // Refused by its length: the body is not waited for.
  co_await ExpectDropped(rig, false, std::move(wire));
}
TEST_F(HostileClient, HelloOverItsOwnLimitIsRefused) { Run(LargeHello); }

Task<void> SecondHello(Rig* rig) {
  std::string hello =
      Wire(HeaderOf(FrameKind::kHello), HelloBody(TestCluster()));
  co_await ExpectDropped(rig, true, std::move(hello));
  std::string request = Wire(RequestOf(Method::kPing, 1), "x");
  co_await ExpectDropped(rig, false, std::move(request));
}
TEST_F(HostileClient, FramesOutOfOrderAreRefused) { Run(SecondHello); }

// --- Handshake.

Task<void> ExpectRefusal(Rig* rig, std::string hello, std::string_view why) {
  const std::unique_ptr<RawPeer> peer = co_await Dial(rig);
  const absl::Status sent = co_await peer->SendBytes(std::move(hello));
  EXPECT_THAT(sent, IsOk());
  const absl::StatusOr<Frame> ack = co_await peer->Read();
  EXPECT_THAT(ack, IsOk());
  if (ack.ok()) {
    EXPECT_EQ(ack->header.kind, static_cast<uint8_t>(FrameKind::kHelloAck));
    EXPECT_EQ(ack->header.status,
              static_cast<uint32_t>(absl::StatusCode::kFailedPrecondition));
    EXPECT_NE(ack->body.find(why), std::string::npos) << ack->body;
  }
  const bool ended = co_await peer->SeesTheEnd();
  EXPECT_TRUE(ended);
  co_await peer->Close();
}

Task<void> Refusals(Rig* rig) {
  const FrameHeader header = HeaderOf(FrameKind::kHello);
  std::string other_cluster = Wire(header, HelloBody(OtherCluster()));
  co_await ExpectRefusal(rig, std::move(other_cluster), "wrong cluster");
  std::string target = Wire(header, HelloBody(TestCluster(), 8));
  co_await ExpectRefusal(rig, std::move(target), "target 8 is not served");
  std::string newer = Wire(header, HelloBody(TestCluster(), 0, 2, 5));
  co_await ExpectRefusal(rig, std::move(newer), "the client speaks 2 to 5");
  std::string frame = Changed([](FrameHeader* h) {
    h->kind = static_cast<uint8_t>(FrameKind::kHello);
    h->method = 0;
    h->request_id = 0;
    h->version = 2;
  });
  co_await ExpectRefusal(rig, std::move(frame), "frame version 2");
  co_await ExpectPong(rig);
}
TEST_F(HostileClient, RefusedClientsAreToldWhy) { Run(Refusals); }

Task<void> SilentClient(Rig* rig) {
  const std::unique_ptr<RawPeer> peer = co_await Dial(rig);
  const std::string hello =
      Wire(HeaderOf(FrameKind::kHello), HelloBody(TestCluster()));
  std::string most = hello.substr(0, hello.size() - 1);
  const absl::Status sent = co_await peer->SendBytes(std::move(most));
  EXPECT_THAT(sent, IsOk());
  const TimeNs start = rig->client_env->NowNs();
  const bool ended = co_await peer->SeesTheEnd();
  EXPECT_TRUE(ended);
  EXPECT_GE(rig->client_env->NowNs() - start, kHandshakeTimeout - kSecond);
  EXPECT_LE(rig->client_env->NowNs() - start, kHandshakeTimeout + kSecond);
  co_await peer->Close();
  co_await ExpectPong(rig);
}
TEST_F(HostileClient, UnfinishedHandshakeIsDroppedAtItsDeadline) {
  Run(SilentClient);
}

}  // namespace
}  // namespace cairn::io
