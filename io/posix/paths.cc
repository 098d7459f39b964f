#include "io/posix/paths.h"

#include <dirent.h>
#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>

#include "io/posix/errno_status.h"

namespace cairn::io::posix {
namespace {

absl::Status LastError(const char* what, const std::string& path) {
  const int error = errno;
  return ErrnoStatus(error, std::string(what) + " " + path);
}

int OpenRetrying(const std::string& path, int flags) {
  int fd;
  do {
    fd = open(path.c_str(), flags, 0644);
  } while (fd < 0 && errno == EINTR);
  return fd;
}

int FlagsOf(OpenOptions options) {
  int flags = O_CLOEXEC | (options.write ? O_RDWR : O_RDONLY);
  if (options.create) flags |= O_CREAT;
  if (options.create && options.exclusive) flags |= O_EXCL;
  if (options.truncate) flags |= O_TRUNC;
  return flags;
}

}  // namespace

absl::StatusOr<OpenedFile> OpenFd(const std::string& path,
                                  OpenOptions options) {
  int flags = FlagsOf(options);
  OpenedFile file;
  if (options.direct) {
    file.fd = OpenRetrying(path, flags | O_DIRECT);
    file.direct = file.fd >= 0;
    if (file.fd < 0 && errno != EINVAL) return LastError("open", path);
    if (file.fd < 0) {
      spdlog::warn("{}: its file system has no O_DIRECT; using the page cache",
                   path);
      // The refused open may have made the file already.
      flags &= ~O_EXCL;
    }
  }
  if (file.fd < 0) file.fd = OpenRetrying(path, flags);
  if (file.fd < 0) return LastError("open", path);
  return file;
}

absl::Status MakeDirectory(const std::string& path) {
  if (mkdir(path.c_str(), 0755) != 0) return LastError("mkdir", path);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> ListDirectory(
    const std::string& path) {
  DIR* const directory = opendir(path.c_str());
  if (directory == nullptr) return LastError("list", path);
  std::vector<std::string> names;
  errno = 0;
  while (const dirent* const entry = readdir(directory)) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
    errno = 0;
  }
  absl::Status status = absl::OkStatus();
  if (errno != 0) status = LastError("list", path);
  closedir(directory);
  if (!status.ok()) return status;
  std::sort(names.begin(), names.end());
  return names;
}

absl::StatusOr<std::optional<FileInfo>> Stat(const std::string& path) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0) {
    if (errno == ENOENT || errno == ENOTDIR) return std::nullopt;
    return LastError("stat", path);
  }
  return FileInfo{.is_directory = S_ISDIR(info.st_mode),
                  .size_bytes = static_cast<uint64_t>(info.st_size)};
}

absl::Status Rename(const std::string& from, const std::string& to) {
  if (rename(from.c_str(), to.c_str()) != 0) {
    return LastError("rename", from + " to " + to);
  }
  return absl::OkStatus();
}

absl::Status Remove(const std::string& path) {
  if (std::remove(path.c_str()) != 0) return LastError("remove", path);
  return absl::OkStatus();
}

absl::Status SyncDirectory(const std::string& path) {
  const int fd = OpenRetrying(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return LastError("open", path);
  absl::Status status = absl::OkStatus();
  if (fsync(fd) != 0) status = LastError("fsync", path);
  close(fd);
  return status;
}

absl::StatusOr<DiskSpace> Space(const std::string& path) {
  struct statvfs info;
  if (statvfs(path.c_str(), &info) != 0) return LastError("statvfs", path);
  return DiskSpace{
      .total_bytes = static_cast<uint64_t>(info.f_blocks) * info.f_frsize,
      .free_bytes = static_cast<uint64_t>(info.f_bavail) * info.f_frsize};
}

}  // namespace cairn::io::posix
