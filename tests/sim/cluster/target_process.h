// A simulated process that owns some targets and serves them: what
// server/main/data_loop.h is to a real one.
//
// Lifetime: Close() before destruction, however Open() ended and whether the
//           process lives or not; it waits for an Open() under way.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "io/rpc/server.h"
#include "server/cluster/joiner.h"
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
  // `port` 0: any free one. With `join` the targets join the metadata service
  // (its address is filled in), and are served when that lets them in; else
  // they are served at once.
  TargetProcess(SimEnv* env, std::vector<SimTarget> targets, uint16_t port,
                std::optional<server::JoinerOptions> join = std::nullopt,
                server::ScrubOptions scrub = {});

  // Opens the stores and serves them, or starts to join.
  io::Task<absl::Status> Open();
  io::Task<void> Close();

  SimEnv* env() const { return env_; }
  const std::string& address() const { return address_; }
  const std::vector<SimTarget>& targets() const { return targets_; }
  // Null if it does not join, or before Open() has got that far.
  server::Joiner* joiner() { return joiner_.get(); }
  // The highest metadata sequence that any of its targets has seen.
  uint64_t meta_sequence() const;
  // Null before Open() has got that far.
  server::ChunkStore* store(format::TargetId target);

 private:
  io::Task<absl::Status> OpenStores();
  io::Task<absl::Status> Serve();
  void StartJoin();

  SimEnv* const env_;
  const std::vector<SimTarget> targets_;
  const uint16_t port_;
  const std::optional<server::JoinerOptions> join_;
  const server::ScrubOptions scrub_;
  io::Gate opening_;
  std::vector<std::unique_ptr<server::ChunkStore>> stores_;
  std::unique_ptr<server::TargetService> service_;
  std::unique_ptr<io::RpcServer> server_;
  std::unique_ptr<server::Joiner> joiner_;
  std::string address_;
};

}  // namespace cairn::sim
