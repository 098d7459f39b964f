// A channel against a server that the test plays: rows N2, N4, N14 and N20 of
// the fault catalogue, and whose memory is whose.
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

using HostileServer = SimRpc;

Task<void> GreetAndWait(Env* env, Listener* listener) {
  const std::unique_ptr<RawPeer> peer = co_await AcceptAndGreet(env, listener);
  const bool ended = co_await peer->SeesTheEnd();
  EXPECT_TRUE(ended);
  co_await peer->Close();
}

// A reused address: the raw server belongs to TestCluster().
Task<void> WrongServer(Channel* channel, Env* client, Env* server,
                       Listener* listener) {
  Gate gate(server);
  gate.Spawn(GreetAndWait(server, listener));
  ChannelOptions options;
  options.address = channel->address();
  options.cluster_id = OtherCluster();
  const std::unique_ptr<Channel> other = Channel::Create(client, options);
  const absl::StatusOr<std::string> answer =
      co_await other->Call(Method::kPing, "x", CallOptions());
  EXPECT_THAT(answer, StatusIs(absl::StatusCode::kFailedPrecondition,
                               "the server belongs to 1111"));
  co_await other->Close();
  co_await gate.Close();
}
TEST_F(HostileServer, ClientRefusesAServerOfAnotherCluster) {
  RunRaw(WrongServer);
}

// --- Servers that misbehave.

Task<void> StrayAnswers(Channel* channel, Env*, Env* server,
                        Listener* listener) {
  Gate gate(server);
  absl::StatusOr<std::string> answer;
  bool done = false;
  gate.Spawn(
      CallAndKeep(channel, Method::kPing, CallOptions(), &answer, &done));
  const std::unique_ptr<RawPeer> peer =
      co_await AcceptAndGreet(server, listener);
  const absl::StatusOr<Frame> request = co_await peer->Read();
  EXPECT_THAT(request, IsOk());
  if (!request.ok()) co_return;
  // To a call that never was, with a payload; then the answer, twice.
  FrameHeader stray = ResponseTo(*request);
  stray.request_id += 100;
  stray.payload_bytes = 300;
  stray.trailer_bytes = format::TrailerBytes(1);
  const std::string payload(300 + 16, 'p');
  absl::Status sent = co_await peer->Send(stray, "no", payload);
  EXPECT_THAT(sent, IsOk());
  sent = co_await peer->Send(ResponseTo(*request), "yes");
  EXPECT_THAT(sent, IsOk());
  sent = co_await peer->Send(ResponseTo(*request), "again");
  EXPECT_THAT(sent, IsOk());
  co_await gate.Close();
  EXPECT_THAT(answer, IsOk());
  EXPECT_EQ(answer.value_or(""), "yes");
  // The same connection goes on.
  gate.Spawn(
      CallAndKeep(channel, Method::kPing, CallOptions(), &answer, &done));
  const absl::StatusOr<Frame> next = co_await peer->Read();
  EXPECT_THAT(next, IsOk());
  if (next.ok()) sent = co_await peer->Send(ResponseTo(*next), "next");
  co_await gate.Close();
  EXPECT_THAT(answer, IsOk());
  co_await peer->Close();
}
TEST_F(HostileServer, AnswersToNobodyAndDuplicatesAreSkipped) {
  RunRaw(StrayAnswers);
}

Task<void> GarbageAnswer(Channel* channel, Env*, Env* server,
                         Listener* listener) {
  Gate gate(server);
  absl::StatusOr<std::string> first;
  absl::StatusOr<std::string> second;
  bool done = false;
  gate.Spawn(CallAndKeep(channel, Method::kPing, CallOptions(), &first, &done));
  std::unique_ptr<RawPeer> peer = co_await AcceptAndGreet(server, listener);
  const absl::StatusOr<Frame> request = co_await peer->Read();
  EXPECT_THAT(request, IsOk());
  std::string garbage(100, 'g');
  absl::Status sent = co_await peer->SendBytes(std::move(garbage));
  EXPECT_THAT(sent, IsOk());
  co_await gate.Close();
  EXPECT_THAT(first, StatusIs(absl::StatusCode::kUnavailable, "malformed"));
  co_await peer->Close();
  // And the next call makes a new connection.
  gate.Spawn(
      CallAndKeep(channel, Method::kPing, CallOptions(), &second, &done));
  peer = co_await AcceptAndGreet(server, listener);
  const absl::StatusOr<Frame> next = co_await peer->Read();
  EXPECT_THAT(next, IsOk());
  if (next.ok()) sent = co_await peer->Send(ResponseTo(*next), "fine");
  co_await gate.Close();
  EXPECT_THAT(second, IsOk());
  co_await peer->Close();
}
TEST_F(HostileServer, GarbageFromTheServerFailsItsCallsAndReconnects) {
  RunRaw(GarbageAnswer);
}

