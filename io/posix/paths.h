// Blocking system calls on paths, shared by both backends, which run them on
// helper threads. Errors are those of io/env.h, annotated with the path.
//
// Threads: any.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "format/base/status.h"
#include "io/env.h"

namespace cairn::io::posix {

struct OpenedFile {
  int fd = -1;
  // O_DIRECT is really on; false although asked for where the file system has
  // none (logged).
  bool direct = false;
};

absl::StatusOr<OpenedFile> OpenFd(const std::string& path, OpenOptions options);
absl::Status MakeDirectory(const std::string& path);
absl::StatusOr<std::vector<std::string>> ListDirectory(const std::string& path);
absl::StatusOr<std::optional<FileInfo>> Stat(const std::string& path);
absl::Status Rename(const std::string& from, const std::string& to);
absl::Status Remove(const std::string& path);
absl::Status SyncDirectory(const std::string& path);
absl::StatusOr<DiskSpace> Space(const std::string& path);

}  // namespace cairn::io::posix
