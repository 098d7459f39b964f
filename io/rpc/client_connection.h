// One connection of a Channel, from its handshake to its end. It never
// reconnects: that is the Channel's part.
//
// Threads:  belongs to one loop.
// Lifetime: Run() waits until nothing uses the connection; then it may be
//           destroyed. After a failed Handshake() it has no Run().
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "io/rpc/channel.h"
#include "io/rpc/frame_reader.h"
#include "io/rpc/frame_writer.h"
#include "io/rpc/handshake.h"

namespace cairn::io::internal {

class ClientConnection {
 public:
  // `options` outlives the connection.
  ClientConnection(Env* env, const ChannelOptions* options,
                   std::unique_ptr<Stream> stream);
  ~ClientConnection();

  // Within `timeout`. After a failure the stream is closed.
  Task<absl::StatusOr<ServerIdentity>> Handshake(TimeNs timeout);

  // Runs until the connection is broken; `on_break` is called then, at once.
  Task<void> Run(std::function<void()> on_break);

  // One call, as Channel::Call().
  Task<absl::StatusOr<std::string>> Exchange(format::Method method,
                                             std::string body,
                                             CallOptions options);

  // Fails every call in flight with kUnavailable and the reason `why`. Also
  // ends a handshake. Idempotent.
  void Break(std::string why);
  bool broken() const { return broken_; }
  bool answered() const { return answered_; }  // At least one call.

 private:
  struct PendingCall;
  Task<absl::StatusOr<ServerIdentity>> ShakeHands();
  Task<absl::Status> ReadLoop();
  Task<absl::Status> TakeResponse(Frame frame);
  // True: the call is over. False: its deadline passed before.
  Task<bool> Await(PendingCall* call, SendTicket* ticket);
  // Waits until nothing uses the call's memory, breaking the connection if the
  // kernel has it.
  Task<void> Abandon(PendingCall* call, SendTicket* ticket);
  bool PeerIsSilent(const PendingCall& call) const;
  absl::Status Lost() const;

  Env* const env_;
  const ChannelOptions* const options_;
  const std::unique_ptr<Stream> stream_;
  FrameReader reader_;
  FrameWriter writer_;
  Gate calls_;
  Gate writing_;
  absl::flat_hash_map<uint64_t, PendingCall*> pending_;
  uint64_t next_id_ = 1;
  TimeNs last_arrival_ = 0;  // Of a frame's header.
  bool broken_ = false;
  bool answered_ = false;
  std::string why_broken_;
  std::function<void()> on_break_;
};

// "PutChunk to target 3 (127.0.0.1:7401)", for messages.
std::string Describe(format::Method method, const ChannelOptions& options);

}  // namespace cairn::io::internal
