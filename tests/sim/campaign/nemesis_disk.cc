// The nemesis's half for disks and the metadata engine.
#include "absl/strings/str_cat.h"
#include "tests/sim/campaign/nemesis.h"

namespace cairn::sim {

using io::Task;

namespace {
constexpr uint64_t kFlipsMax = 40;
constexpr uint64_t kSlowFactorMax = 1000;
}  // namespace

Disk* Nemesis::DiskOf(ServerId server) {
  return context_->world()->disk(context_->cluster->TargetNode(server));
}

void Nemesis::FireDisk(Attack kind) {
  const ServerId server = DrawServer(Attack::kKillTarget);
  World* const world = context_->world();
  const NodeId node = context_->cluster->TargetNode(server);
  if (kind == Attack::kSlowDisk) {
    world->SlowDisk(node, random_.Between(2, kSlowFactorMax));
    return Spawn(kind, Later([world, node] { world->SlowDisk(node, 1); }));
  }
  if (kind == Attack::kHungDisk) {
    world->HangDisk(node);
    return Spawn(kind, Later([world, node] { world->UnhangDisk(node); }));
  }
  if (busy_.contains(server) || !Up(server)) return;
  // What cannot be read is lost: only as much as the scheme can lose.
  const uint32_t victims = context_->tunables->faults.damaged_targets;
  if (kind == Attack::kReadError && server > victims) return;
  busy_.insert(server);
  if (kind == Attack::kDiskFull) return Spawn(kind, FillDisk(server));
  Spawn(kind, FailDisk(server, kind));
}

// After an error the store takes no writes: somebody has to restart it.
Task<void> Nemesis::FailDisk(ServerId server, Attack kind) {
  Disk* const disk = DiskOf(server);
  if (kind == Attack::kDiskErrors) {
    DiskFaultRates rates;
    rates.write_error = random_.Between(10, 500);
    rates.sync_error = random_.Between(10, 500);
    rates.name_error = random_.Between(5, 100);
    disk->set_fault_rates(rates);
  } else {
    DiskFault fault;
    fault.op = kind == Attack::kReadError    ? DiskOp::kRead
               : kind == Attack::kWriteError ? DiskOp::kWrite
               : random_.OneIn(2)            ? DiskOp::kSync
                                             : DiskOp::kDurable;
    fault.nth = random_.Between(1, 5);
    fault.times = random_.Between(1, 3);
    if (kind == Attack::kReadError) {
      fault.path_contains = context_->cluster->TargetDirectory(server);
    }
    disk->Fail(fault);
  }
  const io::TimeNs down = DownTime();
  co_await io::SleepFor(context_->world(), down, &stopping_);
  disk->ClearFaults();
  disk->set_fault_rates(DiskFaultRates());
  if (kind != Attack::kReadError || random_.OneIn(2)) {
    co_await RestartAfterTrouble(server);
  }
  busy_.erase(server);
}

Task<void> Nemesis::FillDisk(ServerId server) {
  const ClusterOptions& options = context_->cluster->options();
  Disk* const disk = DiskOf(server);
  disk->set_capacity_bytes(disk->used_bytes() + random_.Below(64 * 1024));
  const io::TimeNs down = DownTime();
  co_await io::SleepFor(context_->world(), down, &stopping_);
  disk->set_capacity_bytes(options.world.disk.capacity_bytes);
  co_await RestartAfterTrouble(server);
  busy_.erase(server);
}

Task<void> Nemesis::RestartAfterTrouble(ServerId server) {
  // What a failed flush forgot may be in the cache still.
  if (random_.OneIn(3)) DiskOf(server)->DropCache();
  random_.OneIn(2) ? Crash(server) : Kill(server);
  const io::TimeNs pause = DownTime() / 4;
  co_await io::SleepFor(context_->world(), pause, &stopping_);
  co_await StartUntilUp(server);
}

void Nemesis::FireDamage(Attack kind) {
  const uint32_t victims = context_->tunables->faults.damaged_targets;
  if (victims == 0) return;
  const uint32_t target = 1 + static_cast<uint32_t>(random_.Below(victims));
  Disk* const disk = DiskOf(target);
  const std::string directory = context_->cluster->TargetDirectory(target);
  const std::string slabs = directory + "/slab-";
  if (kind == Attack::kRot) {
    if (disk->Rot(slabs, random_.Between(1, kFlipsMax)).empty()) return;
    return context_->faults->Count(kind);
  }
  DiskFault fault;
  fault.nth = random_.Between(1, 5);
  fault.times = random_.Between(1, 4);
  fault.path_contains = slabs;
  if (kind == Attack::kLostWrite || kind == Attack::kMisdirectedWrite) {
    fault.op = DiskOp::kWrite;
    fault.effect = kind == Attack::kLostWrite ? DiskEffect::kLost
                                              : DiskEffect::kMisdirected;
  } else if (kind == Attack::kWrongRead) {
    fault.op = DiskOp::kRead;
    constexpr DiskEffect kEffects[] = {DiskEffect::kMisdirected,
                                       DiskEffect::kStale, DiskEffect::kZeroed};
    fault.effect = kEffects[random_.Below(std::size(kEffects))];
  } else {
    // The index only where its loss is that of one target.
    const bool alone = context_->cluster->options().targets_per_node == 1;
    if (alone && random_.OneIn(3)) fault.path_contains = directory;
    fault.op = random_.OneIn(2) ? DiskOp::kSync : DiskOp::kDurable;
    fault.effect = DiskEffect::kLie;
  }
  disk->Fail(fault);
  context_->faults->Count(kind);
}

void Nemesis::FireEngine(Attack kind) {
  MetaProcess* const meta = context_->cluster->meta();
  if (meta == nullptr || meta->kv() == nullptr) return;
  server::ModelKv* const kv = meta->kv();
  const uint64_t at = kv->commits() + random_.Between(1, 10);
  server::ModelKvFault fault = server::ModelKvFault::kAbort;
  if (kind == Attack::kCommitUnknown) {
    fault = random_.OneIn(2) ? server::ModelKvFault::kUnknownLost
                             : server::ModelKvFault::kUnknownApplied;
  }
  kv->InjectFault(at, fault);
  context_->faults->Count(kind);
}

}  // namespace cairn::sim
