// A simulated client process: a client::Core on a node of its own.
//
// What may be in flight when the client is killed must be started with Spawn(),
// so that the Core is not taken away from under it. It unwinds as on any error:
// calls to servers end by their deadline (ClusterOptions::client_timeout_ms).
#pragma once

#include <memory>
#include <string>

#include "client/core/core.h"
#include "tests/sim/sim_env.h"

namespace cairn::sim {

class SimClient {
 public:
  SimClient(SimEnv* env, client::Options options);

  io::Task<absl::Status> Start();
  void Spawn(io::Task<void> task) { gate_.Spawn(std::move(task)); }
  // Waits for what was spawned, then ends the Core; once (later calls return).
  io::Task<void> Close();

  client::Core* core() { return core_.get(); }  // Null once closed.
  SimEnv* env() const { return env_; }
  bool alive() const { return env_->alive() && !closing_; }

 private:
  SimEnv* const env_;
  io::Gate gate_;
  std::unique_ptr<client::Core> core_;
  bool started_ = false;
  bool closing_ = false;
};

}  // namespace cairn::sim
