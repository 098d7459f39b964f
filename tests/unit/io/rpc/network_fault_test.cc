// A channel and a server on a bad network: rows N1, N11 and N19 of the fault
// catalogue.
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
using format::Method;

using NetworkFault = SimRpc;

Task<void> ExpectPong(Rig* rig) {
  const absl::StatusOr<std::string> pong =
      co_await rig->Call(Method::kPing, "p");
  EXPECT_THAT(pong, IsOk());
}

// --- The network.

Task<void> ExpectUnavailable(Rig* rig, CallOptions options, int* failed) {
  const absl::StatusOr<std::string> answer =
      co_await rig->Call(Method::kLookup, "x", options);
  EXPECT_THAT(answer,
              StatusIs(absl::StatusCode::kUnavailable, "connection lost"));
  ++*failed;
}

Task<void> ResetConnection(Rig* rig) {
  sim::SimEnv* const client = Sim(rig->client_env);
  sim::SimEnv* const server = Sim(rig->server_env);
  Gate gate(client);
  int failed = 0;
  for (int i = 0; i < 10; ++i) {
    gate.Spawn(ExpectUnavailable(rig, CallOptions(), &failed));
  }
  while (rig->service.holding < 10) co_await SleepFor(client, kMillisecond);
  client->network()->Reset(client->node(), server->node());
  co_await gate.Close();
  EXPECT_EQ(failed, 10);
  rig->service.release.Set();
  co_await ExpectPong(rig);  // On a new connection.
  co_await SleepFor(client, kSecond);
  EXPECT_EQ(rig->server->connections(), 1u);
}
TEST_F(NetworkFault, ResetFailsEveryCallInFlightAndTheNextReconnects) {
  Run(ResetConnection);
}

// Half-open: the peer vanished without a word.
Task<void> Partition(Rig* rig) {
  sim::SimEnv* const client = Sim(rig->client_env);
  sim::SimEnv* const server = Sim(rig->server_env);
  Gate gate(client);
  co_await ExpectPong(rig);
  client->network()->Partition(client->node(), server->node());
  int failed = 0;
  gate.Spawn(ExpectUnavailable(rig, CallOptions(), &failed));
  CallOptions options;
  options.deadline = client->NowNs() + kSilentPeerTimeout + kSecond;
  const absl::StatusOr<std::string> answer =
      co_await rig->Call(Method::kPing, "x", options);
  EXPECT_THAT(answer, StatusIs(absl::StatusCode::kDeadlineExceeded,
                               "Ping to target 3"));
  // The call without a deadline learned it from the other one.
  co_await gate.Close();
  EXPECT_EQ(failed, 1);
  client->network()->HealAll();
  co_await ExpectPong(rig);
}
TEST_F(NetworkFault, SilentPeerIsTakenForDeadAtADeadline) { Run(Partition); }

Task<void> SlowHandler(Rig* rig) {
  sim::SimEnv* const client = Sim(rig->client_env);
  CallOptions options;
  options.deadline = client->NowNs() + kSilentPeerTimeout + kSecond;
  Gate gate(client);
  absl::StatusOr<std::string> answer;
  bool done = false;
  gate.Spawn(CallAndKeep(rig->channel.get(), Method::kLookup, options, &answer,
                         &done));
  co_await SleepFor(client, kSecond);
  co_await ExpectPong(rig);
  const uint64_t connection = rig->service.last_connection;
  co_await gate.Close();
  EXPECT_THAT(answer, StatusIs(absl::StatusCode::kDeadlineExceeded, "Lookup"));
  co_await ExpectPong(rig);
  EXPECT_EQ(rig->service.last_connection, connection);
}
TEST_F(NetworkFault, SlowHandlerIsNotTakenForADeadPeer) { Run(SlowHandler); }

