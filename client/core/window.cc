#include "client/core/window.h"

#include <algorithm>

#include "format/base/fault_points.h"

namespace cairn::client {

namespace {
// Answers slower than this times the best one mean a queue.
constexpr uint64_t kQueueFactor = 4;
}  // namespace

AdaptiveWindow::AdaptiveWindow(io::Executor* executor, uint64_t floor_bytes,
                               uint64_t max_bytes)
    : floor_(std::min(floor_bytes, max_bytes)),
      max_(max_bytes),
      limit_(floor_),
      turn_(executor, 1),
      room_(executor) {}

io::Task<bool> AdaptiveWindow::Acquire(uint64_t bytes, io::TimeNs deadline) {
  if (!turn_.TryAcquire()) {
    const io::WaitResult turn = co_await turn_.Acquire(1, deadline);
    if (turn != io::WaitResult::kWoken) co_return false;
  }
  io::WaitResult woke = io::WaitResult::kWoken;
  const bool alone = CAIRN_FAULT_POINT("client.window.one_at_a_time");
  while (woke == io::WaitResult::kWoken &&
         (alone ? in_flight_ > 0 : !Fits(bytes))) {
    CAIRN_SOMETIMES(!alone, "client.window.waited");
    woke = co_await room_.Wait(deadline);
  }
  if (woke == io::WaitResult::kWoken) in_flight_ += bytes;
  turn_.Release();
  co_return woke == io::WaitResult::kWoken;
}

void AdaptiveWindow::Release(uint64_t bytes, io::TimeNs took_ns) {
  CAIRN_CHECK(bytes <= in_flight_);
  in_flight_ -= bytes;
  if (took_ns > 0) Learn(bytes, took_ns);
  room_.WakeOne();
}

void AdaptiveWindow::Learn(uint64_t bytes, io::TimeNs took_ns) {
  // The best drifts up by 1/64 an answer, so that an old record is forgotten.
  best_ns_ =
      best_ns_ == 0 ? took_ns : std::min(took_ns, best_ns_ + best_ns_ / 64 + 1);
  since_shrink_bytes_ += bytes;
  if (took_ns <= kQueueFactor * best_ns_) {
    limit_ = std::min(max_, limit_ + bytes / 2);
  } else if (since_shrink_bytes_ >= limit_) {
    since_shrink_bytes_ = 0;
    limit_ = std::max(floor_, limit_ - limit_ / 8);
  }
}

}  // namespace cairn::client
