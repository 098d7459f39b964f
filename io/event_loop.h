// Real event loops: an Env on the calling thread, and a thread that runs one.
//
// Threads:  MakeRealEnv() and everything with the Env happen on one thread;
//           LoopThread makes such a thread and lets others hand it work.
// Backends: io_uring where the kernel allows it; otherwise the plain
//           system-call backend, chosen with one log line that says why.
#pragma once

#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>

#include "io/env.h"

namespace cairn::io {

enum class Backend { kAuto, kUring, kPlain };

struct LoopOptions {
  Backend backend = Backend::kAuto;
  uint32_t pool_large_buffers = 16;  // Of format::kChunkBytesMax each.
  bool pool_lazy = true;
  uint32_t blocking_threads = 2;     // For RunBlocking; started on first use.
};

class RealEnv : public Env {
 public:
  // Runs the loop on this thread until `task` has finished.
  virtual void RunUntilDone(Task<void> task) = 0;
};

// kUnavailable: Backend::kUring was asked for and the kernel refuses it; the
// message has the errno. kAuto and kPlain do not fail for that reason.
// Blocks SIGPIPE and SIGXFSZ on the calling thread: a lost peer and a file over
// the process's size limit are errors here.
absl::StatusOr<std::unique_ptr<RealEnv>> MakeRealEnv(LoopOptions options);

// A thread with a RealEnv of its own.
class LoopThread {
 public:
  static absl::StatusOr<std::unique_ptr<LoopThread>> Start(
      std::string name, LoopOptions options);
  // Waits for work in flight (started through Run or Spawn), stops and joins.
  ~LoopThread();

  Env* env() { return env_; }  // Use only from work that runs on the loop.

  // Runs `make(env)`'s task on the loop and blocks the calling thread (which
  // must not be the loop's own) until it is done; returns its result.
  template <typename T>
  T Run(std::function<Task<T>(Env*)> make);
  // Starts it and returns at once; `done` resolves with the result.
  template <typename T>
  std::future<T> Start(std::function<Task<T>(Env*)> make);

 private:
  LoopThread() = default;
  template <typename T>
  static Task<void> Fulfil(Env* env, std::function<Task<T>(Env*)> make,
                           std::promise<T> promise);

  Env* env_ = nullptr;
  Gate* gate_ = nullptr;
  std::function<void()> stop_;
  std::thread thread_;
};

template <typename T>
Task<void> LoopThread::Fulfil(Env* env, std::function<Task<T>(Env*)> make,
                              std::promise<T> promise) {
  Task<T> task = make(env);
  if constexpr (std::is_void_v<T>) {
    co_await std::move(task);
    promise.set_value();
  } else {
    promise.set_value(co_await std::move(task));
  }
}

template <typename T>
std::future<T> LoopThread::Start(std::function<Task<T>(Env*)> make) {
  auto promise = std::make_shared<std::promise<T>>();  // std::function copies.
  std::future<T> done = promise->get_future();
  env_->Post([this, make = std::move(make), promise]() mutable {
    gate_->Spawn(Fulfil<T>(env_, std::move(make), std::move(*promise)));
  });
  return done;
}

template <typename T>
T LoopThread::Run(std::function<Task<T>(Env*)> make) {
  return Start<T>(std::move(make)).get();
}

}  // namespace cairn::io
