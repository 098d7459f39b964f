#include "client/cli/local_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "format/base/status.h"

namespace cairn::client::cli {

namespace {
absl::Status Failed(const std::string& path) {
  const int error = errno;
  const std::string text = absl::StrCat(path, ": ", std::strerror(error));
  if (error == ENOENT) return absl::NotFoundError(text);
  if (error == ENOSPC) return absl::ResourceExhaustedError(text);
  if (error == EACCES) return absl::PermissionDeniedError(text);
  return absl::InternalError(text);
}
}  // namespace

AlignedMemory::AlignedMemory(uint64_t size_bytes) : size_(size_bytes) {
  void* const mapped =
      mmap(nullptr, size_bytes == 0 ? 1 : size_bytes, PROT_READ | PROT_WRITE,
           MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CAIRN_CHECK(mapped != MAP_FAILED);
  (void)madvise(mapped, size_bytes, MADV_HUGEPAGE);
  data_ = static_cast<uint8_t*>(mapped);
}

AlignedMemory::~AlignedMemory() { munmap(data_, size_ == 0 ? 1 : size_); }

absl::StatusOr<std::unique_ptr<LocalFile>> LocalFile::OpenForRead(
    const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return Failed(path);
  struct stat info;
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    close(fd);
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": not a regular file"));
  }
  return std::unique_ptr<LocalFile>(
      new LocalFile(fd, path, "", static_cast<uint64_t>(info.st_size)));
}

absl::StatusOr<std::unique_ptr<LocalFile>> LocalFile::CreateBeside(
    const std::string& path) {
  const std::string temporary = absl::StrCat(path, ".", getpid(), ".part");
  const int fd =
      open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) return Failed(temporary);
  return std::unique_ptr<LocalFile>(new LocalFile(fd, path, temporary, 0));
}

LocalFile::~LocalFile() {
  close(fd_);
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

absl::Status LocalFile::ReadAt(uint64_t offset, std::span<uint8_t> to) {
  while (!to.empty()) {
    const ssize_t got =
        pread(fd_, to.data(), to.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Failed(path_);
    if (got == 0) {
      return absl::DataLossError(
          absl::StrCat(path_, ": became shorter while it was read"));
    }
    to = to.subspan(static_cast<size_t>(got));
    offset += static_cast<uint64_t>(got);
  }
  return absl::OkStatus();
}

absl::Status LocalFile::WriteAt(uint64_t offset,
                                std::span<const uint8_t> from) {
  while (!from.empty()) {
    const ssize_t put =
        pwrite(fd_, from.data(), from.size(), static_cast<off_t>(offset));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return Failed(temporary_);
    from = from.subspan(static_cast<size_t>(put));
    offset += static_cast<uint64_t>(put);
  }
  return absl::OkStatus();
}

absl::Status LocalFile::Commit() {
  if (fsync(fd_) != 0) return Failed(temporary_);
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) {
    return Failed(path_);
  }
  temporary_.clear();
  return absl::OkStatus();
}

}  // namespace cairn::client::cli
