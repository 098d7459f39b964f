#include "client/core/window.h"

#include <algorithm>

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
      queue_(executor) {}

io::Task<bool> AdaptiveWindow::Acquire(uint64_t bytes, io::TimeNs deadline) {
  // The queue wakes one at a time, in order; whoever finds no room yet stays
  // at the head by not letting others pass (waiting_ > 0 sends them behind).
  bool first_try = true;
  while (!Fits(bytes) || (first_try && waiting_ > 0)) {
    first_try = false;
    ++waiting_;
    const io::WaitResult woke = co_await queue_.Wait(deadline);
    --waiting_;
    if (woke != io::WaitResult::kWoken) {
      queue_.WakeOne();
      co_return false;
    }
  }
  in_flight_ += bytes;
  if (in_flight_ < limit_) queue_.WakeOne();
  co_return true;
}

void AdaptiveWindow::Release(uint64_t bytes, io::TimeNs took_ns) {
  CAIRN_CHECK(bytes <= in_flight_);
  in_flight_ -= bytes;
  if (took_ns > 0) Learn(bytes, took_ns);
  queue_.WakeOne();
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
