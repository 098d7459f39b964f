// Task<T>: a coroutine that starts when it is awaited and runs on one loop.
//
//   io::Task<absl::StatusOr<int>> Answer(io::Env* env);
//   ...
//   absl::StatusOr<int> answer = co_await Answer(env);
//
// Threads:  a Task is created, awaited and destroyed on one event loop.
// Lifetime: the Task object owns the coroutine frame. Destroying a Task that
//           is suspended inside another operation is a bug: finish it first
//           (io::Gate does the waiting).
// Rules:    parameters by value, or pointers whose lifetime the declaration
//           states; no capturing lambda coroutines; name aggregates and
//           lambdas before a co_await expression (gcc 12 destroys braced
//           temporaries inside one twice).
#pragma once

#include <coroutine>
#include <exception>
#include <optional>
#include <utility>

#include "format/base/status.h"

namespace cairn::io {

template <typename T>
class Task;

namespace internal {

struct FinalAwaiter {
  bool await_ready() const noexcept { return false; }
  template <typename Promise>
  std::coroutine_handle<> await_suspend(
      std::coroutine_handle<Promise> handle) const noexcept {
    std::coroutine_handle<> next = handle.promise().continuation;
    return next ? next : std::noop_coroutine();
  }
  void await_resume() const noexcept {}
};

struct PromiseBase {
  std::coroutine_handle<> continuation;
  std::suspend_always initial_suspend() const noexcept { return {}; }
  FinalAwaiter final_suspend() const noexcept { return {}; }
  // The code base throws nothing; what a library throws ends the process.
  void unhandled_exception() const noexcept { std::terminate(); }
};

template <typename T>
struct TaskPromise : PromiseBase {
  std::optional<T> value;
  Task<T> get_return_object();
  template <typename U>
  void return_value(U&& result) {
    value.emplace(std::forward<U>(result));
  }
  T TakeValue() { return std::move(*value); }
};

template <>
struct TaskPromise<void> : PromiseBase {
  Task<void> get_return_object();
  void return_void() const noexcept {}
  void TakeValue() const noexcept {}
};

}  // namespace internal

template <typename T = void>
class [[nodiscard]] Task {
 public:
  using promise_type = internal::TaskPromise<T>;
  using Handle = std::coroutine_handle<promise_type>;

  Task() = default;
  explicit Task(Handle handle) : handle_(handle) {}
  Task(Task&& other) noexcept : handle_(std::exchange(other.handle_, {})) {}
  Task& operator=(Task&& other) noexcept {
    if (this != &other) {
      if (handle_) handle_.destroy();
      handle_ = std::exchange(other.handle_, {});
    }
    return *this;
  }
  ~Task() {
    if (handle_) handle_.destroy();
  }

  struct Awaiter {
    Handle handle;
    bool await_ready() const noexcept { return false; }
    std::coroutine_handle<> await_suspend(
        std::coroutine_handle<> continuation) const noexcept {
      handle.promise().continuation = continuation;
      return handle;
    }
    T await_resume() const { return handle.promise().TakeValue(); }
  };
  Awaiter operator co_await() && noexcept {
    CAIRN_CHECK(handle_);
    return Awaiter{handle_};
  }

 private:
  Handle handle_;
};

namespace internal {
template <typename T>
Task<T> TaskPromise<T>::get_return_object() {
  return Task<T>(std::coroutine_handle<TaskPromise<T>>::from_promise(*this));
}
inline Task<void> TaskPromise<void>::get_return_object() {
  return Task<void>(
      std::coroutine_handle<TaskPromise<void>>::from_promise(*this));
}

// Starts at once, destroys itself at its end; only Gate may make one.
struct DetachedTask {
  struct promise_type {
    DetachedTask get_return_object() const noexcept { return {}; }
    std::suspend_never initial_suspend() const noexcept { return {}; }
    std::suspend_never final_suspend() const noexcept { return {}; }
    void return_void() const noexcept {}
    void unhandled_exception() const noexcept { std::terminate(); }
  };
};
}  // namespace internal

}  // namespace cairn::io
