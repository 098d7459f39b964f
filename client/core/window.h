// AdaptiveWindow: how many bytes may be in flight at once.
//
// Grows while answers come quickly and shrinks when they take several times as
// long as the best seen lately: more in flight would then only queue. Always
// lets one request through, whatever its size; first come, first served.
//
// Threads: one loop.
#pragma once

#include <cstdint>

#include "io/wait.h"

namespace cairn::client {

class AdaptiveWindow {
 public:
  // Between `floor_bytes` and `max_bytes`; starts at the floor.
  AdaptiveWindow(io::Executor* executor, uint64_t floor_bytes,
                 uint64_t max_bytes);

  // False: the deadline passed first. Otherwise Release() what was acquired.
  io::Task<bool> Acquire(uint64_t bytes, io::TimeNs deadline);
  // `took_ns`: from the start of the request to its answer; 0: it failed, and
  // teaches nothing.
  void Release(uint64_t bytes, io::TimeNs took_ns);

  uint64_t limit_bytes() const { return limit_; }
  uint64_t in_flight_bytes() const { return in_flight_; }

 private:
  bool Fits(uint64_t bytes) const {
    return in_flight_ == 0 || in_flight_ + bytes <= limit_;
  }
  void Learn(uint64_t bytes, io::TimeNs took_ns);

  const uint64_t floor_;
  const uint64_t max_;
  uint64_t limit_;
  uint64_t in_flight_ = 0;
  io::TimeNs best_ns_ = 0;           // Quickest answer lately; drifts upwards.
  uint64_t since_shrink_bytes_ = 0;  // At most one shrink a window.
  io::Semaphore turn_;               // Held by the head of the line, ...
  io::WaitQueue room_;               // ... the only one that waits here.
};

}  // namespace cairn::client
