#include "tests/sim/cluster/sim_cluster.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_format.h"
#include "format/cluster/placement.h"

namespace cairn::sim {

using format::TargetId;
using io::Task;

namespace {

constexpr uint16_t kMetaPort = 7400;
constexpr uint16_t kDataPort = 7500;
const char* const kMetaDirectory = "/cluster";
// A commit that nobody was told of may or may not be on the disk.
constexpr uint64_t kCommitsKeptMax = 4;

WorldOptions MakeWorldOptions(const ClusterOptions& options) {
  WorldOptions world = options.world;
  world.seed = options.seed;
  return world;
}

}  // namespace

SimCluster::SimCluster(ClusterOptions options)
    : options_(std::move(options)),
      world_(MakeWorldOptions(options_)),
      random_(Random::Mix(options_.seed + 1)),
      reaping_(&world_) {
  cluster_id_.bytes.fill(0xca);
  MakeNodes();
  const absl::Status formatted = Await(Format());
  CAIRN_CHECK(formatted.ok());
  const absl::Status started = Await(StartAll());
  CAIRN_CHECK(started.ok());
}

SimCluster::~SimCluster() { Await(ShutDown()); }

void SimCluster::MakeNodes() {
  meta_node_ = world_.AddNode();
  for (uint32_t id = 1; id <= options_.targets; ++id) {
    if ((id - 1) % options_.targets_per_node == 0) {
      servers_.emplace_back().node = world_.AddNode();
    }
    SimTarget target;
    target.identity = {cluster_id_, TargetId(id), 1};
    target.directory = TargetDirectory(id);
    servers_.back().targets.push_back(std::move(target));
  }
}

format::ClusterMap SimCluster::MakeMap() const {
  format::ClusterMap map;
  map.cluster_id = cluster_id_;
  map.epoch = format::Epoch(1);
  format::PlacementRequest placement;
  for (uint32_t id = 1; id <= options_.targets; ++id) {
    format::TargetInfo target;
    target.id = TargetId(id);
    target.host = absl::StrCat("node-", TargetNode(id).value);
    target.rack = "default";
    target.capacity_bytes = options_.target_capacity_bytes;
    target.directory = TargetDirectory(id);
    map.targets[target.id] = target;
    placement.targets.push_back(target);
  }
  format::Pool pool;
  pool.id = format::PoolId(1);
  pool.name = "default";
  absl::StatusOr<format::Scheme> scheme = format::ParseScheme(options_.scheme);
  CAIRN_CHECK(scheme.ok());
  pool.scheme = *scheme;
  pool.chunk_size = options_.chunk_size;
  pool.pg_count =
      format::DefaultPgCount(options_.targets, pool.scheme.shards());
  pool.stripe_width = pool.pg_count;
  placement.scheme = pool.scheme;
  placement.pg_count = pool.pg_count;
  placement.seed = format::Mix64(pool.id.value);
  absl::StatusOr<std::vector<TargetId>> table = format::MakePgTable(placement);
  CAIRN_CHECK(table.ok());
  pool.pg_targets = *std::move(table);
  map.pools[pool.id] = std::move(pool);
  return map;
}

Task<absl::Status> SimCluster::Format() {
  for (const Server& server : servers_) {
    CAIRN_CO_RETURN_IF_ERROR(co_await FormatServer(&server));
  }
  co_return co_await FormatMeta();
}

Task<absl::Status> SimCluster::FormatServer(const Server* server) {
  SimEnv* const env = world_.Start(server->node, 1);
  for (const SimTarget& target : server->targets) {
    server::FormatOptions format;
    format.identity = target.identity;
    format.capacity_bytes = options_.target_capacity_bytes;
    format.slab_bytes =
        std::min(options_.slab_bytes, options_.target_capacity_bytes);
    format.index_kind = format::IndexKind::kLog;
    CAIRN_CO_RETURN_IF_ERROR(
        co_await server::FormatTarget(env, target.directory, format));
  }
  world_.Kill(env);
  co_return absl::OkStatus();
}

Task<absl::Status> SimCluster::FormatMeta() {
  SimEnv* const env = world_.Start(meta_node_, 1);
  CAIRN_CO_RETURN_IF_ERROR(co_await env->MakeDirectory(kMetaDirectory));
  CAIRN_CO_RETURN_IF_ERROR(co_await env->SyncDirectory("/"));
  server::ModelKv kv(env, &meta_disk_);
  absl::Status made =
      co_await server::MetaService::Bootstrap(env, &kv, MakeMap());
  absl::Status closed = co_await kv.Close();
  CAIRN_CO_RETURN_IF_ERROR(made);
  CAIRN_CO_RETURN_IF_ERROR(closed);
  absl::StatusOr<std::unique_ptr<server::HighWaterMark>> mark =
      co_await server::HighWaterMark::Open(env, kMetaDirectory, cluster_id_,
                                           true);
  if (!mark.ok()) co_return mark.status();
  closed = co_await (*mark)->Close();
  world_.Kill(env);
  co_return closed;
}

// In the order of `cairnd run`: the metadata service learns where they are.
Task<absl::Status> SimCluster::StartAll() {
  for (const Server& server : servers_) {
    const uint32_t first = server.targets.front().identity.target_id.value;
    CAIRN_CO_RETURN_IF_ERROR(co_await StartTarget(first));
  }
  CAIRN_CO_RETURN_IF_ERROR(co_await StartMeta());
  for (uint32_t t = 1; options_.join && t <= options_.targets; ++t) {
    while (!TargetServes(t)) co_await io::SleepFor(&world_, io::kMillisecond);
  }
  co_return absl::OkStatus();
}

Task<bool> SimCluster::ShutDown() {
  for (const auto& client : clients_) co_await client->Close();
  if (meta_ != nullptr) co_await meta_->Close();
  meta_.reset();
  for (Server& server : servers_) {
    if (server.process != nullptr) co_await server.process->Close();
    server.process.reset();
  }
  co_await reaping_.Close();
  co_return true;
}

// --- Targets.

SimCluster::Server& SimCluster::ServerOf(uint32_t target) {
  CAIRN_CHECK(target >= 1 && target <= options_.targets);
  return servers_[(target - 1) / options_.targets_per_node];
}

const SimCluster::Server& SimCluster::ServerOf(uint32_t target) const {
  CAIRN_CHECK(target >= 1 && target <= options_.targets);
  return servers_[(target - 1) / options_.targets_per_node];
}

NodeId SimCluster::TargetNode(uint32_t target) const {
  return ServerOf(target).node;
}

std::string SimCluster::TargetDirectory(uint32_t target) const {
  return absl::StrFormat("/target-%02d", target);
}

bool SimCluster::TargetRuns(uint32_t target) const {
  return ServerOf(target).process != nullptr;
}

SimEnv* SimCluster::TargetEnv(uint32_t target) const {
  const auto& process = ServerOf(target).process;
  return process == nullptr ? nullptr : process->env();
}

server::ChunkStore* SimCluster::store(uint32_t target) {
  TargetProcess* const process = ServerOf(target).process.get();
  return process == nullptr ? nullptr : process->store(TargetId(target));
}

server::JoinerOptions SimCluster::JoinOptions(uint32_t target) const {
  server::JoinerOptions options;
  options.meta_address = World::Address(meta_node_, kMetaPort);
  options.host = absl::StrCat("node-", TargetNode(target).value);
  options.rack = "default";
  return options;
}

std::optional<server::Joiner::State> SimCluster::JoinState(uint32_t target) {
  TargetProcess* const process = ServerOf(target).process.get();
  if (process == nullptr || process->joiner() == nullptr) return std::nullopt;
  for (const server::Joiner::State& state : process->joiner()->states()) {
    if (state.target == TargetId(target)) return state;
  }
  return std::nullopt;
}

bool SimCluster::TargetServes(uint32_t target) {
  const std::optional<server::Joiner::State> state = JoinState(target);
  return state && state->served;
}

std::string SimCluster::JoinProblem(uint32_t target) {
  const std::optional<server::Joiner::State> state = JoinState(target);
  return state ? state->problem : std::string();
}

Task<absl::Status> SimCluster::StartTarget(uint32_t target) {
  const uint16_t port =
      options_.fixed_ports ? static_cast<uint16_t>(kDataPort) : uint16_t{0};
  co_return co_await StartServer(&ServerOf(target), port);
}

Task<absl::Status> SimCluster::StartServer(Server* server, uint16_t port) {
  CAIRN_CHECK(server->process == nullptr);
  SimEnv* const env = world_.Start(server->node, options_.target_pool_buffers);
  std::optional<server::JoinerOptions> join;
  if (options_.join) {
    join = JoinOptions(server->targets.front().identity.target_id.value);
  }
  server->process = std::make_unique<TargetProcess>(env, server->targets, port,
                                                    std::move(join),
                                                    options_.scrub);
  // If it is killed meanwhile its reaper waits for Open(), and destroys it only
  // after we have gone on from here to our next await.
  TargetProcess* const process = server->process.get();
  absl::Status opened = co_await process->Open();
  if (!env->alive()) {
    co_return absl::UnavailableError("the target was killed while it started");
  }
  if (opened.ok()) {
    TargetsUp(*process);
    co_return opened;
  }
  world_.Kill(env);
  reaping_.Spawn(Reap(std::move(server->process)));
  co_return opened;
}

void SimCluster::TargetsUp(const TargetProcess& process) {
  if (options_.join) return;
  for (const SimTarget& target : process.targets()) {
    const TargetId id = target.identity.target_id;
    addresses_[id] = process.address();
    if (meta_ != nullptr) meta_->SetTargetAddress(id, process.address());
  }
}

void SimCluster::KillTarget(uint32_t target) {
  Server& server = ServerOf(target);
  if (server.process == nullptr) return;
  world_.Kill(server.process->env());
  reaping_.Spawn(Reap(std::move(server.process)));
}

void SimCluster::CrashTarget(uint32_t target, CrashOptions options) {
  Server& server = ServerOf(target);
  world_.Crash(server.node, options);
  if (server.process == nullptr) return;
  reaping_.Spawn(Reap(std::move(server.process)));
}

uint64_t SimCluster::CorruptTarget(uint32_t target, uint64_t stride_bytes,
                                   uint64_t first) {
  Disk* const disk = world_.disk(TargetNode(target));
  const std::string directory = TargetDirectory(target);
  const absl::StatusOr<std::vector<std::string>> names = disk->List(directory);
  CAIRN_CHECK(names.ok());
  uint64_t flipped = 0;
  for (const std::string& name : *names) {
    if (!absl::StartsWith(name, "slab-")) continue;
    const std::string path = absl::StrCat(directory, "/", name);
    const auto info = disk->Stat(path);
    CAIRN_CHECK(info.ok() && info->has_value());
    for (uint64_t at = first; at < (*info)->size_bytes; at += stride_bytes) {
      CAIRN_CHECK(disk->CorruptFile(path, at).ok());
      ++flipped;
    }
  }
  return flipped;
}

// --- Metadata.

Task<absl::Status> SimCluster::StartMeta(bool accept_metadata_loss) {
  CAIRN_CHECK(meta_ == nullptr);
  MetaProcess::Options options;
  options.cluster_id = cluster_id_;
  options.directory = kMetaDirectory;
  options.port = kMetaPort;
  options.target_addresses = addresses_;
  for (const Server& server : servers_) {
    if (server.process == nullptr) continue;
    options.targets_sequence_max =
        std::max(options.targets_sequence_max, server.process->meta_sequence());
  }
  options.accept_metadata_loss = accept_metadata_loss;
  options.commit_delay_ns = meta_commit_delay_;
  options.meta = options_.meta;
  SimEnv* const env = world_.Start(meta_node_, 1);
  meta_ = std::make_unique<MetaProcess>(env, &meta_disk_, std::move(options));
  absl::Status opened = co_await meta_.get()->Open();
  if (!env->alive()) {
    co_return absl::UnavailableError(
        "the metadata service was killed while it started");
  }
  if (!opened.ok()) KillMeta();
  co_return opened;
}

void SimCluster::KillMeta(std::optional<uint64_t> commits_kept) {
  if (meta_ == nullptr) return;
  world_.Kill(meta_->env());
  ReapMeta(commits_kept);
}

void SimCluster::CrashMeta(CrashOptions options,
                           std::optional<uint64_t> commits_kept) {
  world_.Crash(meta_node_, options);
  ReapMeta(commits_kept);
}

void SimCluster::ReapMeta(std::optional<uint64_t> commits_kept) {
  if (meta_ == nullptr) return;
  const uint64_t drawn = random_.Between(0, kCommitsKeptMax);
  meta_->Die(commits_kept.value_or(drawn));
  reaping_.Spawn(Reap(std::move(meta_)));
}

// --- Clients.

SimClient* SimCluster::AddClient(const std::string& name) {
  SimEnv* const env =
      world_.Start(world_.AddNode(), options_.client_pool_buffers);
  client::Options options;
  options.address = World::Address(meta_node_, kMetaPort);
  options.timeout_ms = options_.client_timeout_ms;
  options.write_window_bytes = options_.client_write_window_bytes;
  options.read_window_bytes = options_.client_read_window_bytes;
  options.name = name;
  options.uid = 1000;
  options.gid = 1000;
  clients_.push_back(std::make_unique<SimClient>(env, std::move(options)));
  return clients_.back().get();
}

SimClient* SimCluster::NewClient(const std::string& name) {
  SimClient* const client = AddClient(name);
  const absl::Status started = Await(client->Start());
  CAIRN_CHECK(started.ok());
  return client;
}

void SimCluster::KillClient(SimClient* client) {
  world_.Kill(client->env());
  reaping_.Spawn(client->Close());
}

Task<void> SimCluster::StopClient(SimClient* client) {
  co_await client->Close();
  world_.Kill(client->env());
}

}  // namespace cairn::sim
