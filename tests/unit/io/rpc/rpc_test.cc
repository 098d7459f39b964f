// Calls through a channel to a server, on every Env.
#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "io/event_loop.h"
#include "tests/sim/sim_env.h"
#include "tests/sim/world.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/io/rpc/rig.h"

namespace cairn::io {
namespace {

using ::cairn::testing::IsOk;
using ::cairn::testing::StatusIs;
using format::Method;

// Two loops and a way to run a coroutine on them.
class Host {
 public:
  virtual ~Host() = default;
  virtual Env* server_env() = 0;
  virtual Env* client_env() = 0;
  virtual std::string address() = 0;
  virtual void Run(Task<void> task) = 0;
};

class SimHost final : public Host {
 public:
  SimHost() : world_(sim::WorldOptions()) {
    server_ = world_.Start(world_.AddNode());
    client_ = world_.Start(world_.AddNode());
  }
  Env* server_env() override { return server_; }
  Env* client_env() override { return client_; }
  std::string address() override { return server_->Address(7400); }
  void Run(Task<void> task) override { world_.Run(std::move(task)); }

 private:
  sim::World world_;
  sim::SimEnv* server_;
  sim::SimEnv* client_;
};

// Both sides on one real loop, over loopback.
class RealHost final : public Host {
 public:
  explicit RealHost(std::unique_ptr<RealEnv> env) : env_(std::move(env)) {}
  Env* server_env() override { return env_.get(); }
  Env* client_env() override { return env_.get(); }
  std::string address() override { return "127.0.0.1:0"; }
  void Run(Task<void> task) override { env_->RunUntilDone(std::move(task)); }

