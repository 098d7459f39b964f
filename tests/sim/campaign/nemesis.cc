#include "tests/sim/campaign/nemesis.h"

#include <utility>

#include "tests/sim/campaign/client_pool.h"

namespace cairn::sim {

using io::Task;

Nemesis::Nemesis(Context* context, Random random)
    : context_(context), random_(random), gate_(context->world()) {}

void Nemesis::Start() { gate_.Spawn(Loop()); }

Task<void> Nemesis::Stop() {
  stopping_.Cancel();
  co_await gate_.Close();
}

Task<void> Nemesis::Loop() {
  const FaultLoad& load = context_->tunables->faults;
  if (load.pause_max == 0) co_return;
  while (!stopping_.cancelled()) {
    const io::TimeNs pause = DrawTime(load.pause_max);
    co_await io::SleepFor(context_->world(), pause, &stopping_);
    if (stopping_.cancelled()) co_return;
    // This loop is one of those in flight.
    if (gate_.in_flight() <= load.at_once) Fire(Draw());
  }
}

// Of all kinds that are on, or of a class that has not been fired yet, so that
// short campaigns see something of each.
std::array<uint32_t, kAttacks> Nemesis::Weights() {
  std::array<uint32_t, kAttacks> weights = context_->tunables->faults.weights;
  const AttackClass kFirst[] = {AttackClass::kCrash, AttackClass::kNetwork,
                                AttackClass::kDisk};
  const AttackClass wanted = kFirst[random_.Below(std::size(kFirst))];
  if (context_->faults->Fired(wanted)) return weights;
  std::array<uint32_t, kAttacks> of_class{};
  bool any = false;
  for (size_t i = 0; i < kAttacks; ++i) {
    if (ClassOf(static_cast<Attack>(i)) != wanted) continue;
    of_class[i] = weights[i];
    any |= weights[i] > 0;
  }
  return any ? of_class : weights;
}

// kCount: all weights are 0.
Attack Nemesis::Draw() {
  const std::array<uint32_t, kAttacks> weights = Weights();
  uint64_t sum = 0;
  for (const uint32_t weight : weights) sum += weight;
  if (sum == 0) return Attack::kCount;
  uint64_t at = random_.Below(sum);
  size_t kind = 0;
  while (at >= weights[kind]) at -= weights[kind++];
  return static_cast<Attack>(kind);
}

void Nemesis::Fire(Attack kind) {
  if (kind == Attack::kCount || kind == Attack::kRankDeath) return;
  if (kind == Attack::kPowerCut) return FirePowerCut();
  if (kind == Attack::kLoseTarget) return FireLoss();
  if (kind == Attack::kKillClient) {
    if (context_->clients->KillOne(random_.Next()) == nullptr) return;
    return context_->faults->Count(kind);
  }
  switch (ClassOf(kind)) {
    case AttackClass::kCrash:
      return FireServer(kind);
    case AttackClass::kTime:
      return FireTime(kind);
    case AttackClass::kNetwork:
      return FireNetwork(kind);
    case AttackClass::kDisk:
      return FireDisk(kind);
    case AttackClass::kDamage:
      return FireDamage(kind);
    case AttackClass::kEngine:
      return FireEngine(kind);
  }
}

Task<void> Nemesis::Later(std::function<void()> undo) {
  const io::TimeNs down = DownTime();
  co_await io::SleepFor(context_->world(), down, &stopping_);
  undo();
}

void Nemesis::Spawn(Attack kind, Task<void> task) {
  context_->faults->Count(kind);
  gate_.Spawn(Track(std::move(task)));
}

Task<void> Nemesis::Track(Task<void> task) {
  context_->faults->Begin();
  co_await std::move(task);
  context_->faults->End();
}

Task<void> Nemesis::HealAll() {
  SimCluster* const cluster = context_->cluster;
  const ClusterOptions& options = cluster->options();
  Network* const network = cluster->world()->network();
  network->HealAll();
  network->ClearFaults();
  network->set_fault_rates(NetworkFaultRates());
  network->set_reset_one_in(options.world.network.reset_one_in);
  for (uint32_t t = 1; t <= options.targets; ++t) {
    DiskOf(t)->ClearFaults();
    DiskOf(t)->set_fault_rates(DiskFaultRates());
    DiskOf(t)->set_capacity_bytes(options.world.disk.capacity_bytes);
    cluster->world()->UnhangDisk(cluster->TargetNode(t));
  }
  // One whose disk failed takes no writes until it is started again.
  for (uint32_t t = 1; t <= options.targets; ++t) {
    const server::ChunkStore* const store = cluster->store(t);
    if (store != nullptr && !store->stats().failed.empty()) {
      cluster->KillTarget(t);
    }
  }
  for (uint32_t t = 1; t <= options.targets; ++t) {
    if (!cluster->TargetRuns(t)) co_await StartUntilUp(t);
  }
  if (!cluster->MetaRuns()) co_await StartUntilUp(kMeta);
  if (options.join) co_await AwaitJoined();
  // A flush that lied may have taken a slab with it: what is left is served,
  // and nothing written any more.
  for (uint32_t t = 1; t <= context_->tunables->faults.damaged_targets; ++t) {
    const server::ChunkStore* const store = cluster->store(t);
    if (context_->faults->count(Attack::kLyingSync) > 0 && store != nullptr &&
        !store->stats().failed.empty()) {
      context_->ruined.insert(t);
    }
  }
}

}  // namespace cairn::sim
