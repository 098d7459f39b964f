// History: the states of something that one writer changes step by step, and
// that others look at: which state may be seen when.
//
// A step that was asked for may be seen at once; the state before it may be
// seen until the step is known to have happened. Steps of unknown outcome stay
// possible, in order, until somebody sees one of them or they are settled.
//
// Memory: all states are kept; make them cheap to copy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "format/base/status.h"
#include "io/executor.h"

namespace cairn::sim {

template <typename State>
class History {
 public:
  // By number of the state, ascending.
  using Numbers = std::vector<size_t>;

  explicit History(State first) {
    versions_.push_back({std::move(first), 0, io::kNoDeadline});
  }

  const State& operator[](size_t number) const {
    return versions_[number].state;
  }
  // The newest state that is known to have been reached.
  const State& current() const { return versions_[current_].state; }
  size_t size() const { return versions_.size(); }
  size_t current_number() const { return current_; }
  bool pending() const { return current_ + 1 < versions_.size(); }
  // What the writer meant last.
  const State& newest() const { return versions_.back().state; }

  // A step towards `next` is asked for now. Returns its number.
  size_t Begin(State next, io::TimeNs now) {
    versions_.push_back({std::move(next), now, io::kNoDeadline});
    return versions_.size() - 1;
  }
  // State `number` is known to have been reached: no older one is seen any
  // more by who begins to look after `now`; newer ones remain possible.
  void Reached(size_t number, io::TimeNs now) {
    if (number <= current_) return;
    for (size_t i = current_; i < number; ++i) EndAt(i, now);
    current_ = number;
  }
  // The last step happened.
  void ReachedLast(io::TimeNs now) { Reached(versions_.size() - 1, now); }
  // `number` is the state, and no step asked for so far will still happen.
  void Settle(size_t number, io::TimeNs now) {
    CAIRN_CHECK(number >= current_);
    Reached(number, now);
    for (size_t i = number + 1; i < versions_.size(); ++i) EndAt(i, now);
    if (number + 1 == versions_.size()) return;
    // It goes on from that state, under a new number.
    versions_.push_back(versions_[number]);
    versions_.back().end = io::kNoDeadline;
    current_ = versions_.size() - 1;
  }

  // What may be seen by a look that began at `since` and ends at `now`.
  Numbers Between(io::TimeNs since, io::TimeNs now) const {
    Numbers numbers;
    for (size_t i = 0; i < versions_.size(); ++i) {
      if (versions_[i].begin <= now && versions_[i].end >= since) {
        numbers.push_back(i);
      }
    }
    return numbers;
  }
  // Whether a step may have been taken before `time` that a look which began at
  // `since` need not know of.
  bool MayHaveLeft(io::TimeNs since, io::TimeNs time) const {
    for (size_t i = 1; i < versions_.size(); ++i) {
      const bool begun = versions_[i].begin <= time;
      if (begun && versions_[i - 1].end >= since) return true;
    }
    return false;
  }

 private:
  struct Version {
    State state;
    io::TimeNs begin;  // May be seen from here...
    io::TimeNs end;    // ...to here.
  };
  void EndAt(size_t number, io::TimeNs now) {
    if (versions_[number].end == io::kNoDeadline) versions_[number].end = now;
  }

  std::vector<Version> versions_;
  size_t current_ = 0;
};

}  // namespace cairn::sim
