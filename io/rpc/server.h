// The serving side of RPC: accepts connections, dispatches requests.
//
// Threads:  belongs to one loop.
// Lifetime: Close() before destruction; it stops accepting, breaks the
//           connections and waits for every handler.
// Limits:   io/rpc/limits.h: connections, calls in flight per connection (then
//           it stops reading from it), handshake deadline, idle writes.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "format/base/ids.h"
#include "format/wire/frame.h"
#include "format/wire/method.h"
#include "io/env.h"
#include "io/rpc/payload.h"

namespace cairn::io {

// One request. The handler owns the answering of it: exactly one Reply() or
// Fail() before the handler's task ends (if it forgets, the caller gets
// kInternal).
class ServerCall {
 public:
  virtual ~ServerCall() = default;
  virtual format::Method method() const = 0;
  virtual std::string_view body() const = 0;
  virtual uint64_t payload_bytes() const = 0;
  virtual format::TrafficClass traffic_class() const = 0;
  virtual TimeNs deadline() const = 0;
  virtual std::string peer() const = 0;  // Address and client name.
  virtual uint32_t role() const = 0;     // Of the handshake.
  // Identifies the connection, for state that dies with it.
  virtual uint64_t connection_id() const = 0;

  // Receives the payload. The connection reads nothing else until this ends,
  // so: call it soon, and do slow work after it. A handler that never calls it
  // has the payload skipped when it replies.
  // kUnavailable: the connection broke. Otherwise what the sink said.
  virtual Task<absl::Status> ReceivePayload(PayloadSink* sink) = 0;

  // Queues the answer and waits until the kernel took it (source's memory is
  // free then). A lost connection is not the handler's concern: still returns.
  virtual Task<void> Reply(std::string body,
                           PayloadSource* source = nullptr) = 0;
  virtual Task<void> Fail(absl::Status status) = 0;
};

// `call` lives until the handler's task ends.
using Handler = std::function<Task<void>(ServerCall* call)>;

struct ServerOptions {
  format::ClusterId cluster_id;
  std::string server_name;  // "cairnd/4711".
  uint64_t boot_epoch = 0;
  // True if this loop serves the target; called in the handshake.
  std::function<bool(uint32_t target)> serves_target;
  // As in ChannelOptions; with 0 a connection is read ahead a little while only
  // small frames come on it.
  uint32_t read_ahead_bytes = 0;
};

class RpcServer {
 public:
  static std::unique_ptr<RpcServer> Create(Env* env, ServerOptions options);
  virtual ~RpcServer() = default;
  // Before Serve(). One handler per method.
  virtual void Handle(format::Method method, Handler handler) = 0;
  // Accepts from `listener` until Close().
  virtual void Serve(std::unique_ptr<Listener> listener) = 0;
  virtual uint64_t connections() const = 0;
  virtual Task<void> Close() = 0;
};

}  // namespace cairn::io
