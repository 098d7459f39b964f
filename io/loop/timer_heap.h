// TimerHeap: the pending timers of one loop, soonest first.
//
// A binary heap whose nodes know their place, so that adding, removing and
// popping are all O(log n). Timers with one deadline fire in the order in which
// they were added.
//
// Threads:  belongs to one loop.
// Lifetime: a timer must outlive its stay in the heap.
#pragma once

#include <cstdint>
#include <vector>

#include "io/executor.h"

namespace cairn::io {

class TimerHeap {
 public:
  // `timer` must not be in a heap already (checked).
  void Add(TimeNs deadline, Timer* timer);
  // False if it is not in the heap.
  bool Remove(Timer* timer);
  // Takes out the soonest timer if it is due at `now`; null if none is.
  Timer* PopDue(TimeNs now);
  // kNoDeadline when empty.
  TimeNs next_deadline() const {
    return entries_.empty() ? kNoDeadline : entries_.front().deadline;
  }
  bool empty() const { return entries_.empty(); }

 private:
  struct Entry {
    TimeNs deadline;
    uint64_t sequence;  // Breaks ties: first added, first fired.
    Timer* timer;
  };
  static bool Sooner(const Entry& a, const Entry& b);
  void Place(size_t at, const Entry& entry);
  void SiftUp(size_t at, const Entry& entry);
  void SiftDown(size_t at, const Entry& entry);

  std::vector<Entry> entries_;
  uint64_t next_sequence_ = 0;
};

}  // namespace cairn::io
