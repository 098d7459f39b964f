// How long one attempt of several may take, when all of them share a deadline.
#pragma once

#include <algorithm>

#include "io/env.h"

namespace cairn::client {

// `patience` from now, but not beyond the deadline.
inline io::TimeNs Within(io::Env* env, io::TimeNs patience,
                         io::TimeNs deadline) {
  return std::min(deadline, env->NowNs() + patience);
}

// A share (1 / `divisor`) of what is left, and `patience` at most: so that
// other attempts have time, too.
inline io::TimeNs WithinShare(io::Env* env, io::TimeNs patience,
                              io::TimeNs divisor, io::TimeNs deadline) {
  const io::TimeNs now = env->NowNs();
  if (deadline <= now) return deadline;
  return now + std::min(patience, (deadline - now) / divisor);
}

}  // namespace cairn::client
