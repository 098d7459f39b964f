#include "io/loop/timer_heap.h"

#include "format/base/status.h"

namespace cairn::io {

bool TimerHeap::Sooner(const Entry& a, const Entry& b) {
  if (a.deadline != b.deadline) return a.deadline < b.deadline;
  return a.sequence < b.sequence;
}

void TimerHeap::Place(size_t at, const Entry& entry) {
  entries_[at] = entry;
  entry.timer->heap_place_ = at + 1;
}

void TimerHeap::SiftUp(size_t at, const Entry& entry) {
  while (at > 0) {
    const size_t parent = (at - 1) / 2;
    if (!Sooner(entry, entries_[parent])) break;
    Place(at, entries_[parent]);
    at = parent;
  }
  Place(at, entry);
}

void TimerHeap::SiftDown(size_t at, const Entry& entry) {
  for (;;) {
    size_t child = 2 * at + 1;
    if (child >= entries_.size()) break;
    if (child + 1 < entries_.size() &&
        Sooner(entries_[child + 1], entries_[child])) {
      ++child;
    }
    if (!Sooner(entries_[child], entry)) break;
    Place(at, entries_[child]);
    at = child;
  }
  Place(at, entry);
}

void TimerHeap::Add(TimeNs deadline, Timer* timer) {
  CAIRN_CHECK(timer->heap_place_ == 0);
  const Entry entry{deadline, next_sequence_++, timer};
  entries_.push_back(entry);
  SiftUp(entries_.size() - 1, entry);
}

bool TimerHeap::Remove(Timer* timer) {
  if (timer->heap_place_ == 0) return false;
  const size_t at = timer->heap_place_ - 1;
  CAIRN_CHECK(at < entries_.size() && entries_[at].timer == timer);
  timer->heap_place_ = 0;
  const Entry last = entries_.back();
  entries_.pop_back();
  if (at == entries_.size()) return true;
  if (at > 0 && Sooner(last, entries_[(at - 1) / 2])) {
    SiftUp(at, last);
  } else {
    SiftDown(at, last);
  }
  return true;
}

Timer* TimerHeap::PopDue(TimeNs now) {
  if (entries_.empty() || entries_.front().deadline > now) return nullptr;
  Timer* const timer = entries_.front().timer;
  CAIRN_CHECK(Remove(timer));
  return timer;
}

}  // namespace cairn::io
