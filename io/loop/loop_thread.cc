#include <pthread.h>
#include <signal.h>

#include <utility>

#include "io/event_loop.h"

namespace cairn::io {
namespace {

Task<void> ServeUntil(Event* stop, Gate* gate) {
  co_await stop->Wait();
  co_await gate->Close();
}

// Signals of the program are for its own threads.
void BlockAllSignals(sigset_t* before) {
  sigset_t all;
  sigfillset(&all);
  CAIRN_CHECK(pthread_sigmask(SIG_SETMASK, &all, before) == 0);
}

}  // namespace

absl::StatusOr<std::unique_ptr<LoopThread>> LoopThread::Start(
    std::string name, LoopOptions options) {
  std::unique_ptr<LoopThread> loop(new LoopThread());
  std::promise<absl::Status> started;
  std::future<absl::Status> is_started = started.get_future();
  LoopThread* const raw = loop.get();
  sigset_t before;
  BlockAllSignals(&before);
  loop->thread_ = std::thread([raw, options, &started] {
    absl::StatusOr<std::unique_ptr<RealEnv>> env = MakeRealEnv(options);
    if (!env.ok()) return started.set_value(env.status());
    RealEnv* const real = env->get();
    Gate gate(real);
    Event stop(real);
    raw->env_ = real;
    raw->gate_ = &gate;
    raw->stop_ = [real, &stop] { real->Post([&stop] { stop.Set(); }); };
    started.set_value(absl::OkStatus());
    real->RunUntilDone(ServeUntil(&stop, &gate));
  });
  constexpr size_t kThreadNameBytesMax = 15;
  pthread_setname_np(loop->thread_.native_handle(),
                     name.substr(0, kThreadNameBytesMax).c_str());
  CAIRN_CHECK(pthread_sigmask(SIG_SETMASK, &before, nullptr) == 0);
  CAIRN_RETURN_IF_ERROR(is_started.get());
  return loop;
}

LoopThread::~LoopThread() {
  if (stop_) stop_();
  if (thread_.joinable()) thread_.join();
}

}  // namespace cairn::io
