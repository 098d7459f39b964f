// Nemesis: draws faults of the enabled kinds over virtual time, fires them,
// counts them, and in the end puts everything in order again.
//
// Each fault is a task of its own that also undoes it, so that several overlap.
// A server process has one fault of the kind that takes it down at a time.
//
// Lifetime: Stop() before destruction; the context outlives it.
#pragma once

#include <array>
#include <functional>
#include <set>
#include <string>

#include "tests/sim/campaign/context.h"

namespace cairn::sim {

class Nemesis {
 public:
  Nemesis(Context* context, Random random);

  // Fires faults until Stop().
  void Start();
  // No new ones; waits until those in progress are undone.
  io::Task<void> Stop();
  // After Stop(): network, disks and servers in order, everything runs.
  io::Task<void> HealAll();

 private:
  // 0 is the metadata service, others are targets: the first of their process.
  using ServerId = uint32_t;
  static constexpr ServerId kMeta = 0;

  io::Task<void> Loop();
  std::array<uint32_t, kAttacks> Weights();
  Attack Draw();
  void Fire(Attack kind);
  // Spawns `task` with the world out of order while it runs.
  void Spawn(Attack kind, io::Task<void> task);
  io::Task<void> Track(io::Task<void> task);

  // --- nemesis_crash.cc: processes and machines.
  bool Up(ServerId server) const;
  ServerId DrawServer(Attack kind);
  void Kill(ServerId server);
  void Crash(ServerId server);
  void FireServer(Attack kind);
  void FirePowerCut();
  void FireLoss();
  io::Task<void> Revive(ServerId server);
  io::Task<void> CrashLoop(ServerId server, uint64_t times);
  io::Task<absl::Status> StartServer(ServerId server);
  io::Task<void> StartUntilUp(ServerId server);
  io::Task<void> AwaitJoined();
  void JudgeStart(ServerId server, const absl::Status& status);
  std::string NameOf(ServerId server) const;

  // --- nemesis_network.cc.
  NodeId DrawServerNode();
  NodeId DrawAnyNode();
  void FireNetwork(Attack kind);
  void FireLink(Attack kind);
  void FireRates(Attack kind);
  void Cut(NodeId a, NodeId b, bool both);

  // --- nemesis_time.cc.
  void FireTime(Attack kind);
  void FirePause(Attack kind);
  io::Task<void> ResumeAfter(SimEnv* process, io::TimeNs time);

  // --- nemesis_disk.cc: disks and the metadata engine.
  void FireDisk(Attack kind);
  void FireDamage(Attack kind);
  void FireEngine(Attack kind);
  io::Task<void> FailDisk(ServerId server, Attack kind);
  io::Task<void> FillDisk(ServerId server);
  io::Task<void> RestartAfterTrouble(ServerId server);
  Disk* DiskOf(ServerId server);

  // Waits for a drawn time, then calls `undo`.
  io::Task<void> Later(std::function<void()> undo);

  io::TimeNs DrawTime(io::TimeNs max) { return 1 + random_.Below(max); }
  io::TimeNs DownTime() {
    return DrawTime(context_->tunables->faults.down_max);
  }

  Context* const context_;
  Random random_;
  io::Gate gate_;
  io::CancelToken stopping_;
  std::set<ServerId> busy_;  // Servers that are down, or about to be.
  NetworkFaultRates rates_;
};

}  // namespace cairn::sim
