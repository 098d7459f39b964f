// cairn status, cairn df.
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "client/cli/context.h"
#include "client/cli/text.h"
#include "format/base/status.h"
#include "format/path/names.h"

namespace cairn::client::cli {

using nlohmann::json;

namespace {

nlohmann::json RebuildToJson(const RebuildProgress& rebuild) {
  return {{"shards_waiting", rebuild.shards_waiting},
          {"shards_moving", rebuild.shards_moving},
          {"shards_moved", rebuild.shards_moved},
          {"drain_left", rebuild.drain_left},
          {"drain_moving", rebuild.drain_moving},
          {"balance_left", rebuild.balance_left},
          {"balance_moving", rebuild.balance_moving},
          {"balance_waits", rebuild.balance_waits},
          {"bytes_done", rebuild.bytes_done},
          {"bytes_todo", rebuild.bytes_todo},
          {"bytes_per_s", rebuild.bytes_per_s},
          {"left_ms", rebuild.left_ms},
          {"problems", rebuild.problems}};
}

json ScrubToJson(const ScrubStatus& scrub) {
  return {{"targets_on", scrub.targets_on},
          {"verified_bytes", scrub.verified_bytes},
          {"damaged_chunks", scrub.damaged_chunks},
          {"damaged_now", scrub.damaged_now},
          {"absent_chunks", scrub.absent_chunks},
          {"repaired_chunks", scrub.repaired_chunks},
          {"unrepaired_chunks", scrub.unrepaired_chunks},
          {"pass_bytes_done", scrub.pass_bytes_done},
          {"pass_bytes_todo", scrub.pass_bytes_todo},
          {"targets_passed", scrub.targets_passed},
          {"since_pass_ms", scrub.since_pass_ms},
          {"groups_compared", scrub.groups_compared},
          {"groups", scrub.groups},
          {"compare_passes", scrub.compare_passes},
          {"problems", scrub.problems}};
}

json ToJson(const ClusterStatus& status) {
  json root = {{"cluster_id", status.cluster_id},
               {"address", status.address},
               {"version", status.version},
               {"io", status.io_backend},
               {"epoch", status.epoch},
               {"healthy", status.healthy},
               {"brake", status.brake},
               {"quarantined", status.quarantined},
               {"rebuild", RebuildToJson(status.rebuild)},
               {"scrub", ScrubToJson(status.scrub)},
               {"uptime_ms", status.uptime_ms},
               {"sessions", status.sessions},
               {"files", status.files},
               {"sets_published", status.sets_published},
               {"trash_files", status.trash_files},
               {"garbage_blobs", status.garbage_blobs},
               {"resident_bytes", status.resident_bytes}};
  for (const PoolStatus& pool : status.pools) {
    root["pools"].push_back({{"name", pool.name},
                             {"scheme", pool.scheme},
                             {"chunk_size", pool.chunk_size_bytes},
                             {"pgs", pool.pg_count},
                             {"capacity_bytes", pool.capacity_bytes},
                             {"available_bytes", pool.available_bytes}});
  }
  for (const TargetStatus& target : status.targets) {
    root["targets"].push_back({{"id", target.id},
                               {"state", target.state},
                               {"in_state_ms", target.in_state_ms},
                               {"problem", target.problem},
                               {"address", target.address},
                               {"host", target.host},
                               {"directory", target.directory},
                               {"capacity_bytes", target.capacity_bytes},
                               {"used_bytes", target.used_bytes},
                               {"chunks", target.chunks},
                               {"corrupt_blocks", target.corrupt_blocks}});
  }
  return root;
}

void PrintPools(const ClusterStatus& status) {
  std::vector<std::vector<std::string>> rows = {
      {"POOL", "SCHEME", ">CHUNK", ">PGS", ">CAPACITY", ">AVAILABLE"}};
  for (const PoolStatus& pool : status.pools) {
    rows.push_back({pool.name, pool.scheme, HumanBytes(pool.chunk_size_bytes),
                    absl::StrCat(pool.pg_count),
                    HumanBytes(pool.capacity_bytes),
                    HumanBytes(pool.available_bytes)});
  }
  PrintTable(rows);
}

// A target that is up and has a problem all the same: heartbeats have not
// noticed it yet.
std::string StateText(const TargetStatus& target) {
  const bool both = target.state == "up" && !target.problem.empty();
  return both ? "up, failing" : target.state;
}

void PrintTargets(const ClusterStatus& status) {
  std::vector<std::vector<std::string>> rows = {
      {">TARGET", "STATE", ">SINCE", ">USED", ">CAPACITY", ">CHUNKS",
       ">CORRUPT", "ADDRESS", "DIRECTORY"}};
  for (const TargetStatus& target : status.targets) {
    rows.push_back(
        {absl::StrCat(target.id), StateText(target),
         HumanDuration(target.in_state_ms), HumanBytes(target.used_bytes),
         HumanBytes(target.capacity_bytes), absl::StrCat(target.chunks),
         absl::StrCat(target.corrupt_blocks), target.address,
         target.directory});
  }
  PrintTable(rows);
  for (const TargetStatus& target : status.targets) {
    if (target.problem.empty()) continue;
    std::printf("target %u is %s: %s\n", target.id, target.state.c_str(),
                target.problem.c_str());
  }
}

void PrintMoving(const char* what, uint64_t left, uint64_t moving,
                 const std::string& more) {
  if (left == 0) return;
  std::printf("%-9s %llu shards to move, %llu of them now%s\n", what,
              static_cast<unsigned long long>(left),
              static_cast<unsigned long long>(moving), more.c_str());
}

void PrintRebuild(const RebuildProgress& rebuild) {
  const uint64_t lost_moving =
      rebuild.shards_moving - rebuild.drain_moving - rebuild.balance_moving;
  PrintMoving("rebuild", rebuild.shards_waiting + lost_moving, lost_moving,
              " (their targets are out)");
  PrintMoving("drain", rebuild.drain_left, rebuild.drain_moving, "");
  PrintMoving("balance", rebuild.balance_left, rebuild.balance_moving,
              rebuild.balance_waits.empty()
                  ? ""
                  : absl::StrCat("; waits: ", rebuild.balance_waits));
  if (rebuild.shards_moving > 0) {
    std::printf(
        "moving    %s of %s, %s/s%s\n", HumanBytes(rebuild.bytes_done).c_str(),
        HumanBytes(rebuild.bytes_todo).c_str(),
        HumanBytes(rebuild.bytes_per_s).c_str(),
        rebuild.left_ms == 0
            ? ""
            : absl::StrCat(", ", HumanDuration(rebuild.left_ms), " left")
                  .c_str());
  }
  for (const std::string& problem : rebuild.problems) {
    std::printf("REBUILD   %s\n", problem.c_str());
  }
}

std::string PassText(const ClusterStatus& status) {
  const ScrubStatus& scrub = status.scrub;
  if (scrub.targets_on == 0) return "off";
  if (scrub.targets_passed < status.targets.size()) {
    return absl::StrCat(scrub.targets_passed, " of ", status.targets.size(),
                        " targets read whole since they started");
  }
  return absl::StrCat("all read again ", HumanDuration(scrub.since_pass_ms),
                      " ago");
}

void PrintScrub(const ClusterStatus& status) {
  const ScrubStatus& scrub = status.scrub;
  std::printf(
      "scrub     %s; %s read, %llu damaged and %llu lost chunks found, %llu "
      "repaired\n",
      PassText(status).c_str(), HumanBytes(scrub.verified_bytes).c_str(),
      static_cast<unsigned long long>(scrub.damaged_chunks),
      static_cast<unsigned long long>(scrub.absent_chunks),
      static_cast<unsigned long long>(scrub.repaired_chunks));
  if (scrub.unrepaired_chunks > 0) {
    std::printf("SCRUB     %llu chunks could not be repaired so far:\n",
                static_cast<unsigned long long>(scrub.unrepaired_chunks));
  }
  for (const std::string& problem : scrub.problems) {
    std::printf("SCRUB     %s\n", problem.c_str());
  }
}

absl::Status ShowStatus(const Context& context) {
  CAIRN_ASSIGN_OR_RETURN(auto cluster, context.Connect());
  CAIRN_ASSIGN_OR_RETURN(const ClusterStatus status, cluster->GetStatus());
  if (context.json) {
    PrintJson(ToJson(status));
    return absl::OkStatus();
  }
  std::printf("cluster   %s at %s, version %s, io %s\n",
              status.cluster_id.c_str(), status.address.c_str(),
              status.version.c_str(), status.io_backend.c_str());
  std::printf("health    %s, epoch %llu, up %llu s\n",
              status.healthy ? "ok" : "DEGRADED",
              static_cast<unsigned long long>(status.epoch),
              static_cast<unsigned long long>(status.uptime_ms / 1000));
  if (!status.brake.empty()) {
    std::printf("BRAKE     %s\n", status.brake.c_str());
  }
  PrintRebuild(status.rebuild);
  PrintScrub(status);
  std::printf(
      "contents  %llu files, %llu checkpoint sets; %llu files in the "
      "trash, %llu blobs to free; %llu sessions\n\n",
      static_cast<unsigned long long>(status.files),
      static_cast<unsigned long long>(status.sets_published),
      static_cast<unsigned long long>(status.trash_files),
      static_cast<unsigned long long>(status.garbage_blobs),
      static_cast<unsigned long long>(status.sessions));
  PrintPools(status);
  std::printf("\n");
  PrintTargets(status);
  for (const std::string& reason : status.quarantined) {
    std::printf("QUARANTINED  %s\n", reason.c_str());
  }
  return absl::OkStatus();
}

absl::Status ShowSpace(const Context& context) {
  CAIRN_ASSIGN_OR_RETURN(auto cluster, context.Connect());
  CAIRN_ASSIGN_OR_RETURN(const ClusterStatus status, cluster->GetStatus());
  if (context.json) {
    PrintJson(ToJson(status)["pools"]);
    return absl::OkStatus();
  }
  PrintPools(status);
  return absl::OkStatus();
}

}  // namespace

void AddStatusCommands(CLI::App* app, Context* context) {
  auto* status = app->add_subcommand(
      "status", "Targets, pools, space, health and epoch of the cluster");
  status->footer("Examples:\n  cairn status\n  cairn --json status\n");
  status->callback(
      [context] { context->run = [context] { return ShowStatus(*context); }; });
  auto* space = app->add_subcommand("df", "Space of each pool, in user bytes");
  space->callback(
      [context] { context->run = [context] { return ShowSpace(*context); }; });
}

}  // namespace cairn::client::cli
