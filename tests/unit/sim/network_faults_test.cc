#include "tests/sim/network_faults.h"

#include <algorithm>
#include <bit>
#include <deque>
#include <set>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/unit/sim/network_fixture.h"

namespace cairn::sim {
namespace {

using ::cairn::testing::StatusIs;

constexpr auto kUnavailable = absl::StatusCode::kUnavailable;
constexpr uint64_t kMessage = 100;

// Receives until an error, an empty receive (end of stream) or `count` bytes.
struct Reading {
  absl::Status status;
  bool ended = false;
  std::vector<uint8_t> bytes;
  uint64_t largest = 0;  // Of the single receives.
};

io::Task<void> ReadUpTo(io::Stream* stream, uint64_t count, Reading* reading) {
  std::vector<uint8_t> buffer(count);
  while (reading->bytes.size() < count) {
    const io::MutableBytes left =
        io::MutableBytes(buffer).first(count - reading->bytes.size());
    const auto got = co_await stream->ReceiveSome(left);
    reading->status = got.status();
    reading->ended = got.ok() && *got == 0;
    if (!got.ok() || reading->ended) break;
    reading->largest = std::max(reading->largest, *got);
    reading->bytes.insert(reading->bytes.end(), left.begin(),
                          left.begin() + static_cast<ptrdiff_t>(*got));
  }
}

class NetworkFaultsTest : public NetworkTest {
 protected:
  void Fail(StreamFault::Kind kind, uint64_t after_bytes) {
    world_.network()->Fail({kind, client_node_, server_node_, after_bytes});
  }
  // Client to server, until nothing happens any more.
  Reading Transfer(uint64_t count) {
    readings_.emplace_back();
    gate_.Spawn(SendInto(at_client_.get(), Counting(count), &sent_));
    gate_.Spawn(ReadUpTo(at_server_.get(), count, &readings_.back()));
    world_.RunUntilIdle();
    return readings_.back();
  }
  uint64_t fired(FaultKind kind) const { return world_.faults().of(kind); }

