// A LogLimiter lets one line through per interval, and counts the others: what
// peers can provoke may not fill the disk with log.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "io/executor.h"

namespace cairn::io::internal {

class LogLimiter {
 public:
  explicit LogLimiter(TimeNs interval) : interval_(interval) {}

  // How many lines were held back since the last one, if this one may go;
  // otherwise nullopt.
  std::optional<uint64_t> Admit(TimeNs now) {
    if (now < next_) {
      ++held_back_;
      return std::nullopt;
    }
    next_ = now + interval_;
    return std::exchange(held_back_, 0);
  }

 private:
  const TimeNs interval_;
  TimeNs next_ = 0;
  uint64_t held_back_ = 0;
};

}  // namespace cairn::io::internal
