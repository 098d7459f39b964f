// BasicFile: the File of both real backends. A Port does single reads, writes
// and syncs; here are the loops, checks and errors around them.
//
// Port:
//   Read(offset, MutableBytes), Write(offset, ConstBytes, durable), Sync():
//       awaitables of an int64_t, the count moved or a negative errno;
//   Forget():    the descriptor is about to be closed.
//   blocking():  where calls that block run.
#pragma once

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>

#include "io/env.h"
#include "io/limits.h"
#include "io/posix/errno_status.h"
#include "io/posix/paths.h"
#include "io/threads/blocking_pool.h"

namespace cairn::io {

template <typename Port>
class BasicFile final : public File {
 public:
  BasicFile(Port port, posix::OpenedFile opened, OpenOptions options,
            std::string path)
      : port_(std::move(port)),
        fd_(opened.fd),
        must_align_(options.direct),
        is_direct_(opened.direct),
        path_(std::move(path)) {}
  BasicFile(const BasicFile&) = delete;
  BasicFile& operator=(const BasicFile&) = delete;
  ~BasicFile() override { CAIRN_CHECK(fd_ < 0 && in_flight_ == 0); }

  Task<absl::Status> ReadAt(uint64_t offset, MutableBytes to) override;
  Task<absl::Status> WriteAt(uint64_t offset, ConstBytes from,
                             WriteOptions options) override;
  Task<absl::Status> Sync() override;
  Task<absl::StatusOr<uint64_t>> SizeBytes() override;
  Task<absl::Status> Allocate(uint64_t size_bytes) override;
  Task<absl::Status> Truncate(uint64_t size_bytes) override;
  Task<absl::Status> LockExclusive() override;
  Task<absl::Status> Close() override;

 private:
  // Counts an operation while it is in flight.
  class InFlight {
   public:
    explicit InFlight(BasicFile* file) : file_(file) {
      CAIRN_CHECK(file->fd_ >= 0);
      ++file_->in_flight_;
    }
    InFlight(const InFlight&) = delete;
    InFlight& operator=(const InFlight&) = delete;
    ~InFlight() { --file_->in_flight_; }

   private:
    BasicFile* const file_;
  };

  absl::Status CheckAligned(uint64_t offset, const void* memory,
                            uint64_t size_bytes) const;
  absl::Status Failed(const char* what, uint64_t offset, int error) const;
  absl::StatusOr<uint64_t> SizeNow() const;
  absl::StatusOr<bool> EndsAt(uint64_t offset) const;

