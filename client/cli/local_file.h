// Files of the machine that the command runs on, with whole reads and writes.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "absl/status/statusor.h"

namespace cairn::client::cli {

// Page-aligned memory on huge pages where possible; freed when it goes away.
class AlignedMemory {
 public:
  explicit AlignedMemory(uint64_t size_bytes);
  AlignedMemory(const AlignedMemory&) = delete;
  AlignedMemory& operator=(const AlignedMemory&) = delete;
  ~AlignedMemory();
  std::span<uint8_t> bytes() const { return {data_, size_}; }

 private:
  uint8_t* data_;
  uint64_t size_;
};

class LocalFile {
 public:
  static absl::StatusOr<std::unique_ptr<LocalFile>> OpenForRead(
      const std::string& path);
  // A new file that takes `path`'s place at Commit(); removed otherwise.
  static absl::StatusOr<std::unique_ptr<LocalFile>> CreateBeside(
      const std::string& path);
  ~LocalFile();

  uint64_t size_bytes() const { return size_; }
  // kDataLoss: the file is shorter than it was when it was opened.
  absl::Status ReadAt(uint64_t offset, std::span<uint8_t> to);
  absl::Status WriteAt(uint64_t offset, std::span<const uint8_t> from);
  // fsync, and rename to the final name.
  absl::Status Commit();

 private:
  LocalFile(int fd, std::string path, std::string temporary, uint64_t size)
      : fd_(fd),
        path_(std::move(path)),
        temporary_(std::move(temporary)),
        size_(size) {}
  const int fd_;
  const std::string path_;
  std::string temporary_;  // Empty: not ours to remove.
  const uint64_t size_;
};

}  // namespace cairn::client::cli
