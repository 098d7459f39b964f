#include "client/core/status_report.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace cairn::client {

using io::Task;

namespace {

TargetStatus MakeTarget(const format::TargetInfo& info,
                        const wire::TargetStatusResponse* answer,
                        const std::string& error) {
  TargetStatus target;
  target.id = info.id.value;
  target.address = info.address;
  target.host = info.host;
  target.directory = info.directory;
  target.state = std::string(ToString(info.state));
  target.capacity_bytes = info.capacity_bytes;
  target.problem = error;
  if (answer == nullptr || !error.empty()) return target;
  target.capacity_bytes = answer->capacity_bytes();
  target.used_bytes = answer->used_bytes();
  target.chunks = answer->chunks();
  target.corrupt_blocks = answer->corrupt_blocks();
  target.problem = answer->failed();
  return target;
}

// A pool can take what its fullest target lets it: every PG needs all its
// targets, and PGs are spread evenly.
PoolStatus MakePool(const format::Pool& pool,
                    const std::vector<TargetStatus>& targets) {
  PoolStatus status;
  status.name = pool.name;
  status.scheme = format::ToString(pool.scheme);
  status.chunk_size_bytes = pool.chunk_size;
  status.pg_count = pool.pg_count;
  uint64_t least_capacity = UINT64_MAX;
  uint64_t least_free = UINT64_MAX;
  uint64_t members = 0;
  for (const TargetStatus& target : targets) {
    const auto& rows = pool.pg_targets;
    if (std::find(rows.begin(), rows.end(), format::TargetId(target.id)) ==
        rows.end()) {
      continue;
    }
    ++members;
    least_capacity = std::min(least_capacity, target.capacity_bytes);
    least_free =
        std::min(least_free, target.capacity_bytes - target.used_bytes);
  }
  if (members == 0) return status;
  const uint64_t k = pool.scheme.data_shards;
  const uint64_t shards = pool.scheme.shards();
  status.capacity_bytes = least_capacity / shards * members * k;
  status.available_bytes = least_free / shards * members * k;
  return status;
}

RebuildProgress MakeRebuild(const wire::RebuildStatus& said) {
  RebuildProgress rebuild;
  rebuild.shards_waiting = said.shards_waiting();
  rebuild.shards_moving = said.shards_moving();
  rebuild.shards_moved = said.shards_moved();
  rebuild.drain_left = said.drain_left();
  rebuild.drain_moving = said.drain_moving();
  rebuild.balance_left = said.balance_left();
  rebuild.balance_moving = said.balance_moving();
  rebuild.balance_waits = said.balance_waits();
  rebuild.bytes_done = said.bytes_done();
  rebuild.bytes_todo = said.bytes_todo();
  rebuild.bytes_per_s = said.bytes_per_s();
  rebuild.left_ms = said.left_ms();
  rebuild.problems.assign(said.problems().begin(), said.problems().end());
  return rebuild;
}

ScrubStatus MakeScrub(const wire::ScrubStatus& said) {
  ScrubStatus scrub;
  scrub.targets_on = said.targets_on();
  scrub.verified_bytes = said.verified_bytes();
  scrub.damaged_chunks = said.damaged_chunks();
  scrub.damaged_now = said.damaged_now();
  scrub.absent_chunks = said.absent_chunks();
  scrub.repaired_chunks = said.repaired_chunks();
  scrub.unrepaired_chunks = said.unrepaired_chunks();
  scrub.pass_bytes_done = said.pass_bytes_done();
  scrub.pass_bytes_todo = said.pass_bytes_todo();
  scrub.targets_passed = said.targets_passed();
  scrub.since_pass_ms = said.since_pass_ms();
  scrub.groups_compared = said.groups_compared();
  scrub.groups = said.groups();
  scrub.compare_passes = said.compare_passes();
  scrub.problems.assign(said.problems().begin(), said.problems().end());
  return scrub;
}

}  // namespace

Task<absl::StatusOr<ClusterStatus>> ReportStatus(Core* core,
                                                 io::TimeNs deadline) {
  auto answer = co_await core->Query<wire::ClusterStatusResponse>(
      format::Method::kClusterStatus, wire::ClusterStatusRequest(), deadline);
  if (!answer.ok()) co_return answer.status();
  absl::StatusOr<format::ClusterMap> map = format::MapFromProto(answer->map());
  if (!map.ok()) co_return map.status();
  ClusterStatus status;
  status.cluster_id = ToString(map->cluster_id);
  status.address = core->options().address;
  status.version = answer->version();
  status.io_backend = answer->io_backend();
  status.epoch = map->epoch.value;
  status.uptime_ms = answer->uptime_ms();
  status.sessions = answer->sessions();
  status.files = answer->files();
  status.sets_published = answer->sets_published();
  status.trash_files = answer->trash_files();
  status.garbage_blobs = answer->garbage_blobs();
  status.resident_bytes = answer->resident_bytes();
  status.brake = answer->brake();
  for (const wire::Quarantine& record : answer->quarantined()) {
    status.quarantined.push_back(record.reason());
  }
  status.scrub = MakeScrub(answer->scrub());
  status.healthy = status.brake.empty() && status.scrub.unrepaired_chunks == 0;
  status.rebuild = MakeRebuild(answer->rebuild());
  int i = 0;
  for (const auto& [id, info] : map->targets) {
    const bool answered = i < answer->targets_size();
    status.targets.push_back(MakeTarget(
        info, answered ? &answer->targets(i) : nullptr,
        i < answer->target_errors_size() ? answer->target_errors(i) : ""));
    TargetStatus& target = status.targets.back();
    if (i < answer->target_health_size()) {
      const wire::TargetHealth& health = answer->target_health(i);
      target.in_state_ms = health.since_ms();
      // More telling than what one question found.
      if (!health.reason().empty()) target.problem = health.reason();
    }
    status.healthy = status.healthy && target.problem.empty() &&
                     info.state == format::TargetState::kUp;
    ++i;
  }
  for (const auto& [id, pool] : map->pools) {
    status.pools.push_back(MakePool(pool, status.targets));
  }
  co_return status;
}

}  // namespace cairn::client
