// What the two sides say first: pure functions over Hello and HelloAck.
// docs/format/frame.md#handshake.
//
// The client shows which cluster and target it means to reach, so that a reused
// address or a stale map is noticed before the first request.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "format/base/ids.h"
#include "format/wire/frame.h"
#include "io/rpc/channel.h"
#include "io/rpc/server.h"

namespace cairn::io::internal {

struct ClientIdentity {
  std::string name;
  uint32_t role = 0;
};
struct ServerIdentity {
  format::ClusterId cluster_id;
  uint64_t boot_epoch = 0;
  std::string name;
};

std::string EncodeHello(const ChannelOptions& options);
// kFailedPrecondition: another cluster or target, or no common version.
// kDataLoss: no Hello.
absl::StatusOr<ClientIdentity> AdmitHello(const format::FrameHeader& header,
                                          std::string_view body,
                                          const ServerOptions& options);

// `refusal` is OK where the client was admitted.
std::string EncodeHelloAck(const ServerOptions& options,
                           const absl::Status& refusal);
// The server's refusal; kFailedPrecondition: it is not who was expected;
// kDataLoss: no HelloAck.
absl::StatusOr<ServerIdentity> AcceptHelloAck(const format::FrameHeader& header,
                                              std::string_view body,
                                              const ChannelOptions& options);

// A peer's text, fit for a log line: printable, at most 200 characters.
std::string CleanText(std::string_view text);

}  // namespace cairn::io::internal
