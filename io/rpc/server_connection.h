// One accepted connection of an RpcServer, from its handshake to its end.
//
// Threads:  belongs to one loop.
// Lifetime: Run() waits for every handler and for the kernel; after it the
//           connection may be destroyed.
#pragma once

#include <memory>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "io/rpc/frame_reader.h"
#include "io/rpc/frame_writer.h"
#include "io/rpc/handshake.h"
#include "io/rpc/log_limiter.h"
#include "io/rpc/server.h"

namespace cairn::io::internal {

// What the connections of one server share; outlives them.
struct ServerShared {
  Env* env = nullptr;
  ServerOptions options;
  absl::flat_hash_map<uint16_t, Handler> handlers;
  LogLimiter log;

  // A warning about a peer, if its turn has come.
  void Warn(const std::string& peer, const absl::Status& what);
};

class ServerConnection {
 public:
  ServerConnection(ServerShared* shared, std::unique_ptr<Stream> stream,
                   uint64_t id);
  ~ServerConnection();

  Task<void> Run();
  // Breaks the connection; Run() then ends when its handlers have.
  void Break() { writer_.Stop(); }

 private:
  class Call;
  // Who has the payload of the frame that was read last.
  enum class PayloadTurn { kNone, kOffered, kTaking, kTaken, kDeclined };

  Task<absl::Status> Serve();
  Task<absl::Status> Handshake();
  Task<absl::Status> ShakeHands();
  Task<absl::Status> SendAck(absl::Status refusal);
  Task<absl::Status> ReadLoop();
  Task<absl::Status> Dispatch(Frame frame);
  Task<void> RunCall(std::unique_ptr<Call> call);

  ServerShared* const shared_;
  const std::unique_ptr<Stream> stream_;
  const uint64_t id_;
  ClientIdentity client_;
  std::string peer_;
  FrameReader reader_;
  FrameWriter writer_;
  IdleWatch idle_;  // Work: the handshake, and each call.
  Gate handlers_;
  Gate writing_;
  Semaphore slots_;  // Calls in flight.
  Call* payload_owner_ = nullptr;
  PayloadTurn payload_turn_ = PayloadTurn::kNone;
  absl::Status payload_stream_;  // After kTaken: is the stream still good?
  Event payload_over_;           // kTaken or kDeclined.
};

}  // namespace cairn::io::internal
