// SimCluster: a whole cluster in a World: one metadata node, target nodes, and
// clients on nodes of their own, all of them the real code on simulated disks
// and a simulated network.
//
//   SimCluster cluster({.seed = 7, .scheme = "rs:2+1", .targets = 3});
//   SimClient* client = cluster.NewClient("rank-0");
//   absl::Status status = cluster.Await(SaveThings(client->core()));
//   cluster.KillTarget(2);
//   EXPECT_OK(cluster.Await(cluster.StartTarget(2)));
//
// Processes: a node's targets are served by one process and die together.
// Death:     Kill...() ends a process (kill -9), Crash...() takes the power of
//            its node. Both return at once, at one instant of virtual time;
//            what is left of the process unwinds while the world goes on. A new
//            one may be started right after.
// Addresses: each start of a target takes a new port unless fixed_ports is set;
//            the metadata service is told, or with `join` finds out.
// Tasks:     Task-returning methods run under Await(), or from a task that
//            plays the part of fate. Those with a plain result drive the world.
// Determinism: same options, same trace_hash() of the world.
// Destructor: stops all that runs and waits for all that unwinds.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "client/core/limits.h"
#include "tests/sim/cluster/meta_process.h"
#include "tests/sim/cluster/sim_client.h"
#include "tests/sim/cluster/target_process.h"
#include "tests/sim/world.h"

namespace cairn::sim {

struct ClusterOptions {
  uint64_t seed = 1;
  std::string scheme = "rs:2+1";
  uint32_t targets = 3;
  uint32_t targets_per_node = 1;
  uint32_t chunk_size = 128 * format::kKiB;
  uint64_t target_capacity_bytes = 256 * format::kMiB;
  uint64_t slab_bytes = 16 * format::kMiB;
  bool fixed_ports = false;
  // Targets join the metadata service by themselves, as those of `cairnd` do;
  // else it is told where they are.
  bool join = false;
  // Buffers of format::kChunkBytesMax in each process.
  uint32_t target_pool_buffers = 8;
  uint32_t client_pool_buffers = client::kPoolLargeBuffers;
  uint64_t client_timeout_ms = 60'000;
  uint64_t client_write_window_bytes = client::Options().write_window_bytes;
  uint64_t client_read_window_bytes = client::Options().read_window_bytes;
  server::ScrubOptions scrub;  // Of each target: off.
  server::MetaOptions meta;    // Lease, grace times...
  WorldOptions world;          // Its seed and pool are those above.
};

class SimCluster {
 public:
  explicit SimCluster(ClusterOptions options);
  ~SimCluster();
  SimCluster(const SimCluster&) = delete;
  SimCluster& operator=(const SimCluster&) = delete;

  World* world() { return &world_; }
  const ClusterOptions& options() const { return options_; }
  // Randomness for the test, from the seed.
  Random* random() { return &random_; }

  // Runs the world until the task is done.
  template <typename T>
  T Await(io::Task<T> task) {
    std::optional<T> out;
    world_.Run(Keep(std::move(task), &out));
    return *std::move(out);
  }
  // Lets virtual time pass.
  void Sleep(io::TimeNs time) { world_.RunUntil(world_.NowNs() + time); }
  // Waits for `task` and keeps its result: to watch what runs beside the test.
  template <typename T>
  static io::Task<void> Keep(io::Task<T> task, std::optional<T>* out) {
    out->emplace(co_await std::move(task));
  }

  // --- Targets: 1 to options().targets.
  // Starts the process that serves it; it must not be running. Errors as
  // ChunkStore::Open(); kUnavailable: killed meanwhile. After an error it is
  // down.
  io::Task<absl::Status> StartTarget(uint32_t target);
  void KillTarget(uint32_t target);
  void CrashTarget(uint32_t target, CrashOptions options = {});
  bool TargetRuns(uint32_t target) const;
  // With `join`: the process that serves it has been let in.
  bool TargetServes(uint32_t target);
  // Why not; empty: it does, or does not run.
  std::string JoinProblem(uint32_t target);
  NodeId TargetNode(uint32_t target) const;
  std::string TargetDirectory(uint32_t target) const;
  // How a process on the target's node joins.
  server::JoinerOptions JoinOptions(uint32_t target) const;
  format::ClusterId cluster_id() const { return cluster_id_; }
  // Null while it is down.
  server::ChunkStore* store(uint32_t target);
  // Of the process that serves it; null likewise.
  SimEnv* TargetEnv(uint32_t target) const;
  // Flips one bit every `stride_bytes` in all payload of the target, from byte
  // `first` of each slab on: with format::kDiskAlignBytes and 0 in each chunk.
  // Returns how many bits.
  uint64_t CorruptTarget(uint32_t target, uint64_t stride_bytes,
                         uint64_t first = 0);

  // --- Metadata.
  io::Task<absl::Status> StartMeta(bool accept_metadata_loss = false);
  // The `commits_kept` oldest commits that nobody was told of survive either;
  // nullopt: a seeded number.
  void KillMeta(std::optional<uint64_t> commits_kept = std::nullopt);
  void CrashMeta(CrashOptions options = {},
                 std::optional<uint64_t> commits_kept = std::nullopt);
  // Of the next starts: how long the engine takes to make a commit durable.
  void set_meta_commit_delay(io::TimeNs delay) { meta_commit_delay_ = delay; }
  bool MetaRuns() const { return meta_ != nullptr; }
  NodeId meta_node() const { return meta_node_; }
  // What the engine's disk holds: it outlives the process.
  server::ModelKvDisk* meta_disk() { return &meta_disk_; }
  // Null while it is down.
  MetaProcess* meta() { return meta_.get(); }

  // --- Clients. They live as long as the cluster, alive or not.
  // A process whose Core is not started yet.
  SimClient* AddClient(const std::string& name);
  // A started one; the metadata service must be up.
  SimClient* NewClient(const std::string& name);
  void KillClient(SimClient* client);
  // Ends its session properly.
  io::Task<void> StopClient(SimClient* client);

 private:
  struct Server {  // One node of targets.
    NodeId node;
    std::vector<SimTarget> targets;
    std::unique_ptr<TargetProcess> process;
  };

  void MakeNodes();
  format::ClusterMap MakeMap() const;
  io::Task<absl::Status> Format();
  io::Task<absl::Status> FormatServer(const Server* server);
  io::Task<absl::Status> FormatMeta();
  io::Task<absl::Status> StartAll();
  io::Task<bool> ShutDown();
  io::Task<absl::Status> StartServer(Server* server, uint16_t port);
  void TargetsUp(const TargetProcess& process);
  std::optional<server::Joiner::State> JoinState(uint32_t target);
  Server& ServerOf(uint32_t target);
  const Server& ServerOf(uint32_t target) const;
  template <typename Process>
  static io::Task<void> Reap(std::unique_ptr<Process> process) {
    co_await process->Close();
  }
  void ReapMeta(std::optional<uint64_t> commits_kept);

  const ClusterOptions options_;
  World world_;
  Random random_;
  io::Gate reaping_;
  format::ClusterId cluster_id_;
  NodeId meta_node_;
  server::ModelKvDisk meta_disk_;
  io::TimeNs meta_commit_delay_ = server::ModelKvOptions().commit_delay_ns;
  std::unique_ptr<MetaProcess> meta_;
  std::vector<Server> servers_;
  std::map<format::TargetId, std::string> addresses_;  // Last known ones.
  std::vector<std::unique_ptr<SimClient>> clients_;
};

}  // namespace cairn::sim
