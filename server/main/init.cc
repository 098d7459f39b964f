#include "server/main/init.h"

#include <sys/stat.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <random>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "format/cluster/placement.h"
#include "server/main/cluster_config.h"
#include "server/main/data_loop_plan.h"
#include "server/meta/kv/high_water_mark.h"
#include "server/meta/kv/rocks_kv.h"
#include "server/meta/service.h"
#include "server/target/chunk_store.h"

namespace cairn::server {

using io::Task;

namespace {

// Part of the free space that targets may plan with; the rest is for indexes,
// the metadata store and others.
constexpr uint64_t kPlanPercent = 85;

format::ClusterId NewClusterId() {
  format::ClusterId id;
  std::random_device random;  // Once, at init: nothing depends on its order.
  for (uint8_t& byte : id.bytes) byte = static_cast<uint8_t>(random());
  return id;
}

// An even share of what is free on each target's file system.
absl::StatusOr<std::vector<uint64_t>> PlanCapacities(
    const InitOptions& options, const std::vector<TargetPlace>& places) {
  std::map<dev_t, uint64_t> on_device;
  std::vector<dev_t> devices;
  for (const TargetPlace& place : places) {
    const auto parent = std::filesystem::path(place.directory).parent_path();
    struct stat info;
    if (stat(parent.c_str(), &info) != 0) {
      return absl::NotFoundError(
          absl::StrCat(parent.string(), ": no such directory"));
    }
    devices.push_back(info.st_dev);
    ++on_device[info.st_dev];
  }
  std::vector<uint64_t> capacities;
  for (size_t i = 0; i < places.size(); ++i) {
    const auto parent =
        std::filesystem::path(places[i].directory).parent_path();
    struct statvfs space;
    if (statvfs(parent.c_str(), &space) != 0) {
      return absl::InternalError(absl::StrCat(parent.string(), ": statvfs"));
    }
    const uint64_t free = uint64_t{space.f_bavail} * space.f_frsize;
    const uint64_t share = free / 100 * kPlanPercent / on_device[devices[i]];
    const uint64_t wanted =
        options.capacity_bytes == 0 ? share : options.capacity_bytes;
    if (wanted > share) {
      return absl::ResourceExhaustedError(
          absl::StrFormat("%s: %d bytes wanted a target, %d are there for each",
                          parent.string(), wanted, share));
    }
    capacities.push_back(wanted / format::kDiskAlignBytes *
                         format::kDiskAlignBytes);
  }
  return capacities;
}

std::vector<TargetPlace> PlanPlaces(const InitOptions& options) {
  std::vector<TargetPlace> places;
  if (options.no_targets) return places;
  if (options.target_directories.empty()) {
    for (uint32_t i = 1; i <= options.targets; ++i) {
      const auto path = std::filesystem::absolute(options.directory) /
                        absl::StrFormat("target-%02d", i);
      places.push_back({format::TargetId(i), path.string(), 1});
    }
    return places;
  }
  for (const std::string& directory : options.target_directories) {
    auto path = std::filesystem::absolute(directory).lexically_normal();
    if (!path.has_filename()) path = path.parent_path();
    places.push_back(
        {format::TargetId(static_cast<uint32_t>(places.size()) + 1),
         path.string(), 1});
  }
  return places;
}

absl::StatusOr<format::ClusterMap> MakeMap(
    const InitOptions& options, format::ClusterId id,
    const std::vector<TargetPlace>& places,
    const std::vector<uint64_t>& capacities) {
  const std::string host = HostName();
  format::ClusterMap map;
  map.cluster_id = id;
  map.epoch = format::Epoch(1);
  format::PlacementRequest placement;
  for (size_t i = 0; i < places.size(); ++i) {
    format::TargetInfo target;
    target.id = places[i].id;
    target.host = host;
    target.rack = "default";
    target.capacity_bytes = capacities[i];
    target.directory = places[i].directory;
    map.targets[target.id] = target;
    placement.targets.push_back(target);
  }
  if (places.empty()) return map;  // A pool needs targets: later.
  format::Pool pool;
  pool.id = format::PoolId(1);
  pool.name = "default";
  pool.scheme = options.scheme;
  pool.chunk_size = options.chunk_size;
  pool.pg_count = format::DefaultPgCount(static_cast<uint32_t>(places.size()),
                                         pool.scheme.shards());
  pool.stripe_width = pool.pg_count;
  placement.scheme = pool.scheme;
  placement.pg_count = pool.pg_count;
  placement.seed = format::Mix64(pool.id.value);
  CAIRN_ASSIGN_OR_RETURN(pool.pg_targets, format::MakePgTable(placement));
  map.pools[pool.id] = std::move(pool);
  CAIRN_RETURN_IF_ERROR(format::ValidateMap(map));
  return map;
}

struct InitPlan {
  const InitOptions* options;
  ClusterConfig config;
  std::vector<uint64_t> capacities;
  format::ClusterMap map;
};

Task<absl::Status> FormatTargets(io::Env* env, const InitPlan* plan) {
  for (size_t i = 0; i < plan->config.targets.size(); ++i) {
    const TargetPlace& place = plan->config.targets[i];
    FormatOptions format;
    format.identity = {plan->config.cluster_id, place.id,
                       place.disk_generation};
    format.capacity_bytes = plan->capacities[i];
    format.slab_bytes =
        std::min(plan->options->slab_bytes, plan->capacities[i]);
    format.prewrite = plan->options->prewrite;
    absl::Status status = co_await FormatTarget(env, place.directory, format);
    if (!status.ok()) co_return Annotate(std::move(status), place.directory);
  }
  co_return absl::OkStatus();
}

Task<absl::Status> MakeMetadata(io::Env* env, const InitPlan* plan) {
  RocksKvOptions options;
  options.cluster = plan->config.cluster_id;
  options.create = true;
  absl::StatusOr<std::unique_ptr<RocksKv>> kv =
      co_await RocksKv::Open(env, MetaPath(plan->options->directory), options);
  if (!kv.ok()) co_return kv.status();
  format::ClusterMap map = plan->map;
  absl::Status status =
      co_await MetaService::Bootstrap(env, kv->get(), std::move(map));
  absl::Status closed = co_await (*kv)->Close();
  if (!status.ok()) co_return status;
  if (!closed.ok()) co_return closed;
  absl::StatusOr<std::unique_ptr<HighWaterMark>> mark =
      co_await HighWaterMark::Open(env, plan->options->directory,
                                   plan->config.cluster_id, true);
  if (!mark.ok()) co_return mark.status();
  co_return co_await (*mark)->Close();
}

Task<void> RunInit(io::Env* env, const InitPlan* plan, absl::Status* result) {
  *result = co_await FormatTargets(env, plan);
  if (result->ok()) *result = co_await MakeMetadata(env, plan);
}

absl::Status MakeRoomFor(const std::string& directory) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) {
    return absl::InvalidArgumentError(
        absl::StrCat(directory, ": ", error.message()));
  }
  if (std::filesystem::exists(ConfigPath(directory), error)) {
    return absl::AlreadyExistsError(absl::StrCat(
        directory, " holds a cluster already; start it with: cairnd run --dir ",
        directory));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status InitCluster(const InitOptions& options) {
  CAIRN_RETURN_IF_ERROR(MakeRoomFor(options.directory));
  InitPlan plan;
  plan.options = &options;
  plan.config.cluster_id = NewClusterId();
  plan.config.targets = PlanPlaces(options);
  CAIRN_ASSIGN_OR_RETURN(plan.capacities,
                         PlanCapacities(options, plan.config.targets));
  CAIRN_ASSIGN_OR_RETURN(
      plan.map, MakeMap(options, plan.config.cluster_id, plan.config.targets,
                        plan.capacities));
  io::LoopOptions loop;
  loop.backend = options.backend;
  loop.pool_large_buffers = 2;
  CAIRN_ASSIGN_OR_RETURN(std::unique_ptr<io::RealEnv> env,
                         io::MakeRealEnv(loop));
  absl::Status result;
  env->RunUntilDone(RunInit(env.get(), &plan, &result));
  CAIRN_RETURN_IF_ERROR(result);
  // Last: only a directory with this file is a cluster.
  return SaveConfig(options.directory, plan.config);
}

}  // namespace cairn::server