  Outcome sent_;
  std::deque<Reading> readings_;  // One may still be under way.
};

// A new connection for each byte at which the old one breaks.
class NetworkFaultAtByteTest : public NetworkFaultsTest,
                               public ::testing::WithParamInterface<uint64_t> {
};

INSTANTIATE_TEST_SUITE_P(EveryByte, NetworkFaultAtByteTest,
                         ::testing::Range(uint64_t{0}, kMessage, 9));

TEST_P(NetworkFaultAtByteTest, ResetComesExactlyThere) {
  Fail(StreamFault::Kind::kReset, GetParam());
  const Reading reading = Transfer(kMessage);
  EXPECT_THAT(reading.status, StatusIs(kUnavailable, "reset"));
  EXPECT_TRUE(reading.bytes == Counting(GetParam()));
  EXPECT_EQ(fired(FaultKind::kConnectionReset), 1u);
}

TEST_P(NetworkFaultAtByteTest, EndOfStreamComesExactlyThere) {
  Fail(StreamFault::Kind::kEnd, GetParam());
  const Reading reading = Transfer(kMessage);
  EXPECT_TRUE(reading.ended);
  EXPECT_TRUE(reading.bytes == Counting(GetParam()));
  EXPECT_EQ(fired(FaultKind::kEarlyEnd), 1u);
  Outcome client;
  Outcome server;
  gate_.Spawn(SendInto(at_client_.get(), Counting(10), &client));
  gate_.Spawn(SendInto(at_server_.get(), Counting(10), &server));
  world_.RunUntilIdle();
  EXPECT_THAT(client.status, StatusIs(kUnavailable, "reset"));
  EXPECT_OK(server.status) << "it cannot know yet";
  gate_.Spawn(SendInto(at_server_.get(), Counting(10), &server));
  world_.RunUntilIdle();
  EXPECT_THAT(server.status, StatusIs(kUnavailable, "reset"));
}

TEST_P(NetworkFaultAtByteTest, OneBitOfTheByteFlips) {
  Fail(StreamFault::Kind::kFlip, GetParam());
  Reading reading = Transfer(kMessage);
  ASSERT_EQ(reading.bytes.size(), kMessage);
  uint8_t& byte = reading.bytes[GetParam()];
  const auto right = static_cast<uint8_t>(GetParam());
  EXPECT_EQ(std::popcount(static_cast<uint8_t>(byte ^ right)), 1);
  byte = right;
  EXPECT_TRUE(reading.bytes == Counting(kMessage)) << "and nothing else";
  EXPECT_EQ(fired(FaultKind::kCorruptSegment), 1u);
  EXPECT_TRUE(Transfer(kMessage).bytes == Counting(kMessage)) << "once";
}

TEST_F(NetworkFaultsTest, StreamFaultCountsBytesOfItsDirectionOnly) {
  world_.network()->Fail(
      {StreamFault::Kind::kReset, server_node_, client_node_, 5});
  EXPECT_TRUE(Transfer(kMessage).bytes == Counting(kMessage));
  Outcome sent;
  Reading reading;
  gate_.Spawn(SendInto(at_server_.get(), Counting(10), &sent));
  gate_.Spawn(ReadUpTo(at_client_.get(), 10, &reading));
  world_.RunUntilIdle();
  EXPECT_TRUE(reading.bytes == Counting(5));
}

TEST_F(NetworkFaultsTest, TwoFaultsForOneSegmentBothHit) {
  Fail(StreamFault::Kind::kFlip, 0);
  Fail(StreamFault::Kind::kFlip, 0);
  world_.network()->Fail(
      {StreamFault::Kind::kFlip, server_node_, client_node_, 0});
  Transfer(20'000);
  EXPECT_EQ(fired(FaultKind::kCorruptSegment), 2u);
}

TEST_F(NetworkFaultsTest, DrawnResetLetsAPartOfItsSegmentThrough) {
  world_.network()->set_reset_one_in(1);
  const Reading reading = Transfer(900);
  EXPECT_THAT(reading.status, StatusIs(kUnavailable, "reset"));
  EXPECT_GT(reading.bytes.size(), 0u);
  EXPECT_LT(reading.bytes.size(), 900u);
}

// --- Rates.

TEST_F(NetworkFaultsTest, EachCorruptSegmentHasOneWrongBit) {
  NetworkFaultRates rates;
  rates.corrupt_segment = 10;
  world_.network()->set_fault_rates(rates);
  const uint64_t count = 200'000;
  const Reading reading = Transfer(count);
  const std::vector<uint8_t> right = Counting(count);
  ASSERT_EQ(reading.bytes.size(), count);
  uint64_t bits = 0;
  for (size_t i = 0; i < count; ++i) {
    bits += static_cast<uint64_t>(
        std::popcount(static_cast<uint8_t>(reading.bytes[i] ^ right[i])));
  }
  EXPECT_GT(bits, 5u);
  EXPECT_EQ(bits, fired(FaultKind::kCorruptSegment));
}

TEST_F(NetworkFaultsTest, TinySegmentsArriveByteByByte) {
  NetworkFaultRates rates;
  rates.tiny_segments = 1;
  rates.tiny_bytes = UINT64_MAX;
  world_.network()->set_fault_rates(rates);
  const Reading reading = Transfer(3000);
  EXPECT_TRUE(reading.bytes == Counting(3000));
  EXPECT_EQ(reading.largest, 1u);
  EXPECT_EQ(fired(FaultKind::kTinySegments), 3u) << "three sends";
}

TEST_F(NetworkFaultsTest, TinyBytesBoundsHowMuchOfASendIsCutUp) {
  NetworkFaultRates rates;
  rates.tiny_segments = 1;
  rates.tiny_bytes = 10;
  world_.network()->set_fault_rates(rates);
  const uint64_t before = world_.events_run();
  const Reading reading = Transfer(1000);
  EXPECT_TRUE(reading.bytes == Counting(1000));
  EXPECT_GT(reading.largest, 1u);
  EXPECT_LT(world_.events_run() - before, 500u);
}

TEST_F(NetworkFaultsTest, LatencySpikesDelayButKeepTheOrder) {
  NetworkFaultRates rates;
  rates.latency_spike = 4;
  rates.latency_spike_ns_max = 100 * io::kSecond;
  world_.network()->set_fault_rates(rates);
  const io::TimeNs start = world_.NowNs();
  const Reading reading = Transfer(20'000);
  EXPECT_TRUE(reading.bytes == Counting(20'000));
  EXPECT_GT(world_.NowNs() - start, io::kSecond);
  EXPECT_GT(fired(FaultKind::kLatencySpike), 3u);
}

TEST_F(NetworkFaultsTest, ConnectionIsRefusedByRateAndWhenNobodyListens) {
  NetworkFaultRates rates;
  rates.refuse_connect = 1;
  world_.network()->set_fault_rates(rates);
  std::unique_ptr<io::Stream> none;
  Outcome drawn;
  gate_.Spawn(ConnectInto(client_, server_->Address(7400), io::kNoDeadline,
                          &none, &drawn));
  world_.RunUntilIdle();
  EXPECT_THAT(drawn.status, StatusIs(kUnavailable, "ECONNREFUSED"));
  world_.network()->set_fault_rates({});
  Outcome unheard;
  gate_.Spawn(ConnectInto(client_, server_->Address(9), io::kNoDeadline, &none,
                          &unheard));
  world_.RunUntilIdle();
  EXPECT_THAT(unheard.status, StatusIs(kUnavailable, "ECONNREFUSED"));
  EXPECT_EQ(fired(FaultKind::kConnectRefused), 2u);
}

// --- Links.

TEST_F(NetworkFaultsTest, SlowLinkTakesItsFactorUntilItIsHealed) {
  const NetworkOptions options;
  const io::TimeNs start = world_.NowNs();
  world_.network()->SlowLink(server_node_, client_node_, 1000);
  EXPECT_TRUE(Transfer(kMessage).bytes == Counting(kMessage));
  EXPECT_GE(world_.NowNs() - start, 1000 * options.latency_ns_min);
  EXPECT_EQ(fired(FaultKind::kSlowLink), 1u) << "once a link and direction";
  world_.network()->HealAll();
  const io::TimeNs healed = world_.NowNs();
  Transfer(kMessage);
  EXPECT_LT(world_.NowNs() - healed, 10 * options.latency_ns_max);
}

TEST_F(NetworkFaultsTest, SlowLinkCarriesOneWindowARoundTripAtMost) {
  const NetworkOptions options;
  world_.network()->SlowLink(server_node_, client_node_, 10'000);
  const io::TimeNs start = world_.NowNs();
  const Reading reading = Transfer(10 * options.window_bytes);
  EXPECT_EQ(reading.bytes.size(), 10 * options.window_bytes);
  EXPECT_GE(world_.NowNs() - start, 9 * 10'000 * options.latency_ns_min);
}

TEST_F(NetworkFaultsTest, CutIsCountedWhenSomethingRunsIntoIt) {
  world_.network()->Cut(client_node_, server_node_);
  Pass(io::kSecond);
  EXPECT_EQ(fired(FaultKind::kLinkCut), 0u);
  EXPECT_TRUE(Transfer(kMessage).bytes.empty());
  EXPECT_EQ(fired(FaultKind::kLinkCut), 1u);
  std::unique_ptr<io::Stream> none;
  Outcome late;
  gate_.Spawn(ConnectInto(client_, server_->Address(7400),
                          world_.NowNs() + io::kSecond, &none, &late));
  world_.RunUntilIdle();
  EXPECT_THAT(late.status, StatusIs(absl::StatusCode::kDeadlineExceeded, ""));
  EXPECT_EQ(fired(FaultKind::kLinkCut), 2u);
  EXPECT_EQ(fired(FaultKind::kConnectTimeout), 1u);
  world_.network()->HealAll();
  world_.RunUntilIdle();
}

TEST_F(NetworkFaultsTest, HalfOpenConnectionIsCounted) {
  CrashOptions options;
  options.half_open = true;
  world_.Crash(server_node_, options);
  EXPECT_EQ(fired(FaultKind::kHalfOpen), 1u);
  EXPECT_EQ(fired(FaultKind::kPowerLoss), 1u);
  EXPECT_EQ(fired(FaultKind::kConnectionReset), 0u);
  world_.Start(server_node_);
}

// The same seed gives the same trace through all of it; another does not.
uint64_t HashOfAFaultyRun(uint64_t seed) {
  class Run : public NetworkTest {
   public:
    explicit Run(uint64_t seed) : NetworkTest(seed) {}
    void TestBody() override {
      NetworkFaultRates rates;
      rates.latency_spike = rates.tiny_segments = 5;
      rates.corrupt_segment = 7;
      world_.network()->set_fault_rates(rates);
      Outcome sent;
      Reading reading;
      gate_.Spawn(SendInto(at_client_.get(), Counting(9000), &sent));
      gate_.Spawn(ReadUpTo(at_server_.get(), 9000, &reading));
      world_.RunUntilIdle();
      hash = world_.trace_hash();
    }
    uint64_t hash = 0;
  };
  Run run(seed);
  run.TestBody();
  return run.hash;
}

TEST(NetworkFaults, SameSeedGivesTheSameTrace) {
  EXPECT_EQ(HashOfAFaultyRun(1), HashOfAFaultyRun(1));
  EXPECT_NE(HashOfAFaultyRun(1), HashOfAFaultyRun(2));
}

}  // namespace
}  // namespace cairn::sim
