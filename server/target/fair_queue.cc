#include "server/target/fair_queue.h"

#include <algorithm>

#include "format/base/fault_points.h"
#include "format/base/status.h"

namespace cairn::server {
namespace {

// Virtual time is cost * kScale / weight: fine enough for any weight.
constexpr uint64_t kScale = 256;

}  // namespace

FairQueue::FairQueue(io::Executor* executor, FairQueueOptions options)
    : executor_(executor), options_(options) {
  CAIRN_CHECK(options_.in_flight_max > 0);
  for (uint32_t weight : options_.weights) {
    CAIRN_CHECK(weight > 0 && weight <= kScale);
  }
}

FairQueue::~FairQueue() { CAIRN_CHECK(in_flight_ == 0 && waiting_ == 0); }

io::Task<absl::StatusOr<FairQueue::Turn>> FairQueue::Enter(
    format::TrafficClass traffic_class, uint64_t cost, io::TimeNs deadline) {
  const auto index = static_cast<uint32_t>(traffic_class);
  CAIRN_CHECK(index < classes_.size());
  if (waiting_ >= options_.waiting_max ||
      CAIRN_FAULT_POINT("target.queue.full")) {
    co_return absl::UnavailableError(
        absl::StrCat("overloaded: ", waiting_, " requests wait for the disk"));
  }
  // Who waits without need is granted its turn when the next one leaves.
  const bool stand_in_line =
      in_flight_ > 0 && CAIRN_FAULT_POINT("target.queue.stood_in_line");
  if (in_flight_ < options_.in_flight_max && waiting_ == 0 && !stand_in_line) {
    now_ = std::max(now_, Charge(index, cost));
    ++in_flight_;
    co_return Turn(this);
  }
  CAIRN_SOMETIMES(true, "target.queue.waited");
  Waiting self(executor_, Charge(index, cost));
  std::list<Waiting*>& line = classes_[index].line;
  const auto place = line.insert(line.end(), &self);
  ++waiting_;
  const io::WaitResult result = co_await self.wake.Wait(deadline);
  if (result != io::WaitResult::kWoken) {
    line.erase(place);
    --waiting_;
    Grant();  // Whoever came behind us may have waited for nobody else.
    co_return absl::DeadlineExceededError(
        "the deadline passed while waiting for the disk's turn");
  }
  co_return Turn(this);  // Grant() counted it.
}

uint64_t FairQueue::Charge(uint32_t class_index, uint64_t cost) {
  Class& of = classes_[class_index];
  const uint64_t start = std::max(now_, of.finish);
  of.finish = start + std::max<uint64_t>(cost, 1) * kScale /
                          options_.weights[class_index];
  return start;
}

void FairQueue::Leave(std::list<io::TimeNs>::iterator place) {
  CAIRN_CHECK(in_flight_ > 0);
  started_.erase(place);
  --in_flight_;
  Grant();
}

void FairQueue::Grant() {
  while (in_flight_ < options_.in_flight_max) {
    Class* next = nullptr;  // Ties go to the more urgent class.
    std::list<Waiting*>::iterator chosen;
    for (Class& each : classes_) {
      // One whose deadline is over leaves by itself, when it resumes.
      const auto first =
          std::find_if(each.line.begin(), each.line.end(),
                       [](const Waiting* w) { return !w->wake.empty(); });
      if (first == each.line.end()) continue;
      if (next != nullptr && (*first)->start >= (*chosen)->start) continue;
      next = &each;
      chosen = first;
    }
    if (next == nullptr) return;
    Waiting* const turn = *chosen;
    next->line.erase(chosen);
    --waiting_;
    ++in_flight_;
    now_ = std::max(now_, turn->start);
    CAIRN_CHECK(turn->wake.WakeOne());
  }
}

}  // namespace cairn::server
