#include "tests/unit/io/rpc/rig.h"

#include <array>
#include <charconv>
#include <cstring>
#include <utility>

#include "format/wire/common.pb.h"
#include "io/rpc/limits.h"
#include "tests/support/status_matchers.h"

namespace cairn::io {

using format::FrameHeader;
using format::FrameKind;
using format::Method;
using internal::Frame;

format::ClusterId TestCluster() {
  format::ClusterId id;
  id.bytes.fill(0x11);
  return id;
}

format::ClusterId OtherCluster() {
  format::ClusterId id;
  id.bytes.fill(0x22);
  return id;
}

void TestService::Install(RpcServer* server) {
  const auto handle = [this, server](
                          Method method,
                          Task<void> (TestService::*handler)(ServerCall*)) {
    server->Handle(method, [this, handler](ServerCall* call) {
      last_connection = call->connection_id();
      return (this->*handler)(call);
    });
  };
  handle(Method::kPing, &TestService::Echo);
  handle(Method::kSetAttr, &TestService::Echo);
  handle(Method::kLookup, &TestService::Hold);
  handle(Method::kUnlink, &TestService::Refuse);
  handle(Method::kRmdir, &TestService::Forget);
  handle(Method::kPutChunk, &TestService::Put);
  handle(Method::kGetChunk, &TestService::Get);
  handle(Method::kRename, &TestService::Get);
  handle(Method::kLink, &TestService::Get);
}

Task<void> TestService::Echo(ServerCall* call) {
  co_await call->Reply(std::string(call->body()));
}

Task<void> TestService::Hold(ServerCall* call) {
  held.emplace_back(call->body());
  ++holding;
  co_await release.Wait();
  --holding;
  co_await call->Reply(std::string(call->body()));
}

Task<void> TestService::Refuse(ServerCall* call) {
  co_await call->Fail(absl::NotFoundError(
      absl::StrCat("no such name: ", AbslText(call->body()))));
}

Task<void> TestService::Forget(ServerCall* call) {
  co_await SleepFor(env_, kMicrosecond);
  CAIRN_CHECK(call->method() == Method::kRmdir);
}

Task<void> TestService::Put(ServerCall* call) {
  ++puts_begun;
  std::vector<uint8_t> bytes(call->payload_bytes());
  MemorySink sink(bytes);
  const absl::Status received = co_await call->ReceivePayload(&sink);
  puts.push_back(received);
  if (!received.ok()) {
    co_await call->Fail(received);
    co_return;
  }
  const std::string size = std::to_string(bytes.size());
  last_put = std::move(bytes);
  co_await call->Reply(size);
}

Task<void> TestService::Get(ServerCall* call) {
  uint64_t size = 0;
  const std::string_view body = call->body();
  std::from_chars(body.data(), body.data() + body.size(), size);
  const std::vector<uint8_t> bytes = Pattern(size, 1);
  MemorySource source(bytes, 100'000);
  if (call->method() == Method::kRename) source.Corrupt();
  if (call->method() == Method::kLink) {
    source.FailWith(absl::StatusCode::kUnavailable);
  }
  co_await call->Reply(std::string(body), &source);
}

Rig::Rig(Env* server_env, Env* client_env, RigOptions options)
    : server_env(server_env),
      client_env(client_env),
      service(server_env),
      options_(options) {}

Task<void> Rig::Start(std::string listen_address) {
  ServerOptions options;
  options.cluster_id = TestCluster();
  options.server_name = "test server";
  options.boot_epoch = kBootEpoch;
  options.serves_target = [](uint32_t target) {
    return target == kServedTarget;
  };
  options.read_ahead_bytes = options_.server_read_ahead;
  server = RpcServer::Create(server_env, std::move(options));
  service.Install(server.get());
  absl::StatusOr<std::unique_ptr<Listener>> listener =
      co_await server_env->Listen(std::move(listen_address));
  CAIRN_CHECK(listener.ok());
  address = (*listener)->address();
  server->Serve(*std::move(listener));
  channel = Channel::Create(client_env, Options());
}

Task<void> Rig::Close() {
  service.release.Set();
  co_await channel->Close();
  co_await server->Close();
}

ChannelOptions Rig::Options() const {
  ChannelOptions options;
  options.address = address;
  options.cluster_id = TestCluster();
  options.expect_target = kServedTarget;
  options.client_name = "test client";
  options.server_name = "target 3";
  options.read_ahead_bytes = options_.client_read_ahead;
  return options;
}

Task<absl::StatusOr<std::string>> Rig::Call(Method method, std::string body,
                                            CallOptions options) {
  return channel->Call(method, std::move(body), options);
}

std::string Wire(FrameHeader header, std::string_view body) {
  header.body_bytes = static_cast<uint32_t>(body.size());
  format::SealFrameHeader(&header, format::AsBytes(body));
  std::string wire(reinterpret_cast<const char*>(&header), sizeof(header));
  wire += body;
  return wire;
}

Task<absl::Status> RawPeer::SendBytes(std::string bytes) {
  const std::array<ConstBytes, 1> parts = {format::AsBytes(bytes)};
  co_return co_await stream->SendAll(parts);
}

Task<absl::Status> RawPeer::Send(FrameHeader header, std::string body,
                                 std::string after) {
  std::string bytes = Wire(header, body) + after;
  co_return co_await SendBytes(std::move(bytes));
}

Task<absl::StatusOr<Frame>> RawPeer::Read() {
  return reader.ReadFrame(format::kFrameBodyBytesMax);
}

Task<bool> RawPeer::SeesTheEnd() {
  std::vector<uint8_t> scratch(4096);
  while (true) {
    const absl::StatusOr<uint64_t> got = co_await stream->ReceiveSome(scratch);
    if (!got.ok() || *got == 0) co_return true;
  }
}

Task<void> RawPeer::Close() {
  stream->Shutdown();
  co_await stream->Close();
}

Task<std::unique_ptr<RawPeer>> Dial(Rig* rig) {
  const TimeNs deadline = rig->client_env->NowNs() + 5 * kSecond;
  absl::StatusOr<std::unique_ptr<Stream>> stream =
      co_await rig->client_env->Connect(rig->address, deadline);
  CAIRN_CHECK(stream.ok());
  co_return std::make_unique<RawPeer>(rig->client_env, *std::move(stream));
}

Task<std::unique_ptr<RawPeer>> DialAndGreet(Rig* rig) {
  std::unique_ptr<RawPeer> peer = co_await Dial(rig);
  const absl::Status sent = co_await peer->Send(HeaderOf(FrameKind::kHello),
                                                HelloBody(TestCluster()));
  CAIRN_CHECK(sent.ok());
  const absl::StatusOr<Frame> ack = co_await peer->Read();
  CAIRN_CHECK(ack.ok() && ack->header.status == 0);
  co_return peer;
}

Task<std::unique_ptr<RawPeer>> AcceptAndGreet(Env* env, Listener* listener) {
  absl::StatusOr<std::unique_ptr<Stream>> stream = co_await listener->Accept();
  CAIRN_CHECK(stream.ok());
  auto peer = std::make_unique<RawPeer>(env, *std::move(stream));
  const absl::StatusOr<Frame> hello = co_await peer->Read();
  CAIRN_CHECK(hello.ok());
  wire::HelloAck ack;
  const format::ClusterId cluster = TestCluster();
  ack.set_cluster_id(std::string(format::AsText(cluster.bytes)));
  ack.set_version(1);
  const absl::Status sent = co_await peer->Send(HeaderOf(FrameKind::kHelloAck),
                                                ack.SerializeAsString());
  CAIRN_CHECK(sent.ok());
  co_return peer;
}

FrameHeader HeaderOf(FrameKind kind) {
  FrameHeader header;
  header.kind = static_cast<uint8_t>(kind);
  return header;
}

FrameHeader RequestOf(Method method, uint64_t id) {
  FrameHeader header = HeaderOf(FrameKind::kRequest);
  header.method = static_cast<uint16_t>(method);
  header.request_id = id;
  return header;
}

FrameHeader ResponseTo(const Frame& request) {
  FrameHeader header = HeaderOf(FrameKind::kResponse);
  header.method = request.header.method;
  header.request_id = request.header.request_id;
  return header;
}

std::string HelloBody(const format::ClusterId& cluster, uint32_t target,
                      uint32_t version_min, uint32_t version_max) {
  wire::Hello hello;
  hello.set_cluster_id(std::string(format::AsText(cluster.bytes)));
  hello.set_expect_target(target);
  hello.set_version_min(version_min);
  hello.set_version_max(version_max);
  hello.set_client("raw");
  return hello.SerializeAsString();
}

}  // namespace cairn::io