Task<void> CallAgain(Channel* channel, Env* env, std::vector<TimeNs>* tries,
                     TimeNs until) {
  while (env->NowNs() < until) {
    const absl::StatusOr<std::string> answer =
        co_await channel->Call(Method::kPing, "x", CallOptions());
    EXPECT_THAT(answer, StatusIs(absl::StatusCode::kUnavailable, ""));
    tries->push_back(env->NowNs());
  }
}

// Nobody listens: attempts become rare, and do not come in step.
Task<void> BackOff(Rig* rig) {
  Env* const env = rig->client_env;
  co_await rig->server->Close();
  Gate gate(env);
  const TimeNs until = env->NowNs() + 20 * kSecond;
  std::vector<std::unique_ptr<Channel>> channels;
  std::vector<std::vector<TimeNs>> tries(8);
  for (std::vector<TimeNs>& of_one : tries) {
    channels.push_back(Channel::Create(env, rig->Options()));
    gate.Spawn(CallAgain(channels.back().get(), env, &of_one, until));
  }
  co_await gate.Close();
  std::set<TimeNs> last;
  for (const std::vector<TimeNs>& of_one : tries) {
    EXPECT_GE(of_one.size(), 20u);  // At least one a second.
    EXPECT_LE(of_one.size(), 50u);  // At most about two, once it is capped.
    EXPECT_LT(of_one[1] - of_one[0], 100 * kMillisecond);
    last.insert(of_one.back() / kMillisecond);
  }
  EXPECT_GE(last.size(), 6u);
  for (const std::unique_ptr<Channel>& channel : channels) {
    co_await channel->Close();
  }
}
TEST_F(NetworkFault, ReconnectsBackOffWithJitter) { Run(BackOff); }

Task<void> DeadlineInBackOff(Rig* rig) {
  Env* const env = rig->client_env;
  co_await rig->server->Close();
  for (int i = 0; i < 12; ++i) {
    const absl::StatusOr<std::string> failed =
        co_await rig->Call(Method::kPing, "x");
    EXPECT_THAT(failed, StatusIs(absl::StatusCode::kUnavailable, ""));
  }
  CallOptions options;  // Less than half of the longest delay.
  options.deadline = env->NowNs() + kReconnectDelayMax / 4;
  const absl::StatusOr<std::string> answer =
      co_await rig->Call(Method::kPing, "x", options);
  EXPECT_THAT(answer, StatusIs(absl::StatusCode::kDeadlineExceeded,
                               "Ping to target 3"));
  EXPECT_EQ(env->NowNs(), options.deadline);
}
TEST_F(NetworkFault, DeadlineDuringBackOffEndsTheCall) {
  Run(DeadlineInBackOff);
}

Task<void> IdleConnections(Rig* rig) {
  Env* const env = rig->client_env;
  // One that waits for an answer all the time, and one that asks nothing more.
  const std::unique_ptr<RawPeer> waiting = co_await DialAndGreet(rig);
  const absl::Status sent =
      co_await waiting->Send(RequestOf(Method::kLookup, 1), "held");
  EXPECT_THAT(sent, IsOk());
  co_await ExpectPong(rig);
  co_await SleepFor(env, kIdleTimeout - kSecond);
  EXPECT_EQ(rig->server->connections(), 2u);
  co_await ExpectPong(rig);
  co_await SleepFor(env, kIdleTimeout - kSecond);
  EXPECT_EQ(rig->server->connections(), 2u);
  co_await SleepFor(env, 2 * kSecond);
  EXPECT_EQ(rig->server->connections(), 1u);
  co_await ExpectPong(rig);  // It comes back with the next call.
  rig->service.release.Set();
  const absl::StatusOr<internal::Frame> answer = co_await waiting->Read();
  EXPECT_THAT(answer, IsOk());
  co_await waiting->Close();
}
TEST_F(NetworkFault, IdleConnectionIsClosedAndOneThatWaitsIsNot) {
  Run(IdleConnections);
}

}  // namespace
}  // namespace cairn::io
