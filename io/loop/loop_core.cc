#include "io/loop/loop_core.h"

#include <sys/random.h>
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <span>
#include <utility>

namespace cairn::io {
namespace {

TimeNs ClockNs(clockid_t clock) {
  timespec now;
  CAIRN_CHECK(clock_gettime(clock, &now) == 0);
  return static_cast<TimeNs>(now.tv_sec) * kSecond +
         static_cast<TimeNs>(now.tv_nsec);
}

void FillRandom(std::span<uint64_t> words) {
  ssize_t filled;
  do {
    filled = getrandom(words.data(), words.size_bytes(), 0);
  } while (filled < 0 && errno == EINTR);
  // Up to 256 bytes never come short.
  CAIRN_CHECK(filled == static_cast<ssize_t>(words.size_bytes()));
}
static_assert(kRandomWordsBuffered * sizeof(uint64_t) <= 256);

uint32_t ThreadsMax(uint32_t asked) {
  return std::clamp<uint32_t>(asked, 1, kBlockingThreadsMax);
}

}  // namespace

LoopCore::LoopCore(const LoopOptions& options, uint32_t extra_threads)
    : blocking_(&mailbox_,
                ThreadsMax(options.blocking_threads + extra_threads)),
      pool_(this, options.pool_large_buffers, options.pool_lazy) {}

TimeNs LoopCore::NowNs() { return ClockNs(CLOCK_MONOTONIC); }
TimeNs LoopCore::WallNs() { return ClockNs(CLOCK_REALTIME); }

uint64_t LoopCore::Random() {
  if (random_words_left_ == 0) {
    FillRandom(random_words_);
    random_words_left_ = random_words_.size();
  }
  return random_words_[--random_words_left_];
}

void LoopCore::Post(std::function<void()> work) {
  mailbox_.Post(std::move(work));
}

Task<void> LoopCore::RunBlocking(std::function<void()> work) {
  auto run = [&work] {
    work();
    return true;
  };
  BlockingCall call(&blocking_, std::move(run));
  CAIRN_CHECK(co_await call);
}

Task<absl::StatusOr<std::unique_ptr<File>>> LoopCore::OpenFile(
    std::string path, OpenOptions options) {
  auto open = [&path, options] { return posix::OpenFd(path, options); };
  BlockingCall call(&blocking_, std::move(open));
  absl::StatusOr<posix::OpenedFile> opened = co_await call;
  if (!opened.ok()) co_return opened.status();
  co_return MakeFile(*opened, options, std::move(path));
}

Task<absl::Status> LoopCore::MakeDirectory(std::string path) {
  auto make = [&path] { return posix::MakeDirectory(path); };
  BlockingCall call(&blocking_, std::move(make));
  co_return co_await call;
}

Task<absl::StatusOr<std::vector<std::string>>> LoopCore::ListDirectory(
    std::string path) {
  auto list = [&path] { return posix::ListDirectory(path); };
  BlockingCall call(&blocking_, std::move(list));
  co_return co_await call;
}

Task<absl::StatusOr<std::optional<FileInfo>>> LoopCore::Stat(std::string path) {
  auto stat = [&path] { return posix::Stat(path); };
  BlockingCall call(&blocking_, std::move(stat));
  co_return co_await call;
}

Task<absl::Status> LoopCore::Rename(std::string from, std::string to) {
  auto rename = [&from, &to] { return posix::Rename(from, to); };
  BlockingCall call(&blocking_, std::move(rename));
  co_return co_await call;
}

Task<absl::Status> LoopCore::Remove(std::string path) {
  auto remove = [&path] { return posix::Remove(path); };
  BlockingCall call(&blocking_, std::move(remove));
  co_return co_await call;
}

Task<absl::Status> LoopCore::SyncDirectory(std::string path) {
  auto sync = [&path] { return posix::SyncDirectory(path); };
  BlockingCall call(&blocking_, std::move(sync));
  co_return co_await call;
}

Task<absl::StatusOr<DiskSpace>> LoopCore::Space(std::string path) {
  auto space = [&path] { return posix::Space(path); };
  BlockingCall call(&blocking_, std::move(space));
  co_return co_await call;
}

void LoopCore::RunUntilDone(Task<void> task) {
  CAIRN_CHECK(!std::exchange(is_running_, true));
  Gate gate(this);
  gate.Spawn(std::move(task));
  while (gate.in_flight() > 0) Turn();
  is_running_ = false;
}

void LoopCore::Turn() {
  Poll(PollTimeout());
  FireTimers();
  ResumeReady();
}

TimeNs LoopCore::PollTimeout() {
  if (!ready_.empty()) return 0;
  const TimeNs deadline = timers_.next_deadline();
  if (deadline == kNoDeadline) return kNoDeadline;
  const TimeNs now = NowNs();
  return deadline > now ? deadline - now : 0;
}

void LoopCore::FireTimers() {
  if (timers_.empty()) return;
  const TimeNs now = NowNs();
  while (Timer* const timer = timers_.PopDue(now)) timer->Fire();
}

void LoopCore::ResumeReady() {
  running_.swap(ready_);
  for (const std::coroutine_handle<> handle : running_) handle.resume();
  running_.clear();
}

}  // namespace cairn::io
