// A simulated disk with a file system on it; it outlives the processes that
// use it.
//
// Durability: file changes become durable by Sync or a durable write, names
//             (create, rename, remove, mkdir) by SyncDirectory of a directory
//             they touch. Crash() undoes what is not durable: file changes as
//             CrashOptions say; names so that within one directory a change
//             survives only if all earlier ones did (a journal keeps order),
//             and a rename is never half done.
// Faults:     armed from tests with Fail(), CorruptFile(),
// set_capacity_bytes(). Threads:    none; nothing here suspends. SimEnv adds
// the time it takes. Errors:     as io/env.h.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "io/env.h"
#include "tests/sim/file_data.h"
#include "tests/sim/random.h"

namespace cairn::sim {

enum class DiskOp { kRead, kWrite, kSync };

struct DiskFault {
  DiskOp op = DiskOp::kWrite;
  uint64_t nth = 1;    // Counted from when it is armed; 1: the next one.
  uint64_t times = 1;  // How many in a row fail.
  absl::Status status = absl::DataLossError("EIO (injected)");
  std::string path_contains;  // Only files opened by such a path.
};

struct DiskOptions {
  uint64_t capacity_bytes = uint64_t{1} << 40;
  // Latency of one operation, drawn evenly, plus size over bandwidth.
  io::TimeNs latency_ns_min = 20 * io::kMicrosecond;
  io::TimeNs latency_ns_max = 200 * io::kMicrosecond;
  io::TimeNs sync_ns_max = 2 * io::kMillisecond;
  uint64_t bytes_per_microsecond = 2000;
};

// A file or a directory. Lives while a directory, the durable state or an open
// file refers to it: hence shared_ptr.
struct Inode {
  Inode(uint64_t number, bool is_directory, uint64_t* used_bytes)
      : number(number), is_directory(is_directory), data(used_bytes) {}
  const uint64_t number;
  const bool is_directory;
  FileData data;
  std::map<std::string, std::shared_ptr<Inode>> entries;
  std::map<std::string, std::shared_ptr<Inode>> durable_entries;
};
using InodePtr = std::shared_ptr<Inode>;

class Disk {
 public:
  Disk(DiskOptions options, uint64_t seed);

  // --- Faults and inspection, for tests.
  void Fail(DiskFault fault) { faults_.push_back(std::move(fault)); }
  void ClearFaults() { faults_.clear(); }
  // Inverts the bits of `mask` in one byte, in the cache and on the device.
  absl::Status CorruptFile(std::string_view path, uint64_t offset,
                           uint8_t mask = 1);
  void set_capacity_bytes(uint64_t bytes) { options_.capacity_bytes = bytes; }
  uint64_t used_bytes() const { return used_bytes_; }
  // Power is lost. Files open now are dead; their processes must be too.
  void Crash(const CrashOptions& options);

  // --- Names.
  absl::StatusOr<InodePtr> Open(std::string_view path,
                                const io::OpenOptions& options);
  absl::Status MakeDirectory(std::string_view path);
  absl::StatusOr<std::vector<std::string>> List(std::string_view path);
  absl::StatusOr<std::optional<io::FileInfo>> Stat(std::string_view path);
  absl::Status Rename(std::string_view from, std::string_view to);
  absl::Status Remove(std::string_view path);
  absl::Status SyncDirectory(std::string_view path);
  io::DiskSpace Space() const;

  // --- Data. Write and Resize return the number of the change; Reserve only
  // grows.
  absl::Status Read(Inode* file, uint64_t offset, io::MutableBytes to);
  absl::StatusOr<uint64_t> Write(Inode* file, uint64_t offset,
                                 io::ConstBytes from);
  absl::Status Reserve(Inode* file, uint64_t size_bytes);

  // --- Locks, by open file; `process` is whose death frees them.
  bool Lock(const Inode* file, uint64_t process, const void* holder);
  void Unlock(const Inode* file, const void* holder);
  void UnlockAllOf(uint64_t process);

  // The armed failure that this operation runs into; OK if none.
  absl::Status NextFault(DiskOp op, std::string_view path);
  io::TimeNs Latency(uint64_t size_bytes);
  io::TimeNs SyncLatency();
  bool FlipCoin() { return random_.OneIn(2); }
  uint64_t PartOf(uint64_t size_bytes) {
    return random_.Between(0, size_bytes);
  }

 private:
  struct NameChange {  // `target` null: the name goes.
    InodePtr directory;
    std::string name;
    InodePtr target;
  };
  using DirectoryOp = std::vector<NameChange>;  // All of it, or nothing.
  struct Held {
    uint64_t process;
    const void* holder;
  };
  struct Place {  // Where a path leads: its parent, and what is there if any.
    InodePtr parent;
    std::string name;
    InodePtr inode;
    std::vector<const Inode*> above;  // All directories passed through.
  };

  absl::StatusOr<Place> Find(std::string_view path) const;
  absl::StatusOr<InodePtr> FindDirectory(std::string_view path) const;
  InodePtr NewInode(bool is_directory);
  void Do(DirectoryOp op);
  static void MakeDurable(const DirectoryOp& op);
  void CrashNames(const CrashOptions& options);
  void CrashTree(Inode* inode, const CrashOptions& options);

  DiskOptions options_;
  Random random_;
  uint64_t used_bytes_ = 0;  // Before root_: every inode counts in it.
  uint64_t inodes_made_ = 0;
  InodePtr root_;
  std::vector<DirectoryOp> pending_;  // Not yet durable, oldest first.
  std::map<uint64_t, Held> locks_;    // By inode number.
  std::vector<DiskFault> faults_;
};

}  // namespace cairn::sim
