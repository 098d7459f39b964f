#include "tests/sim/event_queue.h"

#include <utility>

#include "format/base/status.h"

namespace cairn::sim {

void EventQueue::Add(const EventKey& key, Event event) {
  CAIRN_CHECK(events_.emplace(key, std::move(event)).second);
}

void EventQueue::AddTimer(io::Timer* timer, const EventKey& key,
                          uint64_t process) {
  CAIRN_CHECK(timers_.emplace(timer, TimerPlace{key, process}).second);
}

bool EventQueue::RemoveTimer(io::Timer* timer) {
  const auto it = timers_.find(timer);
  if (it == timers_.end()) return false;
  const TimerPlace place = it->second;
  timers_.erase(it);
  if (events_.erase(place.key) == 0) {
    CAIRN_CHECK(paused_.at(place.process).erase(place.key) == 1);
  }
  return true;
}

void EventQueue::Clear() {
  events_.clear();
  paused_.clear();
}

EventQueue::Next EventQueue::Front() {
  while (!events_.empty()) {
    const auto first = events_.begin();
    const Event& event = first->second;
    const auto paused = paused_.find(event.process);
    if (paused == paused_.end() || event.what == Trace::kArrival) {
      return {&first->first, &event};
    }
    paused->second.insert(events_.extract(first));
  }
  return {};
}

Event EventQueue::PopFront() {
  return std::move(events_.extract(events_.begin()).mapped());
}

bool EventQueue::Resume(uint64_t process) {
  auto paused = paused_.extract(process);
  if (paused.empty()) return false;
  // With their old keys, in the past: they run before everything else.
  events_.merge(paused.mapped());
  CAIRN_CHECK(paused.mapped().empty());
  return true;
}

}  // namespace cairn::sim
