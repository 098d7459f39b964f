// Cluster: a connection to a Cairn cluster, and the names in it.
//
//   auto cluster = cairn::client::Cluster::Connect(
//       {.address = "127.0.0.1:7400"});
//   if (!cluster.ok()) return cluster.status();
//   auto file = (*cluster)->Open("/data/log", {.write = true, .create = true});
//
// Threads:   every method may be called from any thread, at the same time;
//            calls block their thread (the work runs on the cluster's own loop
//            thread).
// Lifetime:  files, writers and readers made from a Cluster must be destroyed
//            before it.
// fork():    connect after forking; a Cluster does not survive a fork.
// Sessions:  Connect opens a session with a lease that the loop renews. A
//            process that stops for longer than the lease (30 s) is fenced:
//            its unfinished writes fail with kAborted, nothing half-visible.
// Retries:   lost connections and restarted servers are ridden out until the
//            call's deadline (Options::timeout_ms); mutations have at most one
//            effect however often they are sent.
// Errors common to all calls (others are listed where they occur):
//   kDeadlineExceeded  nothing decided in time: the message names the server,
//                      target or ranks that were waited for. Try again later.
//   kUnavailable       as above, decided before the deadline.
//   kFailedPrecondition  wrong cluster, protocol version, or a server that
//                      refuses to serve: the message says what to do.
//   kNotFound, kAlreadyExists, kInvalidArgument: the path, and why.
//   kDataLoss          bytes are damaged beyond what the pool's scheme repairs;
//                      the message names the chunks.
//   kResourceExhausted no space: the message has the pool's numbers.
//   kAborted           fenced: the session was lost, or a newer attempt exists.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace cairn::client {

class ClusterCore;  // client/core: not part of the interface.
class File;

struct Options {
  // "host:port" of the metadata service.
  std::string address;
  // How long a call waits, all retries included. 0: forever.
  uint64_t timeout_ms = 60'000;
  // Bytes of data in flight; the window adapts below these.
  uint64_t write_window_bytes = 32 * 1024 * 1024;
  uint64_t read_window_bytes = 64 * 1024 * 1024;
  // Shown in `cairn status`, logs and messages of others. Default: "host/pid".
  std::string name;
  // Who owns what is created. Default: the process's user and group.
  std::optional<uint32_t> uid;
  std::optional<uint32_t> gid;
};

enum class EntryType { kFile, kDirectory, kSymlink };

struct Stat {
  uint64_t inode = 0;
  EntryType type = EntryType::kFile;
  uint32_t mode = 0;  // Permission bits.
  uint32_t uid = 0;
  uint32_t gid = 0;
  uint32_t nlink = 0;
  uint64_t size_bytes = 0;
  uint64_t mtime_ns = 0;  // Since 1970.
  uint64_t ctime_ns = 0;
  std::string symlink;  // Its target, for symlinks.
};

struct DirectoryEntry {
  std::string name;
  Stat stat;
};

struct OpenOptions {
  bool write = false;
  bool create = false;     // Make it if absent (with mode).
  bool exclusive = false;  // With create: kAlreadyExists if it is there.
  bool truncate = false;
  uint32_t mode = 0644;
};

struct PoolStatus {
  std::string name;
  std::string scheme;  // "rs:4+2".
  uint64_t chunk_size_bytes = 0;
  uint32_t pg_count = 0;
  // User bytes: raw capacity divided by the scheme's overhead.
  uint64_t capacity_bytes = 0;
  uint64_t available_bytes = 0;
};

struct TargetStatus {
  uint32_t id = 0;
  std::string address;
  std::string host;
  std::string directory;
  std::string state;         // "up", "down", ...
  std::string problem;       // Empty: healthy.
  uint64_t in_state_ms = 0;  // How long it has been in `state`, if known.
  uint64_t capacity_bytes = 0;
  uint64_t used_bytes = 0;
  uint64_t chunks = 0;
  uint64_t corrupt_blocks = 0;
};

// Shards of placement groups on their way to other targets: those of targets
// that are out, of targets that are emptied, and of targets that have more than
// their share.
struct RebuildProgress {
  uint64_t shards_waiting = 0;  // Of targets that are out: not begun.
  uint64_t shards_moving = 0;   // In all.
  uint64_t drain_left = 0;      // Of targets that are emptied.
  uint64_t drain_moving = 0;    // Of these.
  uint64_t balance_left = 0;    // Of targets with too many.
  uint64_t balance_moving = 0;  // Of these.
  std::string balance_waits;    // Why none of them begins; empty: they do.
  uint64_t shards_moved = 0;    // Since the metadata service started.
  uint64_t bytes_done = 0;      // Of those that are moving.
  uint64_t bytes_todo = 0;      // Those done included.
  uint64_t bytes_per_s = 0;     // Lately.
  uint64_t left_ms = 0;         // Estimated, for all; 0: not known.
  std::vector<std::string> problems;  // Why something does not go on.
};

