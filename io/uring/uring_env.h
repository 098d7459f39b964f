// The io_uring backend: one ring per loop. See docs/io.md.
//
// Threads: made, used and destroyed on one thread, except Post().
#pragma once

#include <memory>

#include "io/event_loop.h"
#include "io/uring/ring.h"

namespace cairn::io {

// kUnavailable: the kernel refuses io_uring; the message says how.
absl::StatusOr<std::unique_ptr<RealEnv>> MakeUringEnv(
    const LoopOptions& options, RingOptions ring_options);

}  // namespace cairn::io
