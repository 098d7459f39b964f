// BlockingPool: helper threads of one loop for calls that block.
//
// Threads start when first needed, up to the limit, and stay. A job lies in the
// frame of the coroutine that awaits it: nothing is allocated per job.
//
// Threads:  co_await and the destructor on the loop; Run() on a helper.
// Lifetime: no job may be waiting or running when the pool is destroyed
//           (checked); the mailbox outlives the pool.
#pragma once

#include <coroutine>
#include <cstdint>
#include <optional>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "io/mutex.h"
#include "io/threads/mailbox.h"

namespace cairn::io {

class BlockingJob {
 public:
  // On a helper thread; all the loop's memory that it uses must be left alone
  // by the loop until the awaiting coroutine is resumed.
  virtual void Run() = 0;

 protected:
  ~BlockingJob() = default;

 private:
  friend class BlockingPool;
  std::coroutine_handle<> waiter_;
  BlockingJob* next_ = nullptr;
};

class BlockingPool {
 public:
  BlockingPool(Mailbox* mailbox, uint32_t threads_max);
  BlockingPool(const BlockingPool&) = delete;
  BlockingPool& operator=(const BlockingPool&) = delete;
  ~BlockingPool();

  // Runs `job`, then resumes `waiter` on the loop.
  void Submit(BlockingJob* job, std::coroutine_handle<> waiter);

 private:
  void Work();

  Mailbox* const mailbox_;
  const uint32_t threads_max_;
  std::vector<std::thread> threads_;  // Only the loop's.
  Mutex mutex_;
  CondVar changed_;
  BlockingJob* first_ ABSL_GUARDED_BY(mutex_) = nullptr;
  BlockingJob* last_ ABSL_GUARDED_BY(mutex_) = nullptr;
  uint32_t queued_ ABSL_GUARDED_BY(mutex_) = 0;
  uint32_t idle_threads_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
};

// Awaitable: the result of calling `function` on a helper thread. Name it
// before awaiting it, and its function too.
template <typename Function>
class BlockingCall final : public BlockingJob {
 public:
  using Result = std::invoke_result_t<Function&>;
  BlockingCall(BlockingPool* pool, Function function)
      : pool_(pool), function_(std::move(function)) {}
  BlockingCall(const BlockingCall&) = delete;
  BlockingCall& operator=(const BlockingCall&) = delete;

  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> waiter) {
    pool_->Submit(this, waiter);
  }
  Result await_resume() { return std::move(*result_); }

 private:
  void Run() override { result_.emplace(function_()); }

  BlockingPool* const pool_;
  Function function_;
  std::optional<Result> result_;
};

}  // namespace cairn::io
