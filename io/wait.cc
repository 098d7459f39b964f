#include "io/wait.h"

namespace cairn::io {

CancelToken::~CancelToken() { CAIRN_CHECK(waiting_.empty()); }

void CancelToken::Cancel() {
  cancelled_ = true;
  while (!waiting_.empty()) waiting_.front()->Finish(WaitResult::kCancelled);
}

bool WaitNode::await_ready() {
  if (cancel_ != nullptr && cancel_->cancelled()) {
    result_ = WaitResult::kCancelled;
    return true;
  }
  if (deadline_ != kNoDeadline && executor_->NowNs() >= deadline_) {
    result_ = WaitResult::kDeadline;
    return true;
  }
  return false;
}

void WaitNode::await_suspend(std::coroutine_handle<> handle) {
  handle_ = handle;
  if (queue_ != nullptr) {
    queue_place_ = queue_->waiters_.insert(queue_->waiters_.end(), this);
  }
  if (cancel_ != nullptr) {
    cancel_place_ = cancel_->waiting_.insert(cancel_->waiting_.end(), this);
  }
  if (deadline_ != kNoDeadline) {
    executor_->AddTimer(deadline_, this);
    in_timers_ = true;
  }
}

void WaitNode::Fire() {
  in_timers_ = false;
  Finish(WaitResult::kDeadline);
}

void WaitNode::Finish(WaitResult result) {
  result_ = result;
  if (in_timers_) {
    executor_->RemoveTimer(this);
    in_timers_ = false;
  }
  if (queue_ != nullptr) queue_->waiters_.erase(queue_place_);
  if (cancel_ != nullptr) cancel_->waiting_.erase(cancel_place_);
  executor_->Schedule(handle_);
}

bool WaitQueue::WakeOne() {
  if (waiters_.empty()) return false;
  waiters_.front()->Finish(WaitResult::kWoken);
  return true;
}

void WaitQueue::WakeAll() {
  while (WakeOne()) {
  }
}

Task<WaitResult> Event::Wait(TimeNs deadline, CancelToken* cancel) {
  while (!set_) {
    const WaitResult result = co_await queue_.Wait(deadline, cancel);
    if (result != WaitResult::kWoken) co_return result;
  }
  co_return WaitResult::kWoken;
}

Task<WaitResult> Semaphore::Acquire(uint64_t units, TimeNs deadline,
                                    CancelToken* cancel) {
  if (TryAcquire(units)) co_return WaitResult::kWoken;
  Pending pending(executor_, units);
  const auto place = queue_.insert(queue_.end(), &pending);
  const WaitResult result = co_await pending.wake.Wait(deadline, cancel);
  if (result != WaitResult::kWoken) {
    queue_.erase(place);
    Grant();  // Whoever stood behind us may fit where we did not.
  }
  co_return result;
}

bool Semaphore::TryAcquire(uint64_t units) {
  if (!queue_.empty() || available_ < units) return false;
  available_ -= units;
  return true;
}

void Semaphore::Release(uint64_t units) {
  available_ += units;
  Grant();
}

void Semaphore::Grant() {
  for (auto it = queue_.begin(); it != queue_.end();) {
    Pending* const next = *it;
    if (next->wake.empty()) {
      ++it;  // It gave up, and leaves the line when it resumes.
      continue;
    }
    if (next->units > available_) return;
    it = queue_.erase(it);
    available_ -= next->units;
    CAIRN_CHECK(next->wake.WakeOne());
  }
}

internal::DetachedTask Gate::Run(Task<void> task, Hold hold) {
  co_await std::move(task);
  // Free the task's frame before the gate may open: Close() promises that
  // nothing of the task is left.
  task = Task<void>();
  const Hold leaving = std::move(hold);
}

void Gate::Spawn(Task<void> task) { Run(std::move(task), Enter()); }

Task<void> Gate::Close() {
  while (in_flight_ > 0) co_await idle_.Wait();
}

void Gate::Leave() {
  CAIRN_CHECK(in_flight_ > 0);
  if (--in_flight_ == 0) idle_.WakeAll();
}

}  // namespace cairn::io
