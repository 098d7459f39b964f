#include "io/uring/ring.h"

#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <string>

#include "io/posix/errno_status.h"

namespace cairn::io {
namespace {

constexpr int kOpcodes[] = {
    IORING_OP_READ,        IORING_OP_WRITE,   IORING_OP_READ_FIXED,
    IORING_OP_WRITE_FIXED, IORING_OP_FSYNC,   IORING_OP_RECV,
    IORING_OP_SEND,        IORING_OP_RECVMSG, IORING_OP_SENDMSG,
    IORING_OP_ACCEPT,      IORING_OP_CONNECT, IORING_OP_ASYNC_CANCEL,
};
// Nothing dropped when completions overflow, arguments copied at submission,
// waiting with a timeout.
constexpr unsigned kFeatures =
    IORING_FEAT_NODROP | IORING_FEAT_SUBMIT_STABLE | IORING_FEAT_EXT_ARG;

absl::Status Refused(int error, const char* what) {
  return absl::UnavailableError(ErrnoStatus(error, what).message());
}

// The kernel may be too busy to take entries now; they stay queued.
void CheckEntered(int result) {
  CAIRN_CHECK(result >= 0 || result == -EINTR || result == -ETIME ||
              result == -EAGAIN || result == -EBUSY || result == -ENOMEM);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Ring>> Ring::Make(Executor* executor,
                                                 RingOptions options) {
  std::unique_ptr<Ring> ring(new Ring(executor));
  CAIRN_RETURN_IF_ERROR(ring->Setup(options));
  CAIRN_RETURN_IF_ERROR(ring->CheckFeatures());
  CAIRN_RETURN_IF_ERROR(ring->CheckRoundTrip());
  ring->MakeFileTable();
  return ring;
}

Ring::~Ring() {
  CAIRN_CHECK(in_flight_ == 0);
  if (is_set_up_) io_uring_queue_exit(&ring_);
}

absl::Status Ring::Setup(RingOptions options) {
  int result = SetupOnce(options);
  // The queues count as locked memory, of which a user may have little.
  while (result == -ENOMEM && options.submit_entries > kRingSubmitEntriesMin) {
    options.submit_entries /= 2;
    options.completion_entries = 2 * options.submit_entries;
    result = SetupOnce(options);
  }
  if (result < 0) return Refused(-result, "io_uring_setup");
  is_set_up_ = true;
  return absl::OkStatus();
}

int Ring::SetupOnce(RingOptions options) {
  const unsigned common = IORING_SETUP_CQSIZE | IORING_SETUP_CLAMP;
  const unsigned single =
      IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN;
  int result = -EINVAL;
  // The second try is for kernels before 6.1.
  for (const unsigned flags : {common | single, common}) {
    io_uring_params params = {};
    params.flags = flags;
    params.cq_entries = options.completion_entries;
    result =
        io_uring_queue_init_params(options.submit_entries, &ring_, &params);
    if (result != -EINVAL) break;
  }
  return result;
}

absl::Status Ring::CheckFeatures() {
  if ((ring_.features & kFeatures) != kFeatures) {
    return absl::UnavailableError("this kernel's io_uring is too old");
  }
  io_uring_probe* const probe = io_uring_get_probe_ring(&ring_);
  if (probe == nullptr) {
    return absl::UnavailableError("io_uring cannot be probed");
  }
  const bool has_all =
      std::all_of(std::begin(kOpcodes), std::end(kOpcodes), [probe](int code) {
        return io_uring_opcode_supported(probe, code) != 0;
      });
  io_uring_free_probe(probe);
  if (has_all) return absl::OkStatus();
  return absl::UnavailableError("this kernel's io_uring lacks operations");
}

// A filter may forbid io_uring_enter alone: better to learn it here.
absl::Status Ring::CheckRoundTrip() {
  io_uring_sqe* const entry = io_uring_get_sqe(&ring_);
  CAIRN_CHECK(entry != nullptr);
  io_uring_prep_nop(entry);
  io_uring_sqe_set_data(entry, nullptr);
  const int result = io_uring_submit_and_wait(&ring_, 1);
  if (result < 0) return Refused(-result, "io_uring_enter");
  Reap();
  io_uring_register_ring_fd(&ring_);  // Best effort; makes entering cheaper.
  return absl::OkStatus();
}

void Ring::MakeFileTable() {
  rlimit files;
  uint64_t slots = kRingFilesMax;
  if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
    slots = std::min<uint64_t>(slots, files.rlim_cur);
  }
  const std::vector<int> empty(slots, -1);
  if (io_uring_register_files(&ring_, empty.data(),
                              static_cast<unsigned>(slots)) != 0) {
    return;  // Files work without a slot.
  }
  for (uint64_t i = slots; i > 0; --i) {
    free_slots_.push_back(static_cast<int>(i - 1));
  }
}

void Ring::Start(RingOp* op) {
  CAIRN_DCHECK(op->waiter_);
  io_uring_sqe* const entry = NextEntry();
  *entry = op->sqe_;
  io_uring_sqe_set_data(entry, op);
  ++in_flight_;
}

void Ring::Cancel(const RingOp* op) {
  io_uring_sqe* const entry = NextEntry();
  io_uring_prep_cancel64(entry, reinterpret_cast<uintptr_t>(op), 0);
  io_uring_sqe_set_data(entry, nullptr);
}

io_uring_sqe* Ring::NextEntry() {
  for (;;) {
    if (io_uring_sqe* const entry = io_uring_get_sqe(&ring_)) return entry;
    Poll(0);  // Only schedules; so it is safe in the middle of a coroutine.
  }
}

void Ring::Poll(TimeNs timeout_ns) {
  if (io_uring_cq_ready(&ring_) > 0) timeout_ns = 0;
  if (timeout_ns == 0) {
    CheckEntered(io_uring_submit_and_get_events(&ring_));
  } else if (timeout_ns == kNoDeadline) {
    CheckEntered(io_uring_submit_and_wait(&ring_, 1));
  } else {
    __kernel_timespec timeout = {
        .tv_sec = static_cast<long long>(timeout_ns / kSecond),
        .tv_nsec = static_cast<long long>(timeout_ns % kSecond)};
    io_uring_cqe* unused = nullptr;
    CheckEntered(io_uring_submit_and_wait_timeout(&ring_, &unused, 1, &timeout,
                                                  nullptr));
  }
  Reap();
}

void Ring::Reap() {
  ReapOnce();
  // The kernel keeps what did not fit, and hands it over when asked.
  while (io_uring_cq_has_overflow(&ring_)) {
    CheckEntered(io_uring_get_events(&ring_));
    ReapOnce();
  }
}

void Ring::ReapOnce() {
  io_uring_cqe* completion;
  unsigned head;
  unsigned count = 0;
  io_uring_for_each_cqe(&ring_, head, completion) {
    ++count;
    auto* const op = static_cast<RingOp*>(io_uring_cqe_get_data(completion));
    if (op == nullptr) continue;  // A cancellation, or the first round trip.
    CAIRN_CHECK(in_flight_ > 0);
    --in_flight_;
    op->result_ = completion->res;
    executor_->Schedule(op->waiter_);
  }
  io_uring_cq_advance(&ring_, count);
}

absl::Status Ring::RegisterBuffers(format::MutableBytes region) {
  std::vector<iovec> pieces;
  for (uint64_t at = 0; at < region.size(); at += kRingBufferBytesMax) {
    const uint64_t size_bytes =
        std::min(region.size() - at, kRingBufferBytesMax);
    pieces.push_back({region.data() + at, size_bytes});
  }
  if (pieces.empty()) return absl::OkStatus();
  const int result = io_uring_register_buffers(
      &ring_, pieces.data(), static_cast<unsigned>(pieces.size()));
  if (result < 0) return Refused(-result, "io_uring_register_buffers");
  registered_ = region;
  return absl::OkStatus();
}

std::optional<int> Ring::BufferOf(format::ConstBytes bytes) const {
  const uintptr_t start = reinterpret_cast<uintptr_t>(registered_.data());
  const uintptr_t at = reinterpret_cast<uintptr_t>(bytes.data());
  if (bytes.empty() || at < start) return std::nullopt;
  const uint64_t first = at - start;
  const uint64_t last = first + bytes.size() - 1;
  if (last >= registered_.size()) return std::nullopt;
  const uint64_t index = first / kRingBufferBytesMax;
  if (index != last / kRingBufferBytesMax) return std::nullopt;
  return static_cast<int>(index);
}

int Ring::RegisterFile(int fd) {
  if (free_slots_.empty()) return -1;
  const int slot = free_slots_.back();
  if (io_uring_register_files_update(&ring_, static_cast<unsigned>(slot), &fd,
                                     1) != 1) {
    return -1;
  }
  free_slots_.pop_back();
  return slot;
}

void Ring::UnregisterFile(int slot) {
  int none = -1;
  CAIRN_CHECK(io_uring_register_files_update(
                  &ring_, static_cast<unsigned>(slot), &none, 1) == 1);
  free_slots_.push_back(slot);
}

}  // namespace cairn::io
