// The nemesis's half for disks and the metadata engine.
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/sim/campaign/nemesis.h"

namespace cairn::sim {

using io::Task;

namespace {
constexpr uint64_t kFlipsMax = 40;
}  // namespace

void Nemesis::FireDisk(FaultKind kind) {
  if (kind == FaultKind::kRot) return FireRot();
  const ServerId server = DrawServer(FaultKind::kKillTarget);
  if (busy_.contains(server) || !Up(server)) return;
  busy_.insert(server);
  if (kind == FaultKind::kDiskFull) return Spawn(kind, FillDisk(server));
  Spawn(kind, FailDisk(server, kind));
}

// After an error the store takes no writes: somebody has to restart it.
Task<void> Nemesis::FailDisk(ServerId server, FaultKind kind) {
  DiskFault fault;
  fault.op = kind == FaultKind::kReadError    ? DiskOp::kRead
             : kind == FaultKind::kWriteError ? DiskOp::kWrite
                                              : DiskOp::kSync;
  fault.nth = random_.Between(1, 5);
  fault.times = random_.Between(1, 3);
  Disk* const disk =
      context_->world()->disk(context_->cluster->TargetNode(server));
  disk->Fail(fault);
  const io::TimeNs down = DownTime();
  co_await io::SleepFor(context_->world(), down, &stopping_);
  disk->ClearFaults();
  if (kind != FaultKind::kReadError || random_.OneIn(2)) {
    random_.OneIn(2) ? Crash(server) : Kill(server);
    const io::TimeNs pause = DownTime() / 4;
    co_await io::SleepFor(context_->world(), pause, &stopping_);
    co_await StartUntilUp(server);
  }
  busy_.erase(server);
}

Task<void> Nemesis::FillDisk(ServerId server) {
  const ClusterOptions& options = context_->cluster->options();
  Disk* const disk =
      context_->world()->disk(context_->cluster->TargetNode(server));
  disk->set_capacity_bytes(disk->used_bytes() + random_.Below(64 * 1024));
  const io::TimeNs down = DownTime();
  co_await io::SleepFor(context_->world(), down, &stopping_);
  disk->set_capacity_bytes(options.world.disk.capacity_bytes);
  random_.OneIn(2) ? Crash(server) : Kill(server);
  co_await StartUntilUp(server);
  busy_.erase(server);
}

// Bits of stored payload, on targets that the scheme can do without.
void Nemesis::FireRot() {
  const uint32_t victims = context_->tunables->faults.damaged_targets;
  if (victims == 0) return;
  const uint32_t target = 1 + static_cast<uint32_t>(random_.Below(victims));
  SimCluster* const cluster = context_->cluster;
  Disk* const disk = cluster->world()->disk(cluster->TargetNode(target));
  const std::string directory = cluster->TargetDirectory(target);
  const absl::StatusOr<std::vector<std::string>> names = disk->List(directory);
  if (!names.ok()) return;
  uint64_t flips = random_.Between(1, kFlipsMax);
  bool flipped = false;
  for (const std::string& name : *names) {
    if (!absl::StartsWith(name, "slab-")) continue;
    const std::string path = absl::StrCat(directory, "/", name);
    const auto info = disk->Stat(path);
    if (!info.ok() || !info->has_value() || (*info)->size_bytes == 0) continue;
    // Where chunks lie: space is given out from the start.
    const uint64_t reach =
        std::min<uint64_t>((*info)->size_bytes, 4 * format::kMiB);
    for (; flips > 0; --flips) {
      const uint8_t mask = static_cast<uint8_t>(1u << random_.Below(8));
      flipped |= disk->CorruptFile(path, random_.Below(reach), mask).ok();
    }
  }
  if (flipped) context_->faults->Count(FaultKind::kRot);
}

void Nemesis::FireEngine(FaultKind kind) {
  MetaProcess* const meta = context_->cluster->meta();
  if (meta == nullptr || meta->kv() == nullptr) return;
  server::ModelKv* const kv = meta->kv();
  const uint64_t at = kv->commits() + random_.Between(1, 10);
  server::ModelKvFault fault = server::ModelKvFault::kAbort;
  if (kind == FaultKind::kCommitUnknown) {
    fault = random_.OneIn(2) ? server::ModelKvFault::kUnknownLost
                             : server::ModelKvFault::kUnknownApplied;
  }
  kv->InjectFault(at, fault);
  context_->faults->Count(kind);
}

}  // namespace cairn::sim
