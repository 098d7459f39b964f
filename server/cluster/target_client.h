// TargetOrders over RPC: one channel per target, made when it is first needed.
//
// Threads:  one loop. Lifetime: Close() before destruction (checked).
#pragma once

#include <map>
#include <memory>
#include <string>

#include "io/rpc/channel.h"
#include "server/cluster/target_orders.h"

namespace cairn::server {

struct TargetClientOptions {
  format::ClusterId cluster_id;
  std::string client_name = "metadata";
  io::TimeNs timeout_ns = 10 * io::kSecond;
};

class TargetClient final : public TargetOrders {
 public:
  TargetClient(io::Env* env, TargetClientOptions options);
  ~TargetClient() override;

  // Where the target's loop listens. A new address replaces the connection.
  void SetAddress(format::TargetId target, std::string address) override;

  // All: kUnavailable if the target's address is not known.
  io::Task<absl::Status> DeleteBlobs(format::TargetId target,
                                     std::vector<format::BlobId> blobs,
                                     uint64_t meta_sequence) override;
  io::Task<absl::StatusOr<wire::RebuildShardResponse>> RebuildShard(
      wire::RebuildShardRequest request) override;
  io::Task<absl::Status> DropGroup(wire::DropGroupRequest request) override;
  io::Task<absl::StatusOr<wire::ListChunksResponse>> ListChunks(
      wire::ListChunksRequest request) override;
  io::Task<absl::StatusOr<wire::TargetStatusResponse>> Status(
      format::TargetId target) override;
  io::Task<absl::StatusOr<wire::TargetStatusResponse>> Heartbeat(
      format::TargetId target, io::TimeNs deadline) override;

  // Fails calls in flight and waits for them.
  io::Task<void> Close();

 private:
  absl::StatusOr<io::Channel*> ChannelOf(format::TargetId target);
  io::CallOptions Options() const;
  template <typename Response, typename Request>
  io::Task<absl::StatusOr<Response>> Ask(format::Method method,
                                         Request request);
  io::Task<absl::StatusOr<wire::TargetStatusResponse>> AskStatus(
      format::TargetId target, io::CallOptions options);
  static io::Task<void> CloseChannel(std::unique_ptr<io::Channel> channel);

  io::Env* const env_;
  const TargetClientOptions options_;
  std::map<format::TargetId, std::string> addresses_;
  std::map<format::TargetId, std::unique_ptr<io::Channel>> channels_;
  bool closed_ = false;
  io::Gate gate_;
};

}  // namespace cairn::server
