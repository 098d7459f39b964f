// Env: the only way to the world for everything above io/.
//
// Clock, randomness, timers, files, sockets and off-loaded work of one event
// loop. Three implementations: io_uring (io/uring), plain system calls
// (io/plain), and the simulator (tests/sim). All three pass
// tests/conformance/env_conformance.h.
//
// Threads:    an Env belongs to one thread; only Post() may be called from
//             others.
// Lifetime:   files, streams and listeners must be closed and destroyed before
//             their Env.
// Ownership of memory: every read, write, send and receive owns the memory it
//             was given until its Task finishes, also when it fails.
// Errors:     kNotFound (no such path), kAlreadyExists, kPermissionDenied,
//             kResourceExhausted (disk or descriptors full), kUnavailable (peer
//             gone, connection refused or lost: try again later),
//             kDeadlineExceeded, kInvalidArgument (a path or address that
//             cannot be), kDataLoss (EIO, or a file shorter than asked),
//             kInternal (anything else, with the errno's name).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "format/base/bytes.h"
#include "format/base/status.h"
#include "io/buffer_pool.h"
#include "io/executor.h"
#include "io/task.h"
#include "io/wait.h"

namespace cairn::io {

using format::ConstBytes;
using format::MutableBytes;

struct OpenOptions {
  bool write = false;
  bool create = false;      // Make the file if it is absent.
  bool exclusive = false;   // With create: kAlreadyExists if it is there.
  bool truncate = false;
  // O_DIRECT: offsets, sizes and memory must be multiples of
  // format::kDiskAlignBytes. Falls back to the page cache, with a log line,
  // where the file system has no O_DIRECT (tmpfs).
  bool direct = false;
};

struct WriteOptions {
  // RWF_DSYNC: the write is on stable storage when it finishes. Without it,
  // after the next Sync().
  bool durable = false;
};

// An open file. Calls may overlap; overlapping writes to one range are the
// caller's race.
class File {
 public:
  virtual ~File() = default;
  // Fills all of `to` from `offset`, looping over short reads, any size (past
  // 2^31 too). kOutOfRange: the file ends first (what was read is in `to`).
  virtual Task<absl::Status> ReadAt(uint64_t offset, MutableBytes to) = 0;
  // Writes all of `from`, looping over short writes. After a failure the range
  // holds anything, and the device may have dropped more: see Sync().
  virtual Task<absl::Status> WriteAt(uint64_t offset, ConstBytes from,
                                     WriteOptions options = {}) = 0;
  // fdatasync. A failure means that writes finished since the last good Sync()
  // may be lost even if a later Sync() succeeds: give the file up.
  virtual Task<absl::Status> Sync() = 0;
  virtual Task<absl::StatusOr<uint64_t>> SizeBytes() = 0;
  // fallocate: makes the file at least `size_bytes` long with its space
  // reserved. kResourceExhausted: the disk is full.
  virtual Task<absl::Status> Allocate(uint64_t size_bytes) = 0;
  virtual Task<absl::Status> Truncate(uint64_t size_bytes) = 0;
  // Takes an exclusive lock on the file that dies with the process.
  // kFailedPrecondition: another process holds it.
  virtual Task<absl::Status> LockExclusive() = 0;
  // Call once, when nothing is in flight; the destructor checks that it was.
  virtual Task<absl::Status> Close() = 0;
};

// A connected byte stream (TCP, Unix socket, simulated). One reader and one
// writer coroutine at a time may be in flight.
class Stream {
 public:
  virtual ~Stream() = default;
  // Fills all of `to`, in order, looping over short receives.
  // kUnavailable: the peer closed or the connection broke first; if it closed
  // before the first byte, the message is exactly "end of stream".
  virtual Task<absl::Status> ReceiveAll(std::span<const MutableBytes> to) = 0;
  // Receives at least one byte, at most to.size(). 0: end of stream.
  virtual Task<absl::StatusOr<uint64_t>> ReceiveSome(MutableBytes to) = 0;
  // Sends all of `from`, in order. `more`: another send follows at once
  // (MSG_MORE). kUnavailable: the connection broke.
  virtual Task<absl::Status> SendAll(std::span<const ConstBytes> from,
                                     bool more = false) = 0;
  // Breaks the connection: operations in flight, and all later ones, end with
  // kUnavailable. Idempotent, does not suspend. Their memory is theirs until
  // they have ended.
  virtual void Shutdown() = 0;
  // "127.0.0.1:40312" of the other side, for messages.
  virtual std::string peer() const = 0;
  // Call once, after Shutdown() and when nothing is in flight.
  virtual Task<void> Close() = 0;
};

class Listener {
 public:
  virtual ~Listener() = default;
  // The next connection. kUnavailable: Shutdown() was called.
  virtual Task<absl::StatusOr<std::unique_ptr<Stream>>> Accept() = 0;
  // Where it listens, with the real port: "127.0.0.1:7400".
  virtual std::string address() const = 0;
  virtual void Shutdown() = 0;
  virtual Task<void> Close() = 0;
};

struct FileInfo {
  bool is_directory = false;
  uint64_t size_bytes = 0;
};

struct DiskSpace {
  uint64_t total_bytes = 0;
  uint64_t free_bytes = 0;
};

class Env : public Executor {
 public:
  // --- Clock, randomness, threads.
  // Nanoseconds since 1970: for display and mtimes only, never for safety.
  virtual TimeNs WallNs() = 0;
  virtual uint64_t Random() = 0;
  // Runs `work` on the loop soon. Thread-safe; the only method that is.
  virtual void Post(std::function<void()> work) = 0;
  // Runs `work`, which may block, on a helper thread (inline in the
  // simulator); resumes here when it is done. Never for payload bytes.
  virtual Task<void> RunBlocking(std::function<void()> work) = 0;

  // --- Files. Paths are absolute or relative to the process.
  virtual Task<absl::StatusOr<std::unique_ptr<File>>> OpenFile(
      std::string path, OpenOptions options) = 0;
  virtual Task<absl::Status> MakeDirectory(std::string path) = 0;
  // Names in the directory, sorted, without "." and "..".
  virtual Task<absl::StatusOr<std::vector<std::string>>> ListDirectory(
      std::string path) = 0;
  // nullopt: nothing there.
  virtual Task<absl::StatusOr<std::optional<FileInfo>>> Stat(
      std::string path) = 0;
  virtual Task<absl::Status> Rename(std::string from, std::string to) = 0;
  virtual Task<absl::Status> Remove(std::string path) = 0;
  // Makes creations, renames and removals in the directory durable.
  virtual Task<absl::Status> SyncDirectory(std::string path) = 0;
  virtual Task<absl::StatusOr<DiskSpace>> Space(std::string path) = 0;

  // --- Network. Addresses: "127.0.0.1:7400", "[::1]:7400", "unix:/path".
  // Port 0 picks a free one. kAlreadyExists: the address is in use.
  virtual Task<absl::StatusOr<std::unique_ptr<Listener>>> Listen(
      std::string address) = 0;
  virtual Task<absl::StatusOr<std::unique_ptr<Stream>>> Connect(
      std::string address, TimeNs deadline) = 0;

  // --- Memory that disks and sockets work on; registered where that helps.
  virtual BufferPool* pool() = 0;

  // "io_uring", "plain", "sim".
  virtual const char* name() const = 0;
};

}  // namespace cairn::io
