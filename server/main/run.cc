#include "server/main/run.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "server/main/listen.h"
#include "spdlog/spdlog.h"

namespace cairn::server {

namespace {

// The service asked is in this very process: what takes longer hangs.
constexpr uint64_t kJoinMsMax = 30'000;

}  // namespace

MetaLoop::Options PlanMetaLoop(const RunOptions& options,
                               format::ClusterId cluster_id) {
  MetaLoop::Options meta;
  meta.directory = options.directory;
  meta.listen = options.listen;
  meta.cluster_id = cluster_id;
  meta.accept_metadata_loss = options.accept_metadata_loss;
  meta.meta.trash_grace_ms = options.trash_grace_ms;
  meta.meta.health = options.health;
  meta.meta.rebuild = options.rebuild;
  meta.meta.repair = options.repair;
  meta.loop.backend = options.backend;
  meta.loop.pool_large_buffers = 1;
  return meta;
}

absl::StatusOr<std::unique_ptr<AllInOne>> AllInOne::Start(RunOptions options) {
  CAIRN_RETURN_IF_ERROR(CheckListenAddress(options.listen, options.insecure));
  CAIRN_ASSIGN_OR_RETURN(const ClusterConfig config,
                         LoadConfig(options.directory));
  std::unique_ptr<AllInOne> server(new AllInOne());
  server->targets_ = config.targets.size();
  if (config.targets.empty()) {
    return absl::FailedPreconditionError(absl::StrCat(
        options.directory,
        " has no targets of its own: serve its metadata with: cairnd meta "
        "--dir ",
        options.directory));
  }
  MetaLoop::Options meta = PlanMetaLoop(options, config.cluster_id);
  DataLoopPlan plan;
  plan.listen = options.listen;
  plan.port = options.data_port;
  plan.memory_bytes = options.memory_bytes;
  plan.cluster_id = config.cluster_id;
  plan.scrub = options.scrub;
  plan.backend = options.backend;
  const uint32_t loops = PickLoops(options.loops, config.targets.size());
  for (uint32_t loop = 0; loop < loops; ++loop) {
    CAIRN_ASSIGN_OR_RETURN(
        std::unique_ptr<DataLoop> data,
        DataLoop::Start(PlanDataLoop(plan, config.targets, loop, loops)));
    meta.targets_sequence_max =
        std::max(meta.targets_sequence_max, data->meta_sequence());
    server->data_.push_back(std::move(data));
  }
  CAIRN_ASSIGN_OR_RETURN(server->meta_, MetaLoop::Start(std::move(meta)));
  server->Join();
  return server;
}

void AllInOne::Join() {
  for (const auto& data : data_) {
    JoinerOptions join;
    join.meta_address = meta_->address();
    join.host = HostName();
    data->Join(std::move(join));
  }
  for (const auto& data : data_) {
    if (data->AwaitJoined(kJoinMsMax)) continue;
    spdlog::warn("not all targets have joined yet; going on without them");
  }
}

}  // namespace cairn::server
