// FairQueue: who may use a target's disk next.
//
// At most `in_flight_max` turns at a time. When more want one, the traffic
// classes share by weight (start-time fair queueing): a class that always waits
// gets weight/(sum of the waiting classes' weights) of the cost served, none
// starves, and one that was idle brings no credit along. Within a class: first
// come, first served.
//
// Threads:  one loop.
// Lifetime: every Turn is gone and nobody waits before destruction (checked).
#pragma once

#include <array>
#include <cstdint>
#include <list>
#include <utility>

#include "absl/status/statusor.h"
#include "format/wire/frame.h"
#include "io/executor.h"
#include "io/task.h"
#include "io/wait.h"

namespace cairn::server {

struct FairQueueOptions {
  uint32_t in_flight_max = 1;
  uint32_t waiting_max = 1;
  std::array<uint32_t, format::kTrafficClasses> weights{};  // At least 1 each.
};

class FairQueue {
 public:
  FairQueue(io::Executor* executor, FairQueueOptions options);
  FairQueue(const FairQueue&) = delete;
  FairQueue& operator=(const FairQueue&) = delete;
  ~FairQueue();

  // The right to use the disk; ends with its destruction.
  class Turn {
   public:
    Turn(Turn&& other) noexcept
        : queue_(std::exchange(other.queue_, {})), place_(other.place_) {}
    Turn& operator=(Turn&&) = delete;
    ~Turn() {
      if (queue_) queue_->Leave(place_);
    }

   private:
    friend class FairQueue;
    explicit Turn(FairQueue* queue)
        : queue_(queue),
          place_(queue->started_.insert(queue->started_.end(),
                                        queue->executor_->NowNs())) {}
    FairQueue* queue_;
    std::list<io::TimeNs>::iterator place_;
  };

  // Waits for a turn of `cost` (bytes moved, and what else it costs).
  // kDeadlineExceeded: no turn came in time.
  // kUnavailable: `waiting_max` wait already.
  io::Task<absl::StatusOr<Turn>> Enter(format::TrafficClass traffic_class,
                                       uint64_t cost, io::TimeNs deadline);

  uint32_t in_flight() const { return in_flight_; }
  // When the oldest turn began that has not ended; kNoDeadline: there is none.
  io::TimeNs oldest_turn_ns() const {
    return started_.empty() ? io::kNoDeadline : started_.front();
  }
  uint32_t waiting() const { return waiting_; }

 private:
  struct Waiting {
    Waiting(io::Executor* executor, uint64_t tag)
        : wake(executor), start(tag) {}
    io::WaitQueue wake;
    uint64_t start;  // Virtual time at which its service may begin.
  };
  struct Class {
    std::list<Waiting*> line;
    uint64_t finish = 0;  // Virtual time at which all asked for is served.
  };
  // Charges the class; the virtual start of this request.
  uint64_t Charge(uint32_t class_index, uint64_t cost);
  void Leave(std::list<io::TimeNs>::iterator place);
  void Grant();

  io::Executor* const executor_;
  const FairQueueOptions options_;
  std::array<Class, format::kTrafficClasses> classes_;
  std::list<io::TimeNs> started_;  // Of the turns in flight, oldest first.
  uint64_t now_ = 0;               // Virtual: the start of the newest turn.
  uint32_t in_flight_ = 0;
  uint32_t waiting_ = 0;
};

}  // namespace cairn::server
