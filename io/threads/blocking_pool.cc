#include "io/threads/blocking_pool.h"

#include <pthread.h>
#include <signal.h>

#include "format/base/status.h"
#include "io/limits.h"

namespace cairn::io {
namespace {

// The program's signals are for its own threads.
void BlockAllSignals(sigset_t* before) {
  sigset_t all;
  sigfillset(&all);
  CAIRN_CHECK(pthread_sigmask(SIG_SETMASK, &all, before) == 0);
}

}  // namespace

BlockingPool::BlockingPool(Mailbox* mailbox, uint32_t threads_max)
    : mailbox_(mailbox), threads_max_(threads_max) {
  CAIRN_CHECK(threads_max > 0 && threads_max <= kBlockingThreadsMax);
}

BlockingPool::~BlockingPool() {
  {
    const MutexLock lock(&mutex_);
    CAIRN_CHECK(first_ == nullptr);
    stopping_ = true;
  }
  changed_.NotifyAll();
  for (std::thread& thread : threads_) thread.join();
}

void BlockingPool::Submit(BlockingJob* job, std::coroutine_handle<> waiter) {
  job->waiter_ = waiter;
  job->next_ = nullptr;
  bool starts_thread;
  {
    const MutexLock lock(&mutex_);
    if (last_ == nullptr) {
      first_ = job;
    } else {
      last_->next_ = job;
    }
    last_ = job;
    ++queued_;
    starts_thread = queued_ > idle_threads_ && threads_.size() < threads_max_;
  }
  if (starts_thread) {
    sigset_t before;
    BlockAllSignals(&before);
    threads_.emplace_back([this] { Work(); });
    CAIRN_CHECK(pthread_sigmask(SIG_SETMASK, &before, nullptr) == 0);
  }
  changed_.NotifyOne();
}

void BlockingPool::Work() {
  for (;;) {
    BlockingJob* job;
    {
      const MutexLock lock(&mutex_);
      ++idle_threads_;
      while (first_ == nullptr && !stopping_) changed_.Wait(&mutex_);
      --idle_threads_;
      if (first_ == nullptr) return;
      job = first_;
      first_ = job->next_;
      if (first_ == nullptr) last_ = nullptr;
      --queued_;
    }
    job->Run();
    mailbox_->Resume(job->waiter_);
  }
}

}  // namespace cairn::io