  Port port_;
  int fd_;
  const bool must_align_;  // The caller asked for O_DIRECT,
  const bool is_direct_;   // and it is on.
  bool is_locked_ = false;
  uint32_t in_flight_ = 0;
  const std::string path_;
};

template <typename Port>
Task<absl::Status> BasicFile<Port>::ReadAt(uint64_t offset, MutableBytes to) {
  const InFlight in_flight(this);
  CAIRN_CO_RETURN_IF_ERROR(CheckAligned(offset, to.data(), to.size()));
  uint32_t retries = 0;
  for (uint64_t done = 0; done < to.size();) {
    const uint64_t wanted = std::min(to.size() - done, kIoBytesMax);
    auto read = port_.Read(offset + done, to.subspan(done, wanted));
    const int64_t count = co_await read;
    if (count < 0) {
      const int error = static_cast<int>(-count);
      if (IsTransient(error) && ++retries < kTransientRetriesMax) continue;
      co_return Failed("read", offset + done, error);
    }
    retries = 0;
    const uint64_t moved = static_cast<uint64_t>(count);
    CAIRN_CHECK(moved <= wanted);
    done += moved;
    if (done == to.size()) break;
    // A direct read stops at the end at any byte, and cannot go on from there.
    bool ends = moved == 0;
    if (!ends && is_direct_ && done % format::kDiskAlignBytes != 0) {
      CAIRN_CO_ASSIGN_OR_RETURN(ends, EndsAt(offset + done));
    }
    if (ends) {
      co_return absl::OutOfRangeError(
          absl::StrCat(path_, ": ends at ", offset + done, ", wanted ",
                       to.size(), " bytes from ", offset));
    }
  }
  co_return absl::OkStatus();
}

template <typename Port>
Task<absl::Status> BasicFile<Port>::WriteAt(uint64_t offset, ConstBytes from,
                                            WriteOptions options) {
  const InFlight in_flight(this);
  CAIRN_CO_RETURN_IF_ERROR(CheckAligned(offset, from.data(), from.size()));
  uint32_t retries = 0;
  for (uint64_t done = 0; done < from.size();) {
    const uint64_t wanted = std::min(from.size() - done, kIoBytesMax);
    auto write =
        port_.Write(offset + done, from.subspan(done, wanted), options.durable);
    const int64_t count = co_await write;
    if (count < 0) {
      const int error = static_cast<int>(-count);
      if (IsTransient(error) && ++retries < kTransientRetriesMax) continue;
      co_return Failed("write", offset + done, error);
    }
    if (count == 0) co_return Failed("write", offset + done, EIO);
    retries = 0;
    CAIRN_CHECK(static_cast<uint64_t>(count) <= wanted);
    done += static_cast<uint64_t>(count);
  }
  co_return absl::OkStatus();
}

template <typename Port>
Task<absl::Status> BasicFile<Port>::Sync() {
  const InFlight in_flight(this);
  for (uint32_t retries = 0;; ++retries) {
    auto sync = port_.Sync();
    const int64_t result = co_await sync;
    if (result == 0) co_return absl::OkStatus();
    const int error = static_cast<int>(-result);
    if (error != EINTR || retries >= kTransientRetriesMax) {
      co_return ErrnoStatus(error, "fdatasync " + path_);
    }
  }
}

template <typename Port>
Task<absl::StatusOr<uint64_t>> BasicFile<Port>::SizeBytes() {
  CAIRN_CHECK(fd_ >= 0);
  co_return SizeNow();
}

template <typename Port>
Task<absl::Status> BasicFile<Port>::Allocate(uint64_t size_bytes) {
  const InFlight in_flight(this);
  if (size_bytes == 0) co_return absl::OkStatus();
  auto allocate = [this, size_bytes] {
    int error;
    do {
      error = posix_fallocate(fd_, 0, static_cast<off_t>(size_bytes));
    } while (error == EINTR);
    return error;
  };
  BlockingCall call(port_.blocking(), std::move(allocate));
  const int error = co_await call;
  if (error != 0) co_return ErrnoStatus(error, "fallocate " + path_);
  co_return absl::OkStatus();
}

template <typename Port>
Task<absl::Status> BasicFile<Port>::Truncate(uint64_t size_bytes) {
  const InFlight in_flight(this);
  auto truncate = [this, size_bytes] {
    int result;
    do {
      result = ftruncate(fd_, static_cast<off_t>(size_bytes));
    } while (result != 0 && errno == EINTR);
    return result == 0 ? 0 : errno;
  };
  BlockingCall call(port_.blocking(), std::move(truncate));
  const int error = co_await call;
  if (error != 0) co_return ErrnoStatus(error, "truncate " + path_);
  co_return absl::OkStatus();
}

template <typename Port>
Task<absl::Status> BasicFile<Port>::LockExclusive() {
  CAIRN_CHECK(fd_ >= 0);
  int result;
  do {
    result = flock(fd_, LOCK_EX | LOCK_NB);
  } while (result != 0 && errno == EINTR);
  if (result == 0) {
    is_locked_ = true;
    co_return absl::OkStatus();
  }
  const int error = errno;
  if (error == EWOULDBLOCK) {
    co_return absl::FailedPreconditionError(path_ +
                                            ": locked by another process");
  }
  co_return ErrnoStatus(error, "lock " + path_);
}

template <typename Port>
Task<absl::Status> BasicFile<Port>::Close() {
  CAIRN_CHECK(fd_ >= 0 && in_flight_ == 0);
  // A ring may keep the file open a little longer than the descriptor.
  if (is_locked_) flock(fd_, LOCK_UN);
  port_.Forget();
  const int fd = std::exchange(fd_, -1);
  auto close_fd = [fd] { return close(fd) == 0 ? 0 : errno; };
  BlockingCall call(port_.blocking(), std::move(close_fd));
  const int error = co_await call;
  // After EINTR the descriptor is closed all the same.
  if (error == 0 || error == EINTR) co_return absl::OkStatus();
  co_return ErrnoStatus(error, "close " + path_);
}

template <typename Port>
absl::Status BasicFile<Port>::CheckAligned(uint64_t offset, const void* memory,
                                           uint64_t size_bytes) const {
  if (!must_align_) return absl::OkStatus();
  const uint64_t bits =
      offset | size_bytes | reinterpret_cast<uintptr_t>(memory);
  if (bits % format::kDiskAlignBytes == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(path_, ": direct I/O of ", size_bytes, " bytes at ", offset,
                   " is not aligned to ", format::kDiskAlignBytes));
}

template <typename Port>
absl::Status BasicFile<Port>::Failed(const char* what, uint64_t offset,
                                     int error) const {
  return ErrnoStatus(error,
                     absl::StrCat(what, " ", path_, " at offset ", offset));
}

template <typename Port>
absl::StatusOr<uint64_t> BasicFile<Port>::SizeNow() const {
  struct stat info;
  off_t size_bytes = -1;
  if (fstat(fd_, &info) == 0) {
    size_bytes = S_ISBLK(info.st_mode) ? lseek(fd_, 0, SEEK_END) : info.st_size;
  }
  if (size_bytes < 0) {
    const int error = errno;
    return ErrnoStatus(error, "size of " + path_);
  }
  return static_cast<uint64_t>(size_bytes);
}

template <typename Port>
absl::StatusOr<bool> BasicFile<Port>::EndsAt(uint64_t offset) const {
  CAIRN_ASSIGN_OR_RETURN(const uint64_t size_bytes, SizeNow());
  return offset >= size_bytes;
}

}  // namespace cairn::io
