// Ring: one io_uring, and the operations that coroutines wait for on it.
//
// An operation is a RingOp in the frame of the coroutine that awaits it; its
// address is the kernel's handle for it, so nothing is allocated and nothing is
// looked up. The frame, and the memory the operation works on, stay put until
// the completion is there: also after Cancel(), which only asks.
//
// Entries queue up and go to the kernel once per turn, in Poll().
//
// Threads:  belongs to one loop, on the thread that made it.
// Lifetime: no operation is in flight when the ring is destroyed (checked).
#pragma once

#include <liburing.h>

#include <coroutine>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "format/base/bytes.h"
#include "format/base/status.h"
#include "io/executor.h"
#include "io/limits.h"

namespace cairn::io {

class Ring;

// Fill sqe() with an io_uring_prep_*() call, then co_await it by name, once:
// the completion's result, a count or a negative errno.
class RingOp {
 public:
  explicit RingOp(Ring* ring) : ring_(ring) {}

  io_uring_sqe* sqe() { return &sqe_; }

  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> waiter);
  int64_t await_resume() const noexcept { return result_; }

 private:
  friend class Ring;
  Ring* ring_;
  std::coroutine_handle<> waiter_;
  int32_t result_ = 0;
  io_uring_sqe sqe_ = {};
};

struct RingOptions {
  uint32_t submit_entries = kRingSubmitEntries;
  uint32_t completion_entries = kRingCompletionEntries;
};

class Ring {
 public:
  // kUnavailable: the kernel refuses, or lacks what is needed; the message says
  // which.
  static absl::StatusOr<std::unique_ptr<Ring>> Make(Executor* executor,
                                                    RingOptions options);
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;
  ~Ring();

  // Queues `op`; its waiter is scheduled when it completes.
  void Start(RingOp* op);
  // Asks the kernel to end `op`, which must be in flight, early.
  void Cancel(const RingOp* op);

  // Submits; waits for a completion at most `timeout_ns` (0: not at all;
  // kNoDeadline: until there is one); schedules the waiters of all there are.
  void Poll(TimeNs timeout_ns);
  bool has_unsubmitted() { return io_uring_sq_ready(&ring_) > 0; }
  uint64_t in_flight() const { return in_flight_; }

  // Makes `region` the ring's fixed buffers. On failure (RLIMIT_MEMLOCK), all
  // works without.
  absl::Status RegisterBuffers(format::MutableBytes region);
  // The fixed buffer that `bytes` lie in.
  std::optional<int> BufferOf(format::ConstBytes bytes) const;

  // A slot in the ring's file table, or -1 when there is none left.
  int RegisterFile(int fd);
  void UnregisterFile(int slot);

 private:
  explicit Ring(Executor* executor) : executor_(executor) {}
  absl::Status Setup(RingOptions options);
  int SetupOnce(RingOptions options);  // 0, or a negative errno.
  absl::Status CheckFeatures();
  absl::Status CheckRoundTrip();
  void MakeFileTable();
  io_uring_sqe* NextEntry();
  void Reap();
  void ReapOnce();

  Executor* const executor_;
  io_uring ring_ = {};
  bool is_set_up_ = false;
  uint64_t in_flight_ = 0;
  format::MutableBytes registered_;
  std::vector<int> free_slots_;
};

inline void RingOp::await_suspend(std::coroutine_handle<> waiter) {
  waiter_ = waiter;
  ring_->Start(this);
}

}  // namespace cairn::io
