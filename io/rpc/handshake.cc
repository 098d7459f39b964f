#include "io/rpc/handshake.h"

#include <algorithm>

#include "format/wire/common.pb.h"

namespace cairn::io::internal {
namespace {

using format::ClusterId;
using format::FrameKind;

constexpr size_t kCleanTextMax = 200;

bool IsKind(const format::FrameHeader& header, FrameKind kind) {
  return header.kind == static_cast<uint8_t>(kind);
}

std::string IdBytes(const ClusterId& id) {
  return {id.bytes.begin(), id.bytes.end()};
}

absl::StatusOr<ClusterId> IdFromBytes(const std::string& bytes) {
  ClusterId id;
  if (bytes.empty()) return id;
  if (bytes.size() != id.bytes.size()) {
    return absl::DataLossError("a cluster id is 16 bytes");
  }
  std::copy(bytes.begin(), bytes.end(), id.bytes.begin());
  return id;
}

absl::Status CheckVersions(const wire::Hello& hello) {
  if (hello.version_min() <= format::kFrameVersion &&
      hello.version_max() >= format::kFrameVersion) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "no common protocol version: the client speaks ", hello.version_min(),
      " to ", hello.version_max(), ", this server ", format::kFrameVersion));
}

}  // namespace

std::string EncodeHello(const ChannelOptions& options) {
  wire::Hello hello;
  if (options.cluster_id != ClusterId()) {
    hello.set_cluster_id(IdBytes(options.cluster_id));
  }
  hello.set_version_min(format::kFrameVersion);
  hello.set_version_max(format::kFrameVersion);
  hello.set_client(CleanText(options.client_name));
  hello.set_expect_target(options.expect_target);
  hello.set_role(options.role);
  return hello.SerializeAsString();
}

absl::StatusOr<ClientIdentity> AdmitHello(const format::FrameHeader& header,
                                          std::string_view body,
                                          const ServerOptions& options) {
  wire::Hello hello;
  if (!IsKind(header, FrameKind::kHello) ||
      !hello.ParseFromArray(body.data(), static_cast<int>(body.size()))) {
    return absl::DataLossError("the first frame is no Hello");
  }
  CAIRN_RETURN_IF_ERROR(CheckVersions(hello));
  CAIRN_ASSIGN_OR_RETURN(const ClusterId cluster,
                         IdFromBytes(hello.cluster_id()));
  if (cluster != ClusterId() && cluster != options.cluster_id) {
    return absl::FailedPreconditionError(absl::StrCat(
        "wrong cluster: the client looks for ", format::ToString(cluster),
        ", this server belongs to ", format::ToString(options.cluster_id)));
  }
  const uint32_t target = hello.expect_target();
  if (target != 0 &&
      (!options.serves_target || !options.serves_target(target))) {
    return absl::FailedPreconditionError(
        absl::StrCat("target ", target, " is not served here"));
  }
  ClientIdentity identity;
  identity.name = CleanText(hello.client());
  identity.role = hello.role();
  return identity;
}

std::string EncodeHelloAck(const ServerOptions& options,
                           const absl::Status& refusal) {
  wire::HelloAck ack;
  ack.set_cluster_id(IdBytes(options.cluster_id));
  ack.set_version(format::kFrameVersion);
  ack.set_server(options.server_name);
  ack.set_boot_epoch(options.boot_epoch);
  if (!refusal.ok()) ack.set_error(std::string(refusal.message()));
  return ack.SerializeAsString();
}

absl::StatusOr<ServerIdentity> AcceptHelloAck(const format::FrameHeader& header,
                                              std::string_view body,
                                              const ChannelOptions& options) {
  wire::HelloAck ack;
  if (!IsKind(header, FrameKind::kHelloAck) ||
      !ack.ParseFromArray(body.data(), static_cast<int>(body.size()))) {
    return absl::DataLossError("the first frame is no HelloAck");
  }
  if (header.status != 0) {
    return absl::Status(static_cast<absl::StatusCode>(header.status),
                        CleanText(ack.error()));
  }
  if (ack.version() != format::kFrameVersion) {
    return absl::FailedPreconditionError(
        absl::StrCat("the server chose protocol version ", ack.version()));
  }
  ServerIdentity identity;
  CAIRN_ASSIGN_OR_RETURN(identity.cluster_id, IdFromBytes(ack.cluster_id()));
  if (options.cluster_id != ClusterId() &&
      identity.cluster_id != options.cluster_id) {
    return absl::FailedPreconditionError(
        absl::StrCat("wrong cluster: the server belongs to ",
                     format::ToString(identity.cluster_id), ", this client to ",
                     format::ToString(options.cluster_id)));
  }
  identity.boot_epoch = ack.boot_epoch();
  identity.name = CleanText(ack.server());
  return identity;
}

std::string CleanText(std::string_view text) {
  std::string clean(text.substr(0, kCleanTextMax));
  for (char& c : clean) {
    if (c < ' ' || c > '~') c = '?';
  }
  return clean;
}

}  // namespace cairn::io::internal
