// What the nemesis does to a cluster, and how often it did. (What the simulator
// makes of it, operation by operation, is counted in World::faults().)
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "io/executor.h"

namespace cairn::sim {

enum class Attack : uint8_t {
  // Processes and machines.
  kKillTarget,   // As kill -9; restarted later.
  kCrashTarget,  // The node loses power.
  kKillMeta,
  kCrashMeta,
  kPowerCut,   // All servers at one instant.
  kCrashLoop,  // A server dies again while it starts, several times.
  kKillClient,
  kRankDeath,  // A rank of a save dies by plan of its workload.
  // Time.
  kPauseServer,  // As SIGSTOP.
  kPauseClient,
  kWallClockJump,
  kClockDrift,
  // Network.
  kPartition,   // Two nodes, both ways.
  kCutOneWay,   // Two nodes, one way.
  kIsolate,     // One node from all others.
  kReset,       // All connections of two nodes, at once.
  kResetStorm,  // One in so many segments, for a while.
  kEarlyEnd,    // A stream ends at some byte.
  kSlowLink,
  kLatencySpikes,
  kCorruptSegments,
  kTinySegments,
  kRefuseConnects,
  // Disks.
  kReadError,
  kWriteError,
  kSyncError,
  kDiskErrors,  // All kinds, one in so many operations.
  kDiskFull,
  kSlowDisk,
  kHungDisk,
  // Damage, on targets that the scheme can do without.
  kRot,  // Flipped bits in stored payload.
  kLostWrite,
  kMisdirectedWrite,
  kWrongRead,  // Of another place, of an older time, of zeros.
  kLyingSync,
  // The metadata engine.
  kCommitUnknown,  // kUnavailable, and done or not.
  kCommitConflict,
  // A target that never comes back; what it held is made on others.
  kLoseTarget,
  kDrainTarget,  // An operator has it emptied, and may change his mind.
  kCount,
};
inline constexpr size_t kAttacks = static_cast<size_t>(Attack::kCount);

enum class AttackClass : uint8_t {
  kCrash,
  kTime,
  kNetwork,
  kDisk,
  kDamage,  // Of disks.
  kEngine,
};

std::string_view NameOf(Attack kind);
AttackClass ClassOf(Attack kind);

// What was fired so far, and how long ago the world was last out of order.
class AttackLog {
 public:
  explicit AttackLog(io::Executor* executor) : executor_(executor) {}

  void Count(Attack kind) {
    ++counts_[static_cast<size_t>(kind)];
    last_ = executor_->NowNs();
  }
  // Something else that may make operations fail: a fault point fired.
  void Disturb() { last_ = executor_->NowNs(); }
  // A target was full, or said so.
  void NoteFull() { full_ = true; }
  bool WasFull() const { return full_ || count(Attack::kDiskFull) > 0; }
  // Something is broken until End().
  void Begin() { ++active_; }
  void End();
  // Everything is in order: what fails from now on has no excuse.
  void Settle();
  // Nothing has been broken from `since` until now.
  bool QuietSince(io::TimeNs since) const {
    return active_ == 0 && (last_ == 0 || last_ < since);
  }

  uint64_t count(Attack kind) const {
    return counts_[static_cast<size_t>(kind)];
  }
  uint64_t total() const;
  bool Fired(AttackClass kinds) const;
  std::string ToString() const;  // "kill-target 3, rot 1".

 private:
  io::Executor* const executor_;
  std::array<uint64_t, kAttacks> counts_{};
  uint64_t active_ = 0;
  io::TimeNs last_ = 0;
  bool full_ = false;
};

}  // namespace cairn::sim
