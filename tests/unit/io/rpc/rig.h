// A server with a service made for tests, a channel to it, and a raw peer that
// says what no channel or server would. Used from coroutines on any Env.
//
// A coroutine cannot ASSERT: bodies EXPECT and co_return.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "io/rpc/channel.h"
#include "io/rpc/frame_reader.h"
#include "io/rpc/server.h"
#include "tests/unit/io/rpc/payloads.h"

namespace cairn::io {

inline constexpr uint32_t kServedTarget = 3;
inline constexpr uint64_t kBootEpoch = 41;
format::ClusterId TestCluster();
format::ClusterId OtherCluster();

// What the test server answers:
//   Ping        the body.
//   Lookup      the body, after `release` was set; keeps the order of arrival.
//   Unlink      kNotFound "no such name: BODY".
//   Rmdir       no answer.
//   PutChunk    takes the payload; its size as text, or the sink's error.
//   SetAttr     the body; does not take the payload.
//   GetChunk    as many bytes of Pattern(n, 1) as the body says, as payload.
//   Rename      like GetChunk, with wrong checksums.
//   Link        like GetChunk, with kAborted in the trailer.
class TestService {
 public:
  explicit TestService(Env* env) : release(env), env_(env) {}
  void Install(RpcServer* server);

  Event release;
  std::vector<std::string> held;  // Bodies of Lookup, in order.
  uint64_t holding = 0;
  uint64_t last_connection = 0;
  uint64_t puts_begun = 0;
  std::vector<absl::Status> puts;  // How they ended.
  std::vector<uint8_t> last_put;

 private:
  Task<void> Echo(ServerCall* call);
  Task<void> Hold(ServerCall* call);
  Task<void> Refuse(ServerCall* call);
  Task<void> Forget(ServerCall* call);
  Task<void> Put(ServerCall* call);
  Task<void> Get(ServerCall* call);

  Env* const env_;
};

struct RigOptions {
  uint32_t client_read_ahead = 0;
  uint32_t server_read_ahead = 0;
};

class Rig {
 public:
  Rig(Env* server_env, Env* client_env, RigOptions options);

  Task<void> Start(std::string listen_address);
  Task<void> Close();

  ChannelOptions Options() const;  // Of `channel`.
  Task<absl::StatusOr<std::string>> Call(format::Method method,
                                         std::string body,
                                         CallOptions options = {});

  Env* const server_env;
  Env* const client_env;
  TestService service;
  std::unique_ptr<RpcServer> server;
  std::string address;
  std::unique_ptr<Channel> channel;

 private:
  const RigOptions options_;
};

// One end of a connection whose bytes the test makes itself.
class RawPeer {
 public:
  RawPeer(Env* env, std::unique_ptr<Stream> stream)
      : stream(std::move(stream)),
        reader(env, this->stream.get(), internal::ReadAhead()) {}

  // Fills in the body's length, seals and sends; then `payload` and trailer.
  Task<absl::Status> Send(format::FrameHeader header, std::string body,
                          std::string after = "");
  Task<absl::Status> SendBytes(std::string bytes);
  Task<absl::StatusOr<internal::Frame>> Read();
  // True once the other side has closed, reading whatever comes before.
  Task<bool> SeesTheEnd();
  Task<void> Close();

  std::unique_ptr<Stream> stream;
  internal::FrameReader reader;
};

// Connected to the rig's server, without a handshake or with a good one.
Task<std::unique_ptr<RawPeer>> Dial(Rig* rig);
Task<std::unique_ptr<RawPeer>> DialAndGreet(Rig* rig);
// The raw server's side of a handshake with a channel.
Task<std::unique_ptr<RawPeer>> AcceptAndGreet(Env* env, Listener* listener);

format::FrameHeader HeaderOf(format::FrameKind kind);
format::FrameHeader RequestOf(format::Method method, uint64_t id);
format::FrameHeader ResponseTo(const internal::Frame& request);
// Header (sealed) and body as they go over the wire.
std::string Wire(format::FrameHeader header, std::string_view body);
std::string HelloBody(const format::ClusterId& cluster, uint32_t target = 0,
                      uint32_t version_min = 1, uint32_t version_max = 1);

}  // namespace cairn::io
