#include "server/cluster/target_client.h"

#include <utility>

namespace cairn::server {

using format::BlobId;
using format::TargetId;

TargetClient::TargetClient(io::Env* env, TargetClientOptions options)
    : env_(env), options_(std::move(options)), gate_(env) {}

TargetClient::~TargetClient() { CAIRN_CHECK(closed_ && channels_.empty()); }

void TargetClient::SetAddress(TargetId target, std::string address) {
  std::string& known = addresses_[target];
  if (known == address) return;
  known = std::move(address);
  const auto old = channels_.find(target);
  if (old == channels_.end()) return;
  gate_.Spawn(CloseChannel(std::move(old->second)));
  channels_.erase(old);
}

io::Task<void> TargetClient::CloseChannel(
    std::unique_ptr<io::Channel> channel) {
  co_await channel->Close();
}

absl::StatusOr<io::Channel*> TargetClient::ChannelOf(TargetId target) {
  if (closed_) return absl::UnavailableError("shutting down");
  const auto address = addresses_.find(target);
  if (address == addresses_.end()) {
    return absl::UnavailableError(
        absl::StrCat("target ", target.value, " has no known address"));
  }
  std::unique_ptr<io::Channel>& channel = channels_[target];
  if (channel == nullptr) {
    io::ChannelOptions options;
    options.address = address->second;
    options.cluster_id = options_.cluster_id;
    options.expect_target = target.value;
    options.role = 1;
    options.client_name = options_.client_name;
    options.server_name = absl::StrCat("target ", target.value);
    channel = io::Channel::Create(env_, std::move(options));
  }
  return channel.get();
}

io::CallOptions TargetClient::Options() const {
  io::CallOptions options;
  options.deadline = env_->NowNs() + options_.timeout_ns;
  options.traffic_class = format::TrafficClass::kBackground;
  return options;
}

io::Task<absl::Status> TargetClient::DeleteBlobs(TargetId target,
                                                 std::vector<BlobId> blobs,
                                                 uint64_t meta_sequence) {
  const io::Gate::Hold hold = gate_.Enter();
  CAIRN_CO_ASSIGN_OR_RETURN(io::Channel* const channel, ChannelOf(target));
  wire::DeleteBlobsRequest request;
  request.set_target(target.value);
  for (const BlobId blob : blobs) request.add_blobs(blob.value);
  request.set_meta_sequence(meta_sequence);
  const io::CallOptions options = Options();
  const absl::StatusOr<wire::DeleteBlobsResponse> response =
      co_await io::CallProto<wire::DeleteBlobsResponse>(
          channel, format::Method::kDeleteBlobs, std::move(request), options);
  co_return response.status();
}

// The request names its target.
template <typename Response, typename Request>
io::Task<absl::StatusOr<Response>> TargetClient::Ask(format::Method method,
                                                     Request request) {
  const io::Gate::Hold hold = gate_.Enter();
  CAIRN_CO_ASSIGN_OR_RETURN(io::Channel* const channel,
                            ChannelOf(TargetId(request.target())));
  const io::CallOptions options = Options();
  co_return co_await io::CallProto<Response>(channel, method,
                                             std::move(request), options);
}

io::Task<absl::StatusOr<wire::RebuildShardResponse>> TargetClient::RebuildShard(
    wire::RebuildShardRequest request) {
  return Ask<wire::RebuildShardResponse>(format::Method::kRebuildShard,
                                         std::move(request));
}

io::Task<absl::Status> TargetClient::DropGroup(wire::DropGroupRequest request) {
  const absl::StatusOr<wire::DropGroupResponse> response =
      co_await Ask<wire::DropGroupResponse>(format::Method::kDropGroup,
                                            std::move(request));
  co_return response.status();
}

io::Task<absl::StatusOr<wire::ListChunksResponse>> TargetClient::ListChunks(
    wire::ListChunksRequest request) {
  return Ask<wire::ListChunksResponse>(format::Method::kListChunks,
                                       std::move(request));
}

io::Task<absl::StatusOr<wire::TargetStatusResponse>> TargetClient::Status(
    TargetId target) {
  return AskStatus(target, Options());
}

io::Task<absl::StatusOr<wire::TargetStatusResponse>> TargetClient::Heartbeat(
    TargetId target, io::TimeNs deadline) {
  io::CallOptions options;
  options.deadline = deadline;
  return AskStatus(target, options);
}

io::Task<absl::StatusOr<wire::TargetStatusResponse>> TargetClient::AskStatus(
    TargetId target, io::CallOptions options) {
  const io::Gate::Hold hold = gate_.Enter();
  CAIRN_CO_ASSIGN_OR_RETURN(io::Channel* const channel, ChannelOf(target));
  wire::TargetStatusRequest request;
  request.set_target(target.value);
  co_return co_await io::CallProto<wire::TargetStatusResponse>(
      channel, format::Method::kTargetStatus, std::move(request), options);
}

io::Task<void> TargetClient::Close() {
  closed_ = true;
  std::map<TargetId, std::unique_ptr<io::Channel>> channels;
  channels.swap(channels_);
  for (auto& [target, channel] : channels) co_await channel->Close();
  co_await gate_.Close();
}

}  // namespace cairn::server
