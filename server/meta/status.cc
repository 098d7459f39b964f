// What MetaService says about the cluster as a whole.
#include "server/meta/service.h"

namespace cairn::server {

using format::KeyKind;
using format::TargetId;

io::Task<absl::StatusOr<wire::GetMapResponse>> MetaService::GetMap(
    wire::GetMapRequest request) {
  const auto map = core_.map.map();
  wire::GetMapResponse response;
  response.set_epoch(map->epoch.value);
  if (request.known_epoch() != map->epoch.value) {
    format::MapToProto(*map, response.mutable_map());
  }
  co_return response;
}

io::Task<void> MetaService::AskTarget(TargetId target,
                                      wire::TargetStatusResponse* status,
                                      std::string* error) {
  absl::StatusOr<wire::TargetStatusResponse> answer =
      co_await orders_->Status(target);
  if (answer.ok()) {
    *status = *std::move(answer);
  } else {
    *error = std::string(answer.status().message());
    if (error->empty()) *error = "unreachable";
  }
}

std::string MetaService::DownReason(TargetId target) const {
  const std::string reason = health_.Look(target).reason;
  return reason.empty() ? "down" : reason;
}

io::Task<absl::StatusOr<wire::ClusterStatusResponse>>
MetaService::ClusterStatus(wire::ClusterStatusRequest) {
  const io::Gate::Hold hold = core_.gate.Enter();
  const auto map = core_.map.map();
  std::vector<wire::TargetStatusResponse> statuses(map->targets.size());
  std::vector<std::string> errors(map->targets.size());
  io::Gate asking(core_.env);
  size_t index = 0;
  for (const auto& [id, target] : map->targets) {
    const bool away =
        target.state == format::TargetState::kOut && !health_.Look(id).answers;
    if (away || target.state == format::TargetState::kDown) {
      errors[index] = DownReason(id);  // Nobody waits for it once more.
    } else {
      asking.Spawn(AskTarget(id, &statuses[index], &errors[index]));
    }
    ++index;
  }
  co_await asking.Close();

  wire::ClusterStatusResponse response;
  format::MapToProto(*map, response.mutable_map());
  for (size_t i = 0; i < statuses.size(); ++i) {
    *response.add_targets() = std::move(statuses[i]);
    response.add_target_errors(errors[i]);
  }
  for (const auto& [id, target] : map->targets) {
    const HealthMonitor::View view = health_.Look(id);
    wire::TargetHealth* const health = response.add_target_health();
    health->set_since_ms(view.in_state_ns / io::kMillisecond);
    health->set_reason(view.reason);
  }
  response.set_brake(health_.brake());
  membership_.AddQuarantined(&response);
  *response.mutable_rebuild() = rebuild_.Report();
  scrub_.Report(&response);
  const format::KeyRange trash = format::RangeOf(KeyKind::kTrash, {});
  const absl::StatusOr<uint64_t> trash_files =
      co_await CountKeys(&core_, trash, kStatusCountMax);
  if (!trash_files.ok()) co_return trash_files.status();
  const format::KeyRange garbage = format::RangeOf(KeyKind::kGarbage, {});
  const absl::StatusOr<uint64_t> garbage_blobs =
      co_await CountKeys(&core_, garbage, kStatusCountMax);
  if (!garbage_blobs.ok()) co_return garbage_blobs.status();
  const format::KeyRange sets = format::RangeOf(KeyKind::kPublication, {});
  const absl::StatusOr<uint64_t> published =
      co_await CountKeys(&core_, sets, kStatusCountMax);
  if (!published.ok()) co_return published.status();
  response.set_trash_files(*trash_files);
  response.set_garbage_blobs(*garbage_blobs);
  response.set_sets_published(*published);
  response.set_sequence(core_.kv->durable_sequence());
  response.set_sessions(sessions_.count());
  response.set_files(core_.files.count());
  response.set_uptime_ms((core_.env->NowNs() - started_ns_) / io::kMillisecond);
  response.set_version(core_.options.version);
  response.set_io_backend(core_.env->name());
  co_return response;
}

io::Task<absl::Status> MetaService::CheckHighWaterMarks() {
  const auto map = core_.map.map();
  for (const auto& [id, target] : map->targets) {
    const absl::StatusOr<wire::TargetStatusResponse> answer =
        co_await orders_->Status(id);
    if (!answer.ok()) continue;
    if (answer->meta_sequence() <= core_.kv->sequence()) continue;
    co_return absl::FailedPreconditionError(absl::StrCat(
        "target ", id.value, " has seen metadata of sequence ",
        answer->meta_sequence(), ", but this store ends at ",
        core_.kv->sequence(),
        ": it is an old copy and would lose what was acknowledged since. "
        "Restore the newest copy, or accept the loss explicitly"));
  }
  co_return absl::OkStatus();
}

}  // namespace cairn::server
