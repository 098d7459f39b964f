// The events of a World in the order in which they run, without those of
// paused processes.
//
// A paused process runs nothing: its resumptions, timers and posts are set
// aside when their turn comes, and all that is due runs first, in its old
// order, once it goes on. Arrivals are the kernel's work and run meanwhile.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <map>

#include "io/executor.h"
#include "tests/sim/trace.h"

namespace cairn::sim {

// When, ties drawn from the seed, and order of making.
struct EventKey {
  io::TimeNs time = 0;
  uint64_t tie = 0;
  uint64_t sequence = 0;
  auto operator<=>(const EventKey&) const = default;
};

struct Event {
  Trace what;
  uint64_t process;  // 0: the test's own.
  std::function<void()> action;
};

class EventQueue {
 public:
  void Add(const EventKey& key, Event event);
  // `timer` goes when the event of `key` runs or is removed.
  void AddTimer(io::Timer* timer, const EventKey& key, uint64_t process);
  bool RemoveTimer(io::Timer* timer);
  // Before it fires.
  void ForgetTimer(io::Timer* timer) { timers_.erase(timer); }
  void Clear();

  // The event to run next, or null. The pointers hold until any change.
  struct Next {
    const EventKey* key = nullptr;
    const Event* event = nullptr;
  };
  Next Front();
  Event PopFront();  // After a Front() that was not null.

  void Pause(uint64_t process) { paused_.try_emplace(process); }
  // False: it was not paused.
  bool Resume(uint64_t process);
  bool paused(uint64_t process) const { return paused_.contains(process); }

 private:
  using Events = std::map<EventKey, Event>;
  struct TimerPlace {
    EventKey key;
    uint64_t process;
  };

  Events events_;
  std::map<uint64_t, Events> paused_;        // By process.
  std::map<io::Timer*, TimerPlace> timers_;  // Looked up, never iterated.
};

}  // namespace cairn::sim
