#include "tests/sim/network.h"

#include <algorithm>
#include <vector>

#include "gtest/gtest.h"
#include "tests/unit/sim/network_fixture.h"

namespace cairn::sim {
namespace {

using ::cairn::testing::StatusIs;

constexpr auto kUnavailable = absl::StatusCode::kUnavailable;

TEST_F(NetworkTest, PartitionHoldsBytesBackAndHealDeliversThemInOrder) {
  world_.network()->Partition(client_node_, server_node_);
  const std::vector<uint8_t> sent_bytes = Counting(100'000);
  std::vector<uint8_t> bytes(sent_bytes.size());
  Outcome sent;
  Outcome received;
  gate_.Spawn(SendInto(at_client_.get(), sent_bytes, &sent));
  gate_.Spawn(ReceiveInto(at_server_.get(), &bytes, &received));
  Pass(100 * io::kSecond);
  EXPECT_FALSE(received.done);
  world_.network()->HealAll();
  world_.RunUntilIdle();
  EXPECT_TRUE(sent.done && received.done);
  EXPECT_OK(received.status);
  EXPECT_TRUE(bytes == sent_bytes);
}

TEST_F(NetworkTest, OneWayCutLetsTheOtherWayThrough) {
  world_.network()->Cut(client_node_, server_node_);
  std::vector<uint8_t> to_server(10);
  std::vector<uint8_t> to_client(10);
  Outcome sent_up;
  Outcome sent_down;
  Outcome up;
  Outcome down;
  gate_.Spawn(SendInto(at_client_.get(), Counting(10), &sent_up));
  gate_.Spawn(SendInto(at_server_.get(), Counting(10), &sent_down));
  gate_.Spawn(ReceiveInto(at_server_.get(), &to_server, &up));
  gate_.Spawn(ReceiveInto(at_client_.get(), &to_client, &down));
  Pass(io::kSecond);
  EXPECT_FALSE(up.done);
  EXPECT_TRUE(down.done);
  EXPECT_OK(down.status);
  world_.network()->Heal(client_node_, server_node_);
  world_.RunUntilIdle();
  EXPECT_TRUE(up.done);
  EXPECT_OK(up.status);
}

// The receiver takes the bytes, but its acknowledgements do not come back.
TEST_F(NetworkTest, CutOfTheWayBackFillsTheWindow) {
  world_.network()->Cut(server_node_, client_node_);
  const uint64_t window = NetworkOptions().window_bytes;
  std::vector<uint8_t> bytes(2 * window);
  Outcome sent;
  Outcome received;
  gate_.Spawn(SendInto(at_client_.get(), Counting(2 * window), &sent));
  gate_.Spawn(ReceiveInto(at_server_.get(), &bytes, &received));
  Pass(io::kSecond);
  EXPECT_FALSE(sent.done || received.done);
  EXPECT_LE(sent.bytes, window);
  world_.network()->HealAll();
  world_.RunUntilIdle();
  EXPECT_TRUE(sent.done && received.done);
  EXPECT_TRUE(bytes == Counting(2 * window));
}

TEST_F(NetworkTest, SenderWaitsWhenNobodyReads) {
  const uint64_t window = NetworkOptions().window_bytes;
  Outcome sent;
  gate_.Spawn(SendInto(at_client_.get(), Counting(3 * window), &sent));
  world_.RunUntilIdle();
  EXPECT_FALSE(sent.done);
  EXPECT_LE(sent.bytes, window);
  EXPECT_GT(sent.bytes, window / 2);
  std::vector<uint8_t> bytes(3 * window);
  Outcome received;
  gate_.Spawn(ReceiveInto(at_server_.get(), &bytes, &received));
  world_.RunUntilIdle();
  EXPECT_TRUE(sent.done && received.done);
  EXPECT_TRUE(bytes == Counting(3 * window));
}

TEST_F(NetworkTest, ResetBreaksBothEndsAndNewConnectionsWork) {
  std::vector<uint8_t> bytes(10);
  Outcome client;
  Outcome server;
  gate_.Spawn(ReceiveInto(at_client_.get(), &bytes, &client));
  gate_.Spawn(ReceiveInto(at_server_.get(), &bytes, &server));
  world_.RunUntilIdle();
  EXPECT_FALSE(client.done || server.done);
  world_.network()->Reset(server_node_, client_node_);
  world_.RunUntilIdle();
  EXPECT_THAT(client.status, StatusIs(kUnavailable, "reset"));
  EXPECT_THAT(server.status, StatusIs(kUnavailable, "reset"));
  std::unique_ptr<io::Stream> again;
  Outcome connected;
  gate_.Spawn(ConnectInto(client_, server_->Address(7400), io::kNoDeadline,
                          &again, &connected));
  world_.RunUntilIdle();
  EXPECT_OK(connected.status);
  world_.Run(CloseStream(again.get()));
}

TEST_F(NetworkTest, SeededResetsBreakALongTransfer) {
  world_.network()->set_reset_one_in(20);
  std::vector<uint8_t> bytes(5'000'000);
  Outcome sent;
  Outcome received;
  gate_.Spawn(SendInto(at_client_.get(), Counting(bytes.size()), &sent));
  gate_.Spawn(ReceiveInto(at_server_.get(), &bytes, &received));
  world_.RunUntilIdle();
  EXPECT_THAT(sent.status, StatusIs(kUnavailable, "reset"));
  EXPECT_THAT(received.status, StatusIs(kUnavailable, "reset"));
}

TEST_F(NetworkTest, KilledProcessEndsItsOwnAndItsPeersOperations) {
  std::vector<uint8_t> bytes(10);
  Outcome own;
  Outcome peer;
  Outcome accept;
  std::unique_ptr<io::Stream> none;
  gate_.Spawn(ReceiveInto(at_server_.get(), &bytes, &own));
  gate_.Spawn(ReceiveInto(at_client_.get(), &bytes, &peer));
  gate_.Spawn(AcceptInto(listener_.get(), &none, &accept));
  world_.RunUntilIdle();
  world_.Kill(server_);
  world_.RunUntilIdle();
  EXPECT_THAT(own.status, StatusIs(kUnavailable, "dead"));
  EXPECT_THAT(peer.status, StatusIs(kUnavailable, "reset"));
  EXPECT_THAT(accept.status, StatusIs(kUnavailable, ""));
  Outcome refused;
  gate_.Spawn(ConnectInto(client_, server_->Address(7400), io::kNoDeadline,
                          &none, &refused));
  world_.RunUntilIdle();
  EXPECT_THAT(refused.status, StatusIs(kUnavailable, "ECONNREFUSED"));
}

TEST_F(NetworkTest, NewProcessTakesTheAddressOfADeadOne) {
  world_.Kill(server_);
  SimEnv* const next = world_.Start(server_node_);
  std::unique_ptr<io::Listener> listener;
  world_.Run(ListenInto(next, &listener));
  std::unique_ptr<io::Stream> stream;
  Outcome connected;
  gate_.Spawn(ConnectInto(client_, next->Address(7400), io::kNoDeadline,
                          &stream, &connected));
  world_.RunUntilIdle();
  EXPECT_OK(connected.status);
  world_.Run(CloseStream(stream.get()));
  world_.Run(CloseListener(listener.get()));
}

TEST_F(NetworkTest, PeerOfAHalfOpenConnectionLearnsOfItOnlyAfterTheRestart) {
  CrashOptions options;
  options.half_open = true;
  std::vector<uint8_t> bytes(10);
  Outcome received;
  gate_.Spawn(ReceiveInto(at_client_.get(), &bytes, &received));
  world_.RunUntilIdle();
  world_.Crash(server_node_, options);
  Pass(1000 * io::kSecond);
  EXPECT_FALSE(received.done) << "nobody told the peer";
  Outcome sent;
  gate_.Spawn(SendInto(at_client_.get(), Counting(10), &sent));
  Pass(io::kSecond);
  EXPECT_FALSE(received.done);
  world_.Start(server_node_);
  world_.RunUntilIdle();
  EXPECT_THAT(received.status, StatusIs(kUnavailable, "reset"));
}

TEST_F(NetworkTest, ConnectThroughAPartitionEndsAtItsDeadline) {
  world_.network()->Partition(client_node_, server_node_);
  std::unique_ptr<io::Stream> stream;
  Outcome late;
  const io::TimeNs deadline = world_.NowNs() + 5 * io::kSecond;
  gate_.Spawn(
      ConnectInto(client_, server_->Address(7400), deadline, &stream, &late));
  world_.RunUntilIdle();
  EXPECT_THAT(late.status,
              StatusIs(absl::StatusCode::kDeadlineExceeded, "10.0.0.1:7400"));
  EXPECT_LE(world_.NowNs(), deadline);
  Outcome timed_out;
  gate_.Spawn(ConnectInto(client_, server_->Address(7400), io::kNoDeadline,
                          &stream, &timed_out));
  world_.RunUntilIdle();
  EXPECT_THAT(timed_out.status, StatusIs(kUnavailable, "ETIMEDOUT"));
}

TEST_F(NetworkTest, ConnectSucceedsOnceThePartitionHeals) {
  world_.network()->Isolate(server_node_);
  std::unique_ptr<io::Stream> stream;
  Outcome connected;
  gate_.Spawn(ConnectInto(client_, server_->Address(7400), io::kNoDeadline,
                          &stream, &connected));
  Pass(10 * io::kSecond);
  EXPECT_FALSE(connected.done);
  world_.network()->HealAll();
  world_.RunUntilIdle();
  EXPECT_OK(connected.status);
  world_.Run(CloseStream(stream.get()));
}

TEST_F(NetworkTest, NodeWithoutPowerDoesNotEvenRefuse) {
  world_.Crash(server_node_);
  std::unique_ptr<io::Stream> stream;
  Outcome late;
  gate_.Spawn(ConnectInto(client_, server_->Address(7400),
                          world_.NowNs() + io::kSecond, &stream, &late));
  world_.RunUntilIdle();
  EXPECT_THAT(late.status, StatusIs(absl::StatusCode::kDeadlineExceeded, ""));
}

// A seeded part of the bytes never left the machine; what comes is a prefix.
TEST(NetworkCrash, DeadSenderLosesAnEndOfWhatItSent) {
  std::vector<uint64_t> seen;
  for (uint64_t seed = 0; seed < 30; ++seed) {
    WorldOptions options;
    options.seed = seed;
    options.network.segment_bytes_max = 100;
    World world(options);
    SimEnv* const server = world.Start(world.AddNode());
    SimEnv* const client = world.Start(world.AddNode());
    io::Gate gate(&world);
    std::unique_ptr<io::Listener> listener;
    std::unique_ptr<io::Stream> at_client;
    std::unique_ptr<io::Stream> at_server;
    Outcome outcome;
    world.Run(ListenInto(server, &listener));
    gate.Spawn(AcceptInto(listener.get(), &at_server, &outcome));
    gate.Spawn(ConnectInto(client, server->Address(7400), io::kNoDeadline,
                           &at_client, &outcome));
    world.RunUntilIdle();
    Outcome sent;
    gate.Spawn(SendInto(at_client.get(), Counting(1000), &sent));
    world.Crash(client->node());
    uint64_t count = 0;
    std::vector<uint8_t> byte(1);
    Outcome received;
    while (received.status.ok()) {
      gate.Spawn(ReceiveInto(at_server.get(), &byte, &received));
      world.RunUntilIdle();
      if (received.status.ok()) {
        EXPECT_EQ(byte[0], static_cast<uint8_t>(count++));
      }
    }
    EXPECT_THAT(received.status, StatusIs(kUnavailable, "reset"));
    seen.push_back(count);
    world.Run(CloseStream(at_client.get()));
    world.Run(CloseStream(at_server.get()));
    world.Run(CloseListener(listener.get()));
  }
  EXPECT_LT(*std::min_element(seen.begin(), seen.end()), 300u);
  EXPECT_GT(*std::max_element(seen.begin(), seen.end()), 700u);
}

}  // namespace
}  // namespace cairn::sim
