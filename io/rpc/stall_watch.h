// A StallWatch breaks a stream on which one operation takes too long.
//
// It keeps at most one timer in the loop's queue and re-arms it lazily, so that
// watching an operation costs a look at the clock.
//
// Threads:  belongs to one loop.
// Lifetime: the stream outlives it.
#pragma once

#include "io/env.h"

namespace cairn::io::internal {

class StallWatch final : public Timer {
 public:
  StallWatch(Executor* executor, Stream* stream, TimeNs timeout)
      : executor_(executor), stream_(stream), timeout_(timeout) {}
  StallWatch(const StallWatch&) = delete;
  StallWatch& operator=(const StallWatch&) = delete;
  ~StallWatch();

  // Around each operation; they do not nest.
  void Begin();
  void End();
  bool stalled() const { return stalled_; }  // It broke the stream.

 private:
  void Fire() override;

  Executor* const executor_;
  Stream* const stream_;
  const TimeNs timeout_;
  TimeNs begun_at_ = 0;
  bool busy_ = false;
  bool armed_ = false;
  bool stalled_ = false;
};

}  // namespace cairn::io::internal