 private:
  std::unique_ptr<RealEnv> env_;
};

struct HostKind {
  std::string name;
  std::function<std::unique_ptr<Host>()> make;
  RigOptions options;
};

Task<void> RunBody(Host* host, RigOptions options,
                   Task<void> (*body)(Rig* rig)) {
  Rig rig(host->server_env(), host->client_env(), options);
  co_await rig.Start(host->address());
  co_await body(&rig);
  co_await rig.Close();
}

class Rpc : public ::testing::TestWithParam<HostKind> {
 protected:
  void Run(Task<void> (*body)(Rig* rig)) {
    const std::unique_ptr<Host> host = GetParam().make();
    if (host == nullptr) GTEST_SKIP() << "no such backend here";
    host->Run(RunBody(host.get(), GetParam().options, body));
  }
};

Task<void> CallInto(Rig* rig, Method method, std::string body,
                    std::vector<std::string>* answers) {
  const absl::StatusOr<std::string> answer = co_await rig->Call(method, body);
  EXPECT_THAT(answer, IsOk());
  if (answer.ok()) answers->push_back(*answer);
}

Task<void> HeldCallIsOvertaken(Rig* rig) {
  Gate gate(rig->client_env);
  std::vector<std::string> answers;
  gate.Spawn(CallInto(rig, Method::kLookup, "held", &answers));
  gate.Spawn(CallInto(rig, Method::kPing, "first", &answers));
  gate.Spawn(CallInto(rig, Method::kPing, "second", &answers));
  while (answers.size() < 2) co_await SleepFor(rig->client_env, kMillisecond);
  rig->service.release.Set();
  co_await gate.Close();
  const std::vector<std::string> expected = {"first", "second", "held"};
  EXPECT_EQ(answers, expected);
}
TEST_P(Rpc, HeldCallIsOvertakenByLaterOnes) { Run(HeldCallIsOvertaken); }

Task<void> ManyCalls(Rig* rig) {
  Gate gate(rig->client_env);
  std::vector<std::string> answers;
  std::vector<std::string> expected;
  for (int i = 0; i < 1000; ++i) {
    // Bodies of very different lengths, past every read-ahead.
    std::string body(static_cast<size_t>(i * 37 % 9001), 'x');
    body += std::to_string(i);
    expected.push_back(body);
    gate.Spawn(CallInto(rig, Method::kPing, body, &answers));
  }
  co_await gate.Close();
  std::sort(answers.begin(), answers.end());
  std::sort(expected.begin(), expected.end());
  EXPECT_EQ(answers, expected);
  EXPECT_EQ(rig->server->connections(), 1u);
}
TEST_P(Rpc, ThousandCallsInFlightShareOneConnection) { Run(ManyCalls); }

Task<void> PutAndGet(Rig* rig, uint64_t size) {
  const std::vector<uint8_t> bytes = Pattern(size, 1);
  MemorySource source(bytes, 100'000);
  CallOptions put;
  put.source = &source;
  const absl::StatusOr<std::string> stored =
      co_await rig->Call(Method::kPutChunk, "", put);
  EXPECT_THAT(stored, IsOk());
  EXPECT_TRUE(rig->service.last_put == bytes) << size;

  std::vector<uint8_t> got(size);
  MemorySink sink(got, 70'000);
  CallOptions get;
  get.sink = &sink;
  const absl::StatusOr<std::string> answer =
      co_await rig->Call(Method::kGetChunk, std::to_string(size), get);
  EXPECT_THAT(answer, IsOk());
  EXPECT_EQ(sink.body(), std::to_string(size));
  EXPECT_TRUE(sink.finished());
  EXPECT_TRUE(got == bytes) << size;
}

Task<void> PayloadsBothWays(Rig* rig) {
  for (const uint64_t size :
       {uint64_t{1}, uint64_t{63}, format::kBlockBytes, format::kBlockBytes + 1,
        uint64_t{1'000'000}, format::kChunkBytesMax}) {
    co_await PutAndGet(rig, size);
    // Small frames in between, so that adaptive read-ahead comes and goes.
    for (int i = 0; i < 5; ++i) {
      const absl::StatusOr<std::string> pong =
          co_await rig->Call(Method::kPing, "p");
      EXPECT_THAT(pong, IsOk());
    }
  }
}
TEST_P(Rpc, PayloadsOfEverySizeGoBothWays) { Run(PayloadsBothWays); }

Task<void> PutAndGetTask(Rig* rig, uint64_t size) {
  co_await PutAndGet(rig, size);
}

Task<void> MixedTraffic(Rig* rig) {
  Gate gate(rig->client_env);
  std::vector<std::string> answers;
  for (int i = 0; i < 40; ++i) {
    gate.Spawn(CallInto(rig, Method::kPing, std::to_string(i), &answers));
    if (i % 5 == 0) gate.Spawn(PutAndGetTask(rig, 300'000));
  }
  co_await gate.Close();
  EXPECT_EQ(answers.size(), 40u);
}
TEST_P(Rpc, PayloadsAndSmallFramesMixOnOneConnection) { Run(MixedTraffic); }

Task<void> EmptyPayload(Rig* rig) {
  std::vector<uint8_t> nothing;
  MemorySource source(nothing);
  MemorySink sink(nothing);
  CallOptions options;
  options.source = &source;
  options.sink = &sink;
  const absl::StatusOr<std::string> answer =
      co_await rig->Call(Method::kGetChunk, "0", options);
  EXPECT_THAT(answer, IsOk());
  // The sink hears that nothing comes, and is asked for no memory.
  EXPECT_TRUE(sink.began());
  EXPECT_EQ(sink.pieces(), 0u);
  EXPECT_FALSE(sink.finished());
}
TEST_P(Rpc, SinkIsToldThatNoPayloadComes) { Run(EmptyPayload); }

Task<void> Failure(Rig* rig) {
  const absl::StatusOr<std::string> answer =
      co_await rig->Call(Method::kUnlink, "x");
  EXPECT_THAT(answer, StatusIs(absl::StatusCode::kNotFound, "no such name: x"));
}
TEST_P(Rpc, FailureCarriesTheHandlersCodeAndMessage) { Run(Failure); }

Task<void> Forgotten(Rig* rig) {
  const absl::StatusOr<std::string> answer =
      co_await rig->Call(Method::kRmdir, "x");
  EXPECT_THAT(answer, StatusIs(absl::StatusCode::kInternal,
                               "Rmdir was left without an answer"));
}
TEST_P(Rpc, HandlerThatNeverAnswersGivesInternal) { Run(Forgotten); }

Task<void> UnknownMethod(Rig* rig) {
  const absl::StatusOr<std::string> answer =
      co_await rig->Call(static_cast<Method>(999), "x");
  EXPECT_THAT(answer, StatusIs(absl::StatusCode::kUnimplemented,
                               "method 999 is not served here"));
}
TEST_P(Rpc, UnknownMethodIsUnimplemented) { Run(UnknownMethod); }

Task<void> UntakenPayload(Rig* rig) {
  const std::vector<uint8_t> bytes = Pattern(700'000, 1);
  for (const Method method :
       {Method::kSetAttr, Method::kUnlink, static_cast<Method>(999)}) {
    MemorySource source(bytes);
    CallOptions options;
    options.source = &source;
    const absl::StatusOr<std::string> answer =
        co_await rig->Call(method, "x", options);
    EXPECT_EQ(answer.ok(), method == Method::kSetAttr);
  }
  co_await PutAndGet(rig, 1000);
  EXPECT_EQ(rig->server->connections(), 1u);
}
TEST_P(Rpc, PayloadThatNobodyTakesIsSkipped) { Run(UntakenPayload); }

Task<void> UnwantedPayload(Rig* rig) {
  const absl::StatusOr<std::string> answer =
      co_await rig->Call(Method::kGetChunk, "700000");
  EXPECT_THAT(answer, IsOk());
  std::vector<uint8_t> small(10);
  MemorySink sink(small);
  CallOptions options;
  options.sink = &sink;
  const absl::StatusOr<std::string> refused =
      co_await rig->Call(Method::kGetChunk, "700000", options);
  EXPECT_THAT(refused, StatusIs(absl::StatusCode::kOutOfRange, "no room"));
  const uint64_t connection = rig->service.last_connection;
  co_await PutAndGet(rig, 1000);
  EXPECT_EQ(rig->service.last_connection, connection);
}
TEST_P(Rpc, PayloadThatTheSinkRefusesIsSkipped) { Run(UnwantedPayload); }

Task<void> CorruptRequest(Rig* rig) {
  const std::vector<uint8_t> bytes = Pattern(200'000, 1);
  MemorySource corrupt(bytes);
  corrupt.Corrupt();
  CallOptions options;
  options.source = &corrupt;
  const absl::StatusOr<std::string> answer =
      co_await rig->Call(Method::kPutChunk, "", options);
  EXPECT_THAT(answer, StatusIs(absl::StatusCode::kDataLoss, "checksum"));
  MemorySource failing(bytes);
  failing.FailWith(absl::StatusCode::kUnavailable);
  options.source = &failing;
  const absl::StatusOr<std::string> failed =
      co_await rig->Call(Method::kPutChunk, "", options);
  EXPECT_THAT(failed,
              StatusIs(absl::StatusCode::kUnavailable, "sender failed"));
  const uint64_t connection = rig->service.last_connection;
  co_await PutAndGet(rig, 1000);
  EXPECT_EQ(rig->service.last_connection, connection);
}
TEST_P(Rpc, CorruptRequestPayloadFailsOnlyItsCall) { Run(CorruptRequest); }

Task<void> CorruptResponse(Rig* rig) {
  std::vector<uint8_t> got(200'000);
  MemorySink corrupt(got);
  CallOptions options;
  options.sink = &corrupt;
  const absl::StatusOr<std::string> answer =
      co_await rig->Call(Method::kRename, "200000", options);
  EXPECT_THAT(answer, StatusIs(absl::StatusCode::kDataLoss, "checksum"));
  MemorySink failing(got);
  options.sink = &failing;
  const absl::StatusOr<std::string> failed =
      co_await rig->Call(Method::kLink, "200000", options);
  EXPECT_THAT(failed,
              StatusIs(absl::StatusCode::kUnavailable, "sender failed"));
  EXPECT_FALSE(failing.finished());
  const uint64_t connection = rig->service.last_connection;
  co_await PutAndGet(rig, 1000);
  EXPECT_EQ(rig->service.last_connection, connection);
}
TEST_P(Rpc, CorruptResponsePayloadFailsOnlyItsCall) { Run(CorruptResponse); }

Task<void> CallWith(Rig* rig, ChannelOptions options,
                    absl::StatusOr<std::string>* answer,
                    format::ClusterId* cluster, uint64_t* boot_epoch) {
  const std::unique_ptr<Channel> channel =
      Channel::Create(rig->client_env, std::move(options));
  *answer = co_await channel->Call(Method::kPing, "hi", CallOptions());
  *cluster = channel->cluster_id();
  *boot_epoch = channel->boot_epoch();
  co_await channel->Close();
}

Task<void> FirstContact(Rig* rig) {
  ChannelOptions options = rig->Options();
  options.cluster_id = format::ClusterId();
  options.expect_target = 0;
  absl::StatusOr<std::string> answer;
  format::ClusterId cluster;
  uint64_t boot_epoch = 0;
  co_await CallWith(rig, options, &answer, &cluster, &boot_epoch);
  EXPECT_THAT(answer, IsOk());
  EXPECT_EQ(cluster, TestCluster());
  EXPECT_EQ(boot_epoch, kBootEpoch);
}
TEST_P(Rpc, FirstContactLearnsClusterAndBootEpoch) { Run(FirstContact); }

Task<void> WrongPeers(Rig* rig) {
  ChannelOptions options = rig->Options();
  options.cluster_id = OtherCluster();
  absl::StatusOr<std::string> answer;
  format::ClusterId cluster;
  uint64_t boot_epoch = 0;
  co_await CallWith(rig, options, &answer, &cluster, &boot_epoch);
  EXPECT_THAT(answer, StatusIs(absl::StatusCode::kFailedPrecondition,
                               "wrong cluster: the client looks for 2222"));
  EXPECT_EQ(cluster, format::ClusterId());
  options = rig->Options();
  options.expect_target = kServedTarget + 1;
  co_await CallWith(rig, options, &answer, &cluster, &boot_epoch);
  EXPECT_THAT(answer, StatusIs(absl::StatusCode::kFailedPrecondition,
                               "target 4 is not served here"));
}
TEST_P(Rpc, WrongClusterAndWrongTargetAreRefused) { Run(WrongPeers); }

Task<void> NobodyListens(Rig* rig) {
  co_await rig->server->Close();
  const absl::StatusOr<std::string> answer =
      co_await rig->Call(Method::kPing, "x");
  EXPECT_THAT(answer, StatusIs(absl::StatusCode::kUnavailable,
                               "Ping to target 3 (" + rig->address + ")"));
}
TEST_P(Rpc, RefusedConnectionIsUnavailableAndNamesTheServer) {
  Run(NobodyListens);
}

Task<void> Deadline(Rig* rig) {
  CallOptions options;
  options.deadline = rig->client_env->NowNs() + 20 * kMillisecond;
  const absl::StatusOr<std::string> answer =
      co_await rig->Call(Method::kLookup, "held", options);
  EXPECT_THAT(answer, StatusIs(absl::StatusCode::kDeadlineExceeded,
                               "Lookup to target 3 (" + rig->address + ")"));
  rig->service.release.Set();  // Its answer comes late, and to nobody.
  const uint64_t connection = rig->service.last_connection;
  co_await PutAndGet(rig, 1000);
  EXPECT_EQ(rig->service.last_connection, connection);
}
TEST_P(Rpc, LateAnswerIsIgnoredAndTheConnectionKept) { Run(Deadline); }

Task<void> TooLarge(Rig* rig) {
  const absl::StatusOr<std::string> answer = co_await rig->Call(
      Method::kPing, std::string(format::kFrameBodyBytesMax + 1, 'x'));
  EXPECT_THAT(answer,
              StatusIs(absl::StatusCode::kInvalidArgument, "too large"));
  const absl::StatusOr<std::string> largest = co_await rig->Call(
      Method::kPing, std::string(format::kFrameBodyBytesMax, 'x'));
  EXPECT_THAT(largest, IsOk());
}
TEST_P(Rpc, RequestOverTheLimitIsRefusedBeforeItIsSent) { Run(TooLarge); }

Task<void> ExpectLost(Rig* rig, Method method, int* lost) {
  const absl::StatusOr<std::string> answer = co_await rig->Call(method, "x");
  EXPECT_THAT(answer,
              StatusIs(absl::StatusCode::kUnavailable, "Lookup to target 3"));
  ++*lost;
}

Task<void> ServerCloses(Rig* rig) {
  Gate gate(rig->client_env);
  Gate closing(rig->server_env);
  int lost = 0;
  for (int i = 0; i < 3; ++i) {
    gate.Spawn(ExpectLost(rig, Method::kLookup, &lost));
  }
  while (rig->service.holding < 3) {
    co_await SleepFor(rig->client_env, kMillisecond);
  }
  closing.Spawn(rig->server->Close());
  co_await gate.Close();
  EXPECT_EQ(lost, 3);
  EXPECT_EQ(closing.in_flight(), 1u);  // It waits for the handlers.
  rig->service.release.Set();
  co_await closing.Close();
  EXPECT_EQ(rig->server->connections(), 0u);
}
TEST_P(Rpc, ClosingServerFailsCallsAndWaitsForHandlers) { Run(ServerCloses); }

Task<void> ChannelCloses(Rig* rig) {
  Gate gate(rig->client_env);
  int lost = 0;
  gate.Spawn(ExpectLost(rig, Method::kLookup, &lost));
  while (rig->service.holding < 1) {
    co_await SleepFor(rig->client_env, kMillisecond);
  }
  co_await rig->channel->Close();
  co_await gate.Close();
  EXPECT_EQ(lost, 1);
  const absl::StatusOr<std::string> after =
      co_await rig->Call(Method::kPing, "x");
  EXPECT_THAT(after, StatusIs(absl::StatusCode::kUnavailable, "closed"));
}
TEST_P(Rpc, ClosingChannelFailsItsCalls) { Run(ChannelCloses); }

std::unique_ptr<Host> MakeSimHost() { return std::make_unique<SimHost>(); }

// Null where the kernel refuses the backend.
std::unique_ptr<Host> MakeRealHost(Backend backend) {
  LoopOptions options;
  options.backend = backend;
  absl::StatusOr<std::unique_ptr<RealEnv>> env = MakeRealEnv(options);
  if (!env.ok()) return nullptr;
  return std::make_unique<RealHost>(*std::move(env));
}
std::unique_ptr<Host> MakeUringHost() { return MakeRealHost(Backend::kUring); }
std::unique_ptr<Host> MakePlainHost() { return MakeRealHost(Backend::kPlain); }

std::vector<HostKind> Kinds() {
  return {{"Sim", MakeSimHost, {}},
          {"SimReadAhead64", MakeSimHost, {64, 64}},
          {"SimReadAhead4000", MakeSimHost, {4000, 4000}},
          {"SimReadAhead64K", MakeSimHost, {65536, 65536}},
          {"Uring", MakeUringHost, {}},
          {"UringReadAhead64K", MakeUringHost, {65536, 65536}},
          {"Plain", MakePlainHost, {}},
          {"PlainReadAhead64K", MakePlainHost, {65536, 65536}}};
}

INSTANTIATE_TEST_SUITE_P(Envs, Rpc, ::testing::ValuesIn(Kinds()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace cairn::io
