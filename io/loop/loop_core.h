// LoopCore: what both real backends share: the ready queue, timers, mail from
// other threads, helper threads, clock, randomness, the pool, and the calls on
// paths. A backend adds Poll() and its files and sockets.
//
// A turn: hand queued operations to the kernel and take completions (Poll),
// fire due timers, resume what is ready. Waking only appends to the ready
// queue, so what runs in one turn is fixed at its start, and I/O is never
// starved by coroutines that wake each other.
//
// Threads:  one, except Post().
#pragma once

#include <array>
#include <coroutine>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "io/event_loop.h"
#include "io/limits.h"
#include "io/loop/timer_heap.h"
#include "io/posix/paths.h"
#include "io/threads/blocking_pool.h"
#include "io/threads/mailbox.h"

namespace cairn::io {

class LoopCore : public RealEnv {
 public:
  // `extra_threads`: helpers beyond options.blocking_threads.
  LoopCore(const LoopOptions& options, uint32_t extra_threads);

  // Executor.
  TimeNs NowNs() final;
  void Schedule(std::coroutine_handle<> handle) final {
    ready_.push_back(handle);
  }
  void AddTimer(TimeNs deadline, Timer* timer) final {
    timers_.Add(deadline, timer);
  }
  bool RemoveTimer(Timer* timer) final { return timers_.Remove(timer); }

  // Env.
  TimeNs WallNs() final;
  uint64_t Random() final;
  void Post(std::function<void()> work) final;
  Task<void> RunBlocking(std::function<void()> work) final;
  Task<absl::StatusOr<std::unique_ptr<File>>> OpenFile(
      std::string path, OpenOptions options) final;
  Task<absl::Status> MakeDirectory(std::string path) final;
  Task<absl::StatusOr<std::vector<std::string>>> ListDirectory(
      std::string path) final;
  Task<absl::StatusOr<std::optional<FileInfo>>> Stat(std::string path) final;
  Task<absl::Status> Rename(std::string from, std::string to) final;
  Task<absl::Status> Remove(std::string path) final;
  Task<absl::Status> SyncDirectory(std::string path) final;
  Task<absl::StatusOr<DiskSpace>> Space(std::string path) final;
  BufferPool* pool() final { return &pool_; }

  // RealEnv.
  void RunUntilDone(Task<void> task) final;

  BlockingPool* blocking() { return &blocking_; }

 protected:
  // Submits what is queued, waits for news (at most `timeout_ns`; kNoDeadline:
  // until there is some; 0: not at all), and schedules whom it concerns.
  virtual void Poll(TimeNs timeout_ns) = 0;
  // Wraps an open file; owns its descriptor from now on.
  virtual std::unique_ptr<File> MakeFile(posix::OpenedFile opened,
                                         OpenOptions options,
                                         std::string path) = 0;
  void Turn();
  Mailbox* mailbox() { return &mailbox_; }

 private:
  void FireTimers();
  void ResumeReady();
  TimeNs PollTimeout();

  std::vector<std::coroutine_handle<>> ready_;
  std::vector<std::coroutine_handle<>> running_;  // Of this turn.
  TimerHeap timers_;
  Mailbox mailbox_;
  BlockingPool blocking_;
  BufferPool pool_;
  std::array<uint64_t, kRandomWordsBuffered> random_words_;
  size_t random_words_left_ = 0;
  bool is_running_ = false;
};

}  // namespace cairn::io
