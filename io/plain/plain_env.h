// The plain backend: epoll, non-blocking sockets, and files on helper threads.
// For kernels and containers that refuse io_uring. See docs/io.md.
//
// Threads: made, used and destroyed on one thread, except Post().
#pragma once

#include <memory>

#include "io/event_loop.h"

namespace cairn::io {

std::unique_ptr<RealEnv> MakePlainEnv(const LoopOptions& options);

}  // namespace cairn::io
