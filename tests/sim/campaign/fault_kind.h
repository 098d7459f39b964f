// The kinds of faults a campaign can fire, and how often each has been fired.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "io/executor.h"

namespace cairn::sim {

enum class FaultKind : uint8_t {
  // Processes and machines.
  kKillTarget,   // As kill -9; restarted later.
  kCrashTarget,  // The node loses power.
  kKillMeta,
  kCrashMeta,
  kPowerCut,   // All servers at one instant.
  kCrashLoop,  // A server dies again while it starts, several times.
  kKillClient,
  kRankDeath,  // A rank of a save dies by plan of its workload.
  // Network.
  kPartition,   // Two nodes, both ways.
  kCutOneWay,   // Two nodes, one way.
  kIsolate,     // One node from all others.
  kReset,       // All connections of two nodes, at once.
  kResetStorm,  // One in so many segments, for a while.
  // Disks.
  kReadError,
  kWriteError,
  kSyncError,
  kDiskFull,
  kRot,  // Flipped bits in stored payload.
  // The metadata engine.
  kCommitUnknown,  // kUnavailable, and done or not.
  kCommitConflict,
  kCount,
};
inline constexpr size_t kFaultKinds = static_cast<size_t>(FaultKind::kCount);

enum class FaultClass : uint8_t { kCrash, kNetwork, kDisk, kEngine };

std::string_view FaultName(FaultKind kind);
FaultClass ClassOf(FaultKind kind);

// What was fired so far, and how long ago the world was last out of order.
class FaultLog {
 public:
  explicit FaultLog(io::Executor* executor) : executor_(executor) {}

  void Count(FaultKind kind) {
    ++counts_[static_cast<size_t>(kind)];
    last_ = executor_->NowNs();
  }
  // Something is broken until End().
  void Begin() { ++active_; }
  void End();
  // Everything is in order: what fails from now on has no excuse.
  void Settle();
  // Nothing has been broken from `since` until now.
  bool QuietSince(io::TimeNs since) const {
    return active_ == 0 && (last_ == 0 || last_ < since);
  }

  uint64_t count(FaultKind kind) const {
    return counts_[static_cast<size_t>(kind)];
  }
  uint64_t total() const;
  bool Fired(FaultClass kinds) const;
  std::string ToString() const;  // "kill-target 3, rot 1".

 private:
  io::Executor* const executor_;
  std::array<uint64_t, kFaultKinds> counts_{};
  uint64_t active_ = 0;
  io::TimeNs last_ = 0;
};

}  // namespace cairn::sim
