#include <pthread.h>
#include <signal.h>
#include <spdlog/spdlog.h>

#include <string>
#include <utility>

#include "io/event_loop.h"
#include "io/plain/plain_env.h"
#include "io/uring/uring_env.h"

namespace cairn::io {
namespace {

// A peer that left and a file over the process's size limit are errors here,
// not the end of the process.
void BlockWriteSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGPIPE);
  sigaddset(&signals, SIGXFSZ);
  CAIRN_CHECK(pthread_sigmask(SIG_BLOCK, &signals, nullptr) == 0);
}

}  // namespace

absl::StatusOr<std::unique_ptr<RealEnv>> MakeRealEnv(LoopOptions options) {
  BlockWriteSignals();
  if (options.backend != Backend::kPlain) {
    absl::StatusOr<std::unique_ptr<RealEnv>> env =
        MakeUringEnv(options, RingOptions());
    if (env.ok() || options.backend == Backend::kUring) return env;
    spdlog::warn(
        "io_uring is not available ({}); using plain system calls, which are "
        "slower",
        std::string(env.status().message()));
  }
  return MakePlainEnv(options);
}

}  // namespace cairn::io
