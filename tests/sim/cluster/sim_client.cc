#include "tests/sim/cluster/sim_client.h"

#include <utility>

namespace cairn::sim {

SimClient::SimClient(SimEnv* env, client::Options options)
    : env_(env),
      gate_(env),
      core_(std::make_unique<client::Core>(env, std::move(options))) {}

io::Task<absl::Status> SimClient::Start() {
  const io::Gate::Hold hold = gate_.Enter();
  absl::Status status = co_await core_->Start();
  started_ = status.ok();  // Otherwise it has stopped by itself.
  co_return status;
}

io::Task<void> SimClient::Close() {
  if (std::exchange(closing_, true)) co_return;
  co_await gate_.Close();
  if (started_) co_await core_->Stop();
  core_.reset();
}

}  // namespace cairn::sim