// The memory of a payload that is half here is the caller's again when its call
// has failed: nothing that arrives later may touch it.
Task<void> DeadlineInResponse(Channel* channel, Env* client, Env* server,
                              Listener* listener) {
  Gate gate(server);
  auto memory = std::make_unique<std::vector<uint8_t>>(200'000);
  auto sink = std::make_unique<MemorySink>(*memory);
  absl::StatusOr<std::string> answer;
  bool done = false;
  CallOptions options;
  options.sink = sink.get();
  options.deadline = client->NowNs() + 2 * kSecond;
  gate.Spawn(CallAndKeep(channel, Method::kGetChunk, options, &answer, &done));
  const std::unique_ptr<RawPeer> peer =
      co_await AcceptAndGreet(server, listener);
  const absl::StatusOr<Frame> request = co_await peer->Read();
  EXPECT_THAT(request, IsOk());
  if (!request.ok()) co_return;
  FrameHeader header = ResponseTo(*request);
  header.payload_bytes = 200'000;
  header.trailer_bytes = format::TrailerBytes(4);
  const std::string half(100'000, 'h');
  const absl::Status sent = co_await peer->Send(header, "", half);
  EXPECT_THAT(sent, IsOk());
  co_await SleepFor(client, kSecond);
  EXPECT_FALSE(done);
  EXPECT_TRUE(sink->began());
  co_await gate.Close();
  EXPECT_THAT(answer, StatusIs(absl::StatusCode::kDeadlineExceeded,
                               "GetChunk to raw server"));
  EXPECT_FALSE(sink->finished());
  sink.reset();  // The address sanitizer watches the rest.
  memory.reset();
  std::string rest(100'000 + 40, 'r');
  absl::Status ignored = co_await peer->SendBytes(std::move(rest));
  ignored.IgnoreError();
  co_await SleepFor(client, kSecond);
  co_await peer->Close();
}
TEST_F(HostileServer, DeadlineInsideAResponseGivesTheMemoryBack) {
  RunRaw(DeadlineInResponse);
}

Task<void> DeadlineInRequest(Channel* channel, Env* client, Env* server,
                             Listener* listener) {
  Gate gate(server);
  auto memory = std::make_unique<std::vector<uint8_t>>(4'000'000);
  auto source = std::make_unique<MemorySource>(*memory);
  absl::StatusOr<std::string> answer;
  bool done = false;
  CallOptions options;
  options.source = source.get();
  options.deadline = client->NowNs() + 2 * kSecond;
  gate.Spawn(CallAndKeep(channel, Method::kPutChunk, options, &answer, &done));
  // Greeted, the raw server reads no more.
  const std::unique_ptr<RawPeer> peer =
      co_await AcceptAndGreet(server, listener);
  co_await SleepFor(client, kSecond);
  EXPECT_FALSE(done);
  EXPECT_GT(source->pieces(), 0u);
  EXPECT_LT(source->pieces(), 4u);
  co_await gate.Close();
  EXPECT_THAT(answer, StatusIs(absl::StatusCode::kDeadlineExceeded,
                               "PutChunk to raw server"));
  source.reset();  // The address sanitizer watches the rest.
  memory.reset();
  const bool ended = co_await peer->SeesTheEnd();
  EXPECT_TRUE(ended);
  co_await peer->Close();
}
TEST_F(HostileServer, DeadlineInsideARequestGivesTheMemoryBack) {
  RunRaw(DeadlineInRequest);
}

// A payload that still waits behind another one is dropped alone.
Task<void> DeadlineInQueue(Channel* channel, Env* client, Env* server,
                           Listener* listener) {
  Gate gate(server);
  const std::vector<uint8_t> memory(1'000'000);
  MemorySource first(memory);
  MemorySource second(memory);
  absl::StatusOr<std::string> answers[2];
  bool done[2] = {false, false};
  CallOptions options;
  options.source = &first;
  gate.Spawn(
      CallAndKeep(channel, Method::kPutChunk, options, &answers[0], &done[0]));
  const std::unique_ptr<RawPeer> peer =
      co_await AcceptAndGreet(server, listener);
  co_await SleepFor(client, kSecond);
  options.source = &second;
  options.deadline = client->NowNs() + kSecond;
  co_await CallAndKeep(channel, Method::kPutChunk, options, &answers[1],
                       &done[1]);
  EXPECT_THAT(answers[1], StatusIs(absl::StatusCode::kDeadlineExceeded, ""));
  EXPECT_EQ(second.pieces(), 0u);
  EXPECT_FALSE(done[0]);
  const absl::StatusOr<Frame> put = co_await peer->Read();
  EXPECT_THAT(put, IsOk());
  if (!put.ok()) co_return;
  const absl::Status skipped = co_await peer->reader.SkipPayload(put->header);
  EXPECT_THAT(skipped, IsOk());
  const absl::Status sent = co_await peer->Send(ResponseTo(*put), "ok");
  EXPECT_THAT(sent, IsOk());
  co_await gate.Close();
  EXPECT_THAT(answers[0], IsOk());
  co_await peer->Close();
}
TEST_F(HostileServer, DeadlineBeforeAPayloadIsSentDropsOnlyThatCall) {
  RunRaw(DeadlineInQueue);
}

// An answer that comes before the payload was sent does not end the call while
// the source is in use.
Task<void> EarlyAnswer(Channel* channel, Env* client, Env* server,
                       Listener* listener) {
  Gate gate(server);
  const std::vector<uint8_t> memory(1'000'000);
  MemorySource source(memory);
  absl::StatusOr<std::string> answer;
  bool done = false;
  CallOptions options;
  options.source = &source;
  gate.Spawn(CallAndKeep(channel, Method::kPutChunk, options, &answer, &done));
  const std::unique_ptr<RawPeer> peer =
      co_await AcceptAndGreet(server, listener);
  const absl::StatusOr<Frame> put = co_await peer->Read();
  EXPECT_THAT(put, IsOk());
  if (!put.ok()) co_return;
  const absl::Status sent = co_await peer->Send(ResponseTo(*put), "early");
  EXPECT_THAT(sent, IsOk());
  co_await SleepFor(client, kSecond);
  EXPECT_FALSE(done);
  const absl::Status skipped = co_await peer->reader.SkipPayload(put->header);
  EXPECT_THAT(skipped, IsOk());
  co_await gate.Close();
  EXPECT_THAT(answer, IsOk());
  co_await peer->Close();
}
TEST_F(HostileServer, EarlyAnswerWaitsForTheSourcesMemory) {
  RunRaw(EarlyAnswer);
}

}  // namespace
}  // namespace cairn::io
