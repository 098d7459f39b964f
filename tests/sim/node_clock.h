// The clocks of one simulated machine, as functions of the World's time.
//
// Monotonic: runs faster or slower than the World by some parts per million;
//            never jumps. Deadlines of the machine's processes are on it.
// Wall:      jumps as tests say; for display and mtimes only (io/env.h).
#pragma once

#include <algorithm>
#include <cstdint>

#include "format/base/status.h"
#include "io/executor.h"

namespace cairn::sim {

class NodeClock {
 public:
  // 2025-01-01T00:00:00Z.
  static constexpr io::TimeNs kWallBaseNs = 1'735'689'600 * io::kSecond;
  static constexpr int64_t kDriftPpmMax = 200'000;

  // From now on. Timers set before keep their moment in the World's time, and
  // so fire a little early or late.
  void SetDrift(io::TimeNs world_now, int64_t drift_ppm) {
    CAIRN_CHECK(drift_ppm >= -kDriftPpmMax && drift_ppm <= kDriftPpmMax);
    local_base_ = ToLocal(world_now);
    world_base_ = world_now;
    rate_ = static_cast<uint64_t>(static_cast<int64_t>(kMillion) + drift_ppm);
  }
  io::TimeNs ToLocal(io::TimeNs world) const {
    const uint64_t passed = world - world_base_;
    return local_base_ + passed / kMillion * rate_ +
           passed % kMillion * rate_ / kMillion;
  }
  // The first moment at which ToLocal() is at least `local`.
  io::TimeNs ToWorld(io::TimeNs local) const {
    if (local <= local_base_) return world_base_;
    const uint64_t passed = local - local_base_;
    if (passed > io::kNoDeadline / 4) return io::kNoDeadline;
    return world_base_ + passed / rate_ * kMillion +
           (passed % rate_ * kMillion + rate_ - 1) / rate_;
  }

  // Nanoseconds since 1970; not before.
  io::TimeNs Wall(io::TimeNs world) const {
    const int64_t wall = static_cast<int64_t>(kWallBaseNs + world) + offset_;
    return static_cast<io::TimeNs>(std::max<int64_t>(wall, 0));
  }
  void JumpWall(int64_t by_ns) { offset_ += by_ns; }
  void SetWall(io::TimeNs world_now, io::TimeNs wall) {
    offset_ = static_cast<int64_t>(wall - kWallBaseNs - world_now);
  }

 private:
  static constexpr uint64_t kMillion = 1'000'000;

  io::TimeNs world_base_ = 0;
  io::TimeNs local_base_ = 0;
  uint64_t rate_ = kMillion;  // Local nanoseconds in a million.
  int64_t offset_ = 0;
};

}  // namespace cairn::sim
