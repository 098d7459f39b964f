// A simulated process that owns some targets and serves them: what
// server/main/data_loop.h is to a real one.
//
// Lifetime: Close() before destruction, however Open() ended and whether the
//           process lives or not; it waits for an Open() under way.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "io/rpc/server.h"
#include "server/target/chunk_store.h"
#include "server/target/target_service.h"
#include "tests/sim/sim_env.h"

namespace cairn::sim {

struct SimTarget {
  server::TargetIdentity identity;
  std::string directory;
};

class TargetProcess {
 public:
  // `port` 0: any free one.
  TargetProcess(SimEnv* env, std::vector<SimTarget> targets, uint16_t port);

  // Opens the stores and serves them.
  io::Task<absl::Status> Open();
  io::Task<void> Close();

  SimEnv* env() const { return env_; }
  const std::string& address() const { return address_; }
  const std::vector<SimTarget>& targets() const { return targets_; }
  // The highest metadata sequence that any of its targets has seen.
  uint64_t meta_sequence() const;
  // Null before Open() has got that far.
  server::ChunkStore* store(format::TargetId target);

 private:
  io::Task<absl::Status> OpenStores();
  io::Task<absl::Status> Serve();

  SimEnv* const env_;
  const std::vector<SimTarget> targets_;
  const uint16_t port_;
  io::Gate opening_;
  std::vector<std::unique_ptr<server::ChunkStore>> stores_;
  std::unique_ptr<server::TargetService> service_;
  std::unique_ptr<io::RpcServer> server_;
  std::string address_;
};

}  // namespace cairn::sim
