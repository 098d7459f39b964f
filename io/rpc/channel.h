// The calling side of RPC: one connection, many calls in flight.
//
// Threads:    belongs to one loop.
// Lifetime:   Close() before destruction (checked); it fails what is in flight.
// Connection: made on the first call and again after it was lost, with jittered
//             back-off; a lost connection fails every call in flight with
//             kUnavailable, and the caller decides what may be repeated.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "format/base/ids.h"
#include "format/wire/frame.h"
#include "format/wire/method.h"
#include "io/env.h"
#include "io/rpc/payload.h"

namespace cairn::io {

struct ChannelOptions {
  std::string address;
  // What the other side must be; an all-zero cluster id accepts any.
  format::ClusterId cluster_id;
  uint32_t expect_target = 0;
  uint32_t role = 0;
  std::string client_name;          // For the server's log.
  std::string server_name;          // "target 3", "metadata": for messages.
  TimeNs connect_timeout = 5 * kSecond;
  // Read this much at a time on connections without payload; 0: read exactly
  // header, body, payload, so that no payload byte is copied.
  uint32_t read_ahead_bytes = 0;
};

struct CallOptions {
  TimeNs deadline = kNoDeadline;
  format::TrafficClass traffic_class = format::TrafficClass::kInteractive;
  PayloadSource* source = nullptr;  // Sent with the request.
  PayloadSink* sink = nullptr;      // Takes the response's payload.
};

class Channel {
 public:
  static std::unique_ptr<Channel> Create(Env* env, ChannelOptions options);
  virtual ~Channel() = default;

  // Sends `body` (and options.source) and waits for the answer's body.
  // kUnavailable: no connection, or lost before the answer: the request may or
  //   may not have been carried out. kDeadlineExceeded: the message names the
  //   server and the method; memory of source and sink is the caller's again
  //   (if the kernel still had it, the connection was broken for that).
  // kFailedPrecondition: wrong cluster, wrong target or protocol version.
  // Otherwise the status that the server answered, with its message.
  virtual Task<absl::StatusOr<std::string>> Call(format::Method method,
                                                 std::string body,
                                                 CallOptions options) = 0;

  // The server's cluster id, once connected (all zero before).
  virtual format::ClusterId cluster_id() const = 0;
  virtual uint64_t boot_epoch() const = 0;
  virtual const std::string& address() const = 0;
  virtual Task<void> Close() = 0;
};

// Serialises, calls and parses protobuf messages.
template <typename Response, typename Request>
Task<absl::StatusOr<Response>> CallProto(Channel* channel,
                                         format::Method method, Request request,
                                         CallOptions options) {
  absl::StatusOr<std::string> body = co_await channel->Call(
      method, request.SerializeAsString(), options);
  if (!body.ok()) co_return body.status();
  Response response;
  if (!response.ParseFromString(*body)) {
    co_return absl::DataLossError(
        absl::StrCat("malformed answer from ", channel->address()));
  }
  co_return response;
}

}  // namespace cairn::io
