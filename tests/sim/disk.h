// A simulated disk with a file system on it; it outlives the processes that
// use it.
//
// Durability: file changes become durable by Sync or a durable write, names
//             (create, rename, remove, mkdir) by SyncDirectory of a directory
//             they touch. Crash() undoes what is not durable: file changes as
//             CrashOptions say; names so that within one directory a change
//             survives only if all earlier ones did (a journal keeps order),
//             and a rename is never half done.
// Faults:     armed one by one, drawn by rates, or done at once, by tests. What
//             they leave behind is in damages().
// Threads:    none; nothing here suspends. SimEnv adds the time it takes.
// Errors:     as io/env.h.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "io/env.h"
#include "tests/sim/disk_faults.h"
#include "tests/sim/file_data.h"
#include "tests/sim/random.h"

namespace cairn::sim {

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
  void Fail(DiskFault fault) { faults_.Arm(std::move(fault)); }
  void ClearFaults() { faults_.Disarm(); }  // Armed ones.
  void set_fault_rates(DiskFaultRates rates) {
    faults_.set_rates(std::move(rates));
  }
  // Inverts the bits of `mask` in one byte, in the cache and on the device.
  absl::Status CorruptFile(std::string_view path, uint64_t offset,
                           uint8_t mask = 1);
  // Flips one bit at each of `count` seeded places that are durable and not
  // zeros, in files whose path contains that. Returns where; fewer than `count`
  // if there is little to hit.
  std::vector<Damage> Rot(std::string_view path_contains, uint64_t count);
  // What lost and misdirected writes, lies and rot did, oldest first.
  const std::vector<Damage>& damages() const { return damages_; }
  // Memory is short: readers see the device again, with what the cache still
  // means to write. What a failed flush forgot shows as it is.
  void DropCache();
  void set_capacity_bytes(uint64_t bytes) { options_.capacity_bytes = bytes; }
  uint64_t used_bytes() const { return used_bytes_; }
  // Changes that a loss of power may take, in the order of the bits of
  // CrashOptions::survivors: names, oldest first; then, file by file in order
  // of paths, bytes and sizes, oldest first.
  uint64_t unflushed() const;
  // World::SlowDisk(), World::HangDisk().
  void set_slow_factor(uint64_t factor);
  void set_hung(bool hung) { hung_ = hung; }
  bool hung() const { return hung_; }
  void NoteHung() { Fired(FaultKind::kHungDisk, 0); }
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

  // --- Data, through the faults. `path` is what the file was opened by.
  absl::Status FaultyRead(Inode* file, std::string_view path, uint64_t offset,
                          io::MutableBytes to);
  // The number of the change; 0: none, there is nothing to flush.
  absl::StatusOr<uint64_t> FaultyWrite(Inode* file, std::string_view path,
                                       uint64_t offset, io::ConstBytes from);
  // Makes the changes up to `change` durable.
  absl::Status FaultySync(Inode* file, std::string_view path, uint64_t change);
  // Makes that change of a durable write durable.
  absl::Status FaultyFlush(Inode* file, std::string_view path, uint64_t change);
  // As SyncDirectory().
  absl::Status FaultySyncDirectory(std::string_view path);
  // The failure of an operation on names; OK if none.
  absl::Status NameFault(std::string_view path);

  // --- Locks, by open file; `process` is whose death frees them.
  bool Lock(const Inode* file, uint64_t process, const void* holder);
  void Unlock(const Inode* file, const void* holder);
  void UnlockAllOf(uint64_t process);

  void set_on_fault(std::function<void(FaultKind, uint64_t)> on_fault) {
    on_fault_ = std::move(on_fault);
  }
  io::TimeNs Latency(uint64_t size_bytes);
  io::TimeNs SyncLatency();
  bool FlipCoin() { return random_.OneIn(2); }

 private:
  struct NameChange {  // `target` null: the name goes.
    InodePtr directory;
    std::string name;
    InodePtr target;
  };
  struct DirectoryOp {
    std::vector<NameChange> changes;  // All of it, or nothing.
    bool doomed = false;              // A flush lied about it.
  };
  struct NamedFile {
    std::string path;
    Inode* inode;
  };
  struct Spot {
    NamedFile file;
    uint64_t offset;
  };
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
  absl::Status CheckRoomForName(std::string_view path);
  void Do(std::vector<NameChange> changes);
  // Which of pending_ a flush of the directory makes durable.
  std::vector<bool> CoveredBy(const Inode* directory) const;
  static void MakeDurable(const DirectoryOp& op);
  // These use up the bits of `options` that are theirs.
  void CrashNames(CrashOptions* options, Random* random);
  static bool Survives(const DirectoryOp& op, CrashOptions* options,
                       Random* random);
  void CrashTree(Inode* inode, CrashOptions* options, Random* random);

  void Fired(FaultKind kind, uint64_t where) {
    if (on_fault_) on_fault_(kind, where);
  }
  void Damaged(FaultKind kind, std::string_view path, uint64_t offset,
               uint64_t size_bytes);
  absl::Status Full();
  io::TimeNs Slowed(io::TimeNs latency);
  // Files in order of their paths.
  std::vector<NamedFile> FilesWith(std::string_view path_contains) const;
  // A seeded byte of what the files store.
  std::optional<Spot> PickStored(const std::vector<NamedFile>& files);
  // Another place for an aligned transfer.
  std::optional<Spot> PickOther(const Inode* file, uint64_t offset,
                                uint64_t size_bytes,
                                std::string_view path_contains);
  bool RotOnce(const std::vector<NamedFile>& files, std::vector<Damage>* hits);
  void RotIn(Inode* file, std::string_view path, uint64_t offset,
             uint64_t size_bytes);
  absl::StatusOr<uint64_t> LoseWrite(Inode* file, std::string_view path,
                                     uint64_t offset, uint64_t size_bytes);
  absl::StatusOr<uint64_t> MisdirectWrite(Inode* file, std::string_view path,
                                          uint64_t offset, io::ConstBytes from,
                                          std::string_view path_contains);
  // Puts what the faulty device returns in place of `bytes`.
  void Distort(const DiskHit& hit, Inode* file, uint64_t offset,
               io::MutableBytes bytes);
  bool Misread(const Inode* file, uint64_t offset, io::MutableBytes bytes,
               std::string_view path_contains);

  DiskOptions options_;
  Random random_;
  uint64_t used_bytes_ = 0;  // Before root_: every inode counts in it.
  uint64_t inodes_made_ = 0;
  InodePtr root_;
  std::vector<DirectoryOp> pending_;  // Not yet durable, oldest first.
  std::map<uint64_t, Held> locks_;    // By inode number.
  DiskFaults faults_;
  std::vector<Damage> damages_;
  std::function<void(FaultKind, uint64_t)> on_fault_;
  uint64_t slow_factor_ = 1;
  bool slowness_noted_ = false;
  bool hung_ = false;
};

}  // namespace cairn::sim