// The reading again of all that is stored, the comparing of chunk lists, and
// what came of it. Of what targets read: since the start of each; the rest
// since that of the metadata service.
struct ScrubStatus {
  uint64_t targets_on = 0;  // That scrub, of those that answer.
  uint64_t verified_bytes = 0;
  uint64_t damaged_chunks = 0;  // Found by reading.
  uint64_t damaged_now = 0;     // Of those: not good again yet.
  uint64_t absent_chunks = 0;   // Found by comparing lists.
  uint64_t repaired_chunks = 0;
  uint64_t unrepaired_chunks = 0;  // Tried, without success so far.
  uint64_t pass_bytes_done = 0;    // Of the passes under way, all targets.
  uint64_t pass_bytes_todo = 0;
  uint64_t targets_passed = 0;   // That read all they have at least once.
  uint64_t since_pass_ms = 0;    // Of those: the longest since it was done.
  uint64_t groups_compared = 0;  // In this pass over all placement groups.
  uint64_t groups = 0;
  uint64_t compare_passes = 0;
  std::vector<std::string> problems;  // Chunks that could not be repaired...
};

struct ClusterStatus {
  std::string cluster_id;
  std::string address;
  std::string version;
  std::string io_backend;
  uint64_t epoch = 0;
  uint64_t uptime_ms = 0;
  uint64_t sessions = 0;
  uint64_t files = 0;
  uint64_t sets_published = 0;
  uint64_t trash_files = 0;
  uint64_t garbage_blobs = 0;
  uint64_t resident_bytes = 0;  // Of the metadata server's process.
  std::vector<PoolStatus> pools;
  std::vector<TargetStatus> targets;
  // Every target up and without problem, and no chunk that cannot be repaired.
  bool healthy = true;
  RebuildProgress rebuild;
  ScrubStatus scrub;
  // Why the cluster does nothing by itself about targets that are down: too
  // many are. Empty: it may.
  std::string brake;
  // Disks that claim to be targets and were turned away: what happened and what
  // to do. They serve nothing, so this alone does not make it unhealthy.
  std::vector<std::string> quarantined;
};

// What reads had to work around since Connect().
struct RepairReport {
  uint64_t chunks_unreachable = 0;  // Target down or slow: other shards used.
  uint64_t chunks_corrupt = 0;      // Checksum or identity wrong.
  uint64_t bytes_decoded = 0;       // Rebuilt by the code or read elsewhere.
  // "chunk 1:42/3/0 on target 5: ...", at most 16.
  std::vector<std::string> examples;
};

// Counters since Connect(), for tests, benches and metrics.
struct IoCounters {
  uint64_t payload_bytes_sent = 0;  // Chunk bytes, parity included.
  uint64_t payload_bytes_received = 0;
  uint64_t chunks_put = 0;
  uint64_t chunks_got = 0;
  uint64_t calls = 0;
  uint64_t retries = 0;
  // Stripes written again elsewhere, because a target failed under them.
  uint64_t stripes_moved = 0;
  // Calls that took, or would have taken, many times as long as those to other
  // targets.
  uint64_t slow_calls = 0;
};

class Cluster {
 public:
  // Reaches the metadata service, fetches the map, opens the session.
  // kUnavailable/kDeadlineExceeded: nothing answers at `address` (named).
  static absl::StatusOr<std::unique_ptr<Cluster>> Connect(Options options);
  // CAIRN_CLUSTER from the environment, if `address` is empty.
  static absl::StatusOr<std::string> ResolveAddress(std::string address);
  ~Cluster();  // Closes the session. Waits for calls in flight.

  // --- Names. Paths are absolute; see docs/format.md#names. None of these
  // follows a symlink in the last component; all do in the components before.
  absl::StatusOr<Stat> GetStat(const std::string& path);
  // As GetStat, but absence is nullopt and no error.
  absl::StatusOr<std::optional<Stat>> Find(const std::string& path);
  // Sorted bytewise by name. Pages internally; calls `visit` for each entry
  // until it returns false.
  absl::Status List(const std::string& path,
                    const std::function<bool(const DirectoryEntry&)>& visit);
  // `parents`: also make missing ones, and accept that `path` is a directory.
  absl::Status MakeDirectory(const std::string& path, bool parents = false,
                             uint32_t mode = 0755);
  // Atomic; replaces what POSIX lets rename(2) replace.
  absl::Status Rename(const std::string& from, const std::string& to,
                      bool no_replace = false);
  absl::Status Unlink(const std::string& path);           // Not directories.
  absl::Status RemoveDirectory(const std::string& path);  // Must be empty.
  // rm -r: all below `path` too, published sets included.
  // Calls `removed` (may be null) after each name.
  absl::Status RemoveAll(
      const std::string& path,
      const std::function<void(const std::string&)>& removed);
  absl::Status Symlink(const std::string& target, const std::string& path);
  absl::Status Link(const std::string& from, const std::string& to);
  absl::Status SetMode(const std::string& path, uint32_t mode);
  absl::Status SetTimes(const std::string& path, uint64_t mtime_ns);

  // kNotFound; kFailedPrecondition: a directory. Follows symlinks.
  absl::StatusOr<std::unique_ptr<File>> Open(const std::string& path,
                                             OpenOptions options);

  absl::StatusOr<ClusterStatus> GetStatus();
  RepairReport repairs() const;
  IoCounters counters() const;

  ClusterCore* core() { return core_.get(); }  // For client/ itself.

 private:
  explicit Cluster(std::unique_ptr<ClusterCore> core);
  std::unique_ptr<ClusterCore> core_;
};

}  // namespace cairn::client
