#include "tests/sim/campaign/client_pool.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace cairn::sim {

using io::Task;

namespace {
constexpr io::TimeNs kRetryPause = 200 * io::kMillisecond;
}  // namespace

Task<SimClient*> ClientPool::Take(std::string name) {
  while (!context_->stopping) {
    SimClient* const client =
        context_->cluster->AddClient(absl::StrCat(name, "#", ++made_));
    taken_.push_back(client);
    const io::TimeNs started = context_->now();
    const absl::Status status = co_await client->Start();
    if (status.ok() && client->alive()) co_return client;
    if (client->alive()) {
      JudgeError(*context_, started, status, name + ": connect");
    }
    co_await GiveBack(client);
    co_await io::SleepFor(context_->world(), kRetryPause);
  }
  co_return nullptr;
}

Task<void> ClientPool::GiveBack(SimClient* client) {
  std::erase(taken_, client);
  if (client->alive()) co_await context_->cluster->StopClient(client);
}

void ClientPool::Kill(SimClient* client) {
  if (std::erase(taken_, client) == 0) return;
  context_->cluster->KillClient(client);
}

SimClient* ClientPool::KillOne(uint64_t victim) {
  if (taken_.empty()) return nullptr;
  SimClient* const client = taken_[victim % taken_.size()];
  Kill(client);
  return client;
}

Task<void> ClientPool::AwaitFenced(uint64_t session) {
  if (session == 0) co_return;
  while (true) {
    MetaProcess* const meta = context_->cluster->meta();
    if (meta != nullptr && meta->service() != nullptr &&
        !meta->service()->sessions().IsLive(format::SessionId(session))) {
      co_return;
    }
    co_await io::SleepFor(context_->world(), kRetryPause);
  }
}

}  // namespace cairn::sim
