// A StallWatch breaks a stream on which one operation takes too long; an
// IdleWatch one on which nothing happens for too long.
//
// Each keeps at most one timer in the loop's queue and re-arms it lazily, so
// that watching costs a look at the clock.
//
// Threads:  belong to one loop.
// Lifetime: the stream outlives them.
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

class IdleWatch final : public Timer {
 public:
  IdleWatch(Executor* executor, Stream* stream, TimeNs timeout)
      : executor_(executor), stream_(stream), timeout_(timeout) {}
  IdleWatch(const IdleWatch&) = delete;
  IdleWatch& operator=(const IdleWatch&) = delete;
  ~IdleWatch();

  // Between the two the stream is not idle; they nest, and the time starts
  // again with each.
  void BeginWork();
  void EndWork();

 private:
  void Fire() override;
  void Arm();

  Executor* const executor_;
  Stream* const stream_;
  const TimeNs timeout_;
  TimeNs idle_since_ = 0;
  uint64_t work_ = 0;
  bool armed_ = false;
};

}  // namespace cairn::io::internal
