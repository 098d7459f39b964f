// The simulated process of the metadata service: what server/main/meta_loop.h
// is to a real one, on the model engine instead of RocksDB.
//
// Lifetime: Close() before destruction, however Open() ended and whether the
//           process lives or not; it waits for an Open() under way. The disks
//           of the engine and the node outlive it.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "io/rpc/server.h"
#include "server/cluster/target_client.h"
#include "server/meta/kv/high_water_mark.h"
#include "server/meta/kv/model_kv.h"
#include "server/meta/service.h"
#include "tests/sim/sim_env.h"

namespace cairn::sim {

class MetaProcess {
 public:
  struct Options {
    format::ClusterId cluster_id;
    std::string directory;  // For the high-water mark.
    uint16_t port = 0;
    std::map<format::TargetId, std::string> target_addresses;
    uint64_t targets_sequence_max = 0;
    // Serve although acknowledged metadata is missing.
    bool accept_metadata_loss = false;
    // From a commit's effect to its durability.
    io::TimeNs commit_delay_ns = server::ModelKvOptions().commit_delay_ns;
    server::MetaOptions meta;
  };

  MetaProcess(SimEnv* env, server::ModelKvDisk* disk, Options options);

  // kFailedPrecondition: the store has lost its end (high_water_mark.h).
  io::Task<absl::Status> Open();
  // A target listens at a new address.
  void SetTargetAddress(format::TargetId target, const std::string& address);
  // With the death of its process: the engine's disk keeps what was durable and
  // the `keep` oldest commits that were not.
  void Die(uint64_t keep);
  io::Task<void> Close();

  SimEnv* env() const { return env_; }
  // Null before Open() has got that far.
  server::ModelKv* kv() { return kv_.get(); }
  server::MetaService* service() { return service_.get(); }

 private:
  io::Task<absl::Status> OpenStore();
  io::Task<absl::Status> OpenService();
  io::Task<absl::Status> Serve();

  SimEnv* const env_;
  server::ModelKvDisk* const disk_;
  const Options options_;
  io::Gate opening_;
  std::map<format::TargetId, std::string> addresses_;
  std::unique_ptr<server::HighWaterMark> mark_;
  std::unique_ptr<server::ModelKv> kv_;
  std::unique_ptr<server::TargetClient> targets_;
  std::unique_ptr<server::MetaService> service_;
  std::unique_ptr<io::RpcServer> server_;
};

}  // namespace cairn::sim
