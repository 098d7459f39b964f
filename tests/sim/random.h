// The simulator's randomness: splitmix64, the same on every compiler.
//
// Each part of a World forks its own stream, so that a further draw in one part
// does not shift the draws of the others.
#pragma once

#include <cstdint>

#include "format/base/status.h"

namespace cairn::sim {

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t Next() {
    state_ += 0x9E3779B97F4A7C15u;
    return Mix(state_);
  }
  // 0 to bound-1; `bound` is not 0. The bias of the remainder is no matter
  // here.
  uint64_t Below(uint64_t bound) {
    CAIRN_CHECK(bound > 0);
    return Next() % bound;
  }
  // Both ends included.
  uint64_t Between(uint64_t low, uint64_t high) {
    CAIRN_CHECK(low <= high);
    const uint64_t span = high - low;
    return span == UINT64_MAX ? Next() : low + Below(span + 1);
  }
  bool OneIn(uint64_t n) { return Below(n) == 0; }
  Random Fork() { return Random(Next()); }

  static uint64_t Mix(uint64_t value) {
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9u;
    value = (value ^ (value >> 27)) * 0x94D049BB133111EBu;
    return value ^ (value >> 31);
  }

 private:
  uint64_t state_;
};

}  // namespace cairn::sim
