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
    Fire(Draw());
  }
}

// kCount: all weights are 0.
FaultKind Nemesis::Draw() {
  const FaultLoad& load = context_->tunables->faults;
  uint64_t sum = 0;
  for (const uint32_t weight : load.weights) sum += weight;
  if (sum == 0) return FaultKind::kCount;
  uint64_t at = random_.Below(sum);
  size_t kind = 0;
  while (at >= load.weights[kind]) at -= load.weights[kind++];
  return static_cast<FaultKind>(kind);
}

void Nemesis::Fire(FaultKind kind) {
  switch (kind) {
    case FaultKind::kKillTarget:
    case FaultKind::kCrashTarget:
    case FaultKind::kKillMeta:
    case FaultKind::kCrashMeta:
    case FaultKind::kCrashLoop:
      return FireServer(kind);
    case FaultKind::kPowerCut:
      return FirePowerCut();
    case FaultKind::kKillClient:
      if (context_->clients->KillOne(random_.Next()) != nullptr) {
        context_->faults->Count(kind);
      }
      return;
    case FaultKind::kPartition:
    case FaultKind::kCutOneWay:
    case FaultKind::kIsolate:
    case FaultKind::kReset:
    case FaultKind::kResetStorm:
      return FireNetwork(kind);
    case FaultKind::kReadError:
    case FaultKind::kWriteError:
    case FaultKind::kSyncError:
    case FaultKind::kDiskFull:
    case FaultKind::kRot:
      return FireDisk(kind);
    case FaultKind::kCommitUnknown:
    case FaultKind::kCommitConflict:
      return FireEngine(kind);
    case FaultKind::kRankDeath:  // The workload's own.
    case FaultKind::kCount:
      return;
  }
}

void Nemesis::Spawn(FaultKind kind, Task<void> task) {
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
  network->set_reset_one_in(options.world.network.reset_one_in);
  for (uint32_t t = 1; t <= options.targets; ++t) {
    Disk* const disk = cluster->world()->disk(cluster->TargetNode(t));
    disk->ClearFaults();
    disk->set_capacity_bytes(options.world.disk.capacity_bytes);
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
}

}  // namespace cairn::sim
