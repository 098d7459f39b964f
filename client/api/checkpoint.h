// Checkpoint sets: what N ranks write for one step, published all at once.
//
// Each rank is a process of its own; there is no rank 0, no collective and no
// barrier. Every rank opens a CheckpointWriter with the same path, set id,
// attempt and world size, adds its tensors and commits. The last rank's commit
// publishes the set in one transaction; before it nothing is visible.
//
//   CheckpointWriter::Options options;
//   options.path = "/ckpt/run1/step-100";
//   options.set_id = "step-100";
//   options.world_size = 8;
//   options.rank = rank;
//   auto writer = CheckpointWriter::Open(cluster, options);
//   (*writer)->AddTensor(tensor);
//   absl::Status saved = (*writer)->Commit();  // Durable and published.
//
// States:   staged     your buffers may change;
//           durable    this rank's bytes survive m lost targets and any crash;
//           published  the set is visible, complete, to everybody.
// Failure:  a failed save leaves nothing visible and the previous sets intact;
//           open the next attempt (attempt + 1), which fences this one.
// Threads:  one thread per writer or reader; different ones are independent.
// Memory:   tensors are sent straight from the given memory: staged and
//           durable are therefore reached at the same moment. What a writer
//           needs on its own is under 96 MiB.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/api/cluster.h"
#include "format/checkpoint/dtype.h"

namespace cairn::client {

using format::Dtype;

// A slice of a global tensor in this rank's memory.
struct TensorView {
  std::string name;  // UTF-8, at most 4096 bytes; may be empty.
  Dtype dtype = Dtype::kF32;
  std::vector<uint64_t> global_shape;
  std::vector<uint64_t> offset;  // Of the slice; empty: all zero.
  std::vector<uint64_t> shape;   // Of the slice; empty: the global shape.
  // Distance between neighbours along each dimension, in elements; empty:
  // dense row-major. Sub-byte types must be dense.
  std::vector<int64_t> strides;
  const void* data = nullptr;  // First element. May be null if empty.
};
struct MutableTensorView {
  std::string name;
  Dtype dtype = Dtype::kF32;
  std::vector<uint64_t> global_shape;
  std::vector<uint64_t> offset;
  std::vector<uint64_t> shape;
  std::vector<int64_t> strides;
  void* data = nullptr;
};

class CheckpointWriter {
 public:
  struct Options {
    std::string path;    // Absolute; parents are made.
    std::string set_id;  // Same for all ranks of the save.
    uint64_t attempt = 1;
    uint32_t world_size = 1;
    uint32_t rank = 0;
    std::string pool;  // Empty: the default pool.
    // For Commit() and Wait*(); 0: the cluster's timeout. When it passes, the
    // error names the ranks that have not committed.
    uint64_t timeout_ms = 0;
    // Called from the loop thread with bytes durable so far and in all.
    std::function<void(uint64_t done, uint64_t total)> progress;
  };

  // kAlreadyExists: the path is a published set, or this rank is claimed by
  //   another live process (named). kAborted: a newer attempt exists.
  // kInvalidArgument: the world size differs from that of the other ranks...
  static absl::StatusOr<std::unique_ptr<CheckpointWriter>> Open(
      Cluster* cluster, Options options);
  virtual ~CheckpointWriter() = default;

  // Registers a tensor; sends nothing yet. The memory must stay unchanged until
  // staged. kInvalidArgument: shape, offset, strides or dtype do not fit.
  virtual absl::Status AddTensor(TensorView tensor) = 0;
  // Opaque bytes under a name, copied here; one rank per name.
  virtual absl::Status AddBytes(std::string name, std::string bytes) = 0;

  // Writes everything and commits this rank; does not wait for other ranks.
  // OK: staged and durable. After an error the writer is dead.
  virtual absl::Status WriteAndCommitRank() = 0;
  // Waits until all ranks have committed. kDeadlineExceeded names the missing
  // ranks; the set may still be published later. kAborted: fenced.
  virtual absl::Status WaitPublished() = 0;
  // Both.
  absl::Status Commit() {
    absl::Status status = WriteAndCommitRank();
    return status.ok() ? WaitPublished() : status;
  }
};

struct TensorPartInfo {
  uint32_t rank = 0;
  std::vector<uint64_t> offset;
  std::vector<uint64_t> shape;
  uint64_t bytes = 0;
  uint64_t xxh3 = 0;  // XXH3-64 of the part's dense bytes.
};
struct TensorInfo {
  std::string name;
  bool opaque = false;
  Dtype dtype = Dtype::kU8;
  std::vector<uint64_t> shape;
  uint64_t bytes = 0;
  std::vector<TensorPartInfo> parts;
};

struct SetSummary {
  std::string path;
  std::string set_id;
  uint64_t attempt = 0;
  uint32_t world_size = 0;
  bool published = false;
  uint32_t committed_ranks = 0;
  std::vector<uint32_t> missing_ranks;  // Of an unpublished one, the first 64.
  uint64_t bytes = 0;
  uint64_t tensors = 0;
  uint64_t published_ns = 0;  // Since 1970.
};

class CheckpointReader {
 public:
  struct Options {
    std::string path;
    uint64_t timeout_ms = 0;  // For each call; 0: the cluster's timeout.
    std::function<void(uint64_t done, uint64_t total)> progress;
  };

  // kNotFound: no published set there (the message says if one is open, and
  // which ranks it misses).
  static absl::StatusOr<std::unique_ptr<CheckpointReader>> Open(
      Cluster* cluster, Options options);
  virtual ~CheckpointReader() = default;

  virtual const SetSummary& summary() const = 0;
  // All entries in order of name; fetches the manifest block by block.
  virtual absl::Status ForEachTensor(
      const std::function<bool(const TensorInfo&)>& visit) = 0;
  // nullopt: no such name.
  virtual absl::StatusOr<std::optional<TensorInfo>> FindTensor(
      const std::string& name) = 0;

  // Fills every view from the set, whatever the layout it was saved in. Reads
  // exactly the bytes needed; every byte is verified.
  // kNotFound: a name is missing. kInvalidArgument: dtype or global shape
  //   differ from the saved ones (no casts), or a slice is outside.
  // kDataLoss: names the tensor and the chunk. On any error the memory of the
  //   views holds anything.
  virtual absl::Status Load(std::span<const MutableTensorView> views) = 0;
  virtual absl::StatusOr<std::string> LoadBytes(const std::string& name) = 0;
};

// Sets in `path` and below, oldest publication first; open attempts too if
// asked for (published == false).
absl::StatusOr<std::vector<SetSummary>> ListSets(Cluster* cluster,
                                                 const std::string& path,
                                                 bool unpublished);
// Removes a set, published or not; its space comes back after the grace time.
absl::Status RemoveSet(Cluster* cluster, const std::string& path);

// Re-reads everything below `path` (a file, directory or set; every shard,
// parity included) and checks every checksum.
struct VerifyReport {
  uint64_t files = 0;
  uint64_t sets = 0;
  uint64_t bytes = 0;
  uint64_t chunks = 0;
  uint64_t bad_chunks = 0;
  // "/ckpt/a/rank-00000.safetensors: chunk 1:42/3/0 on target 5: ..."
  std::vector<std::string> problems;
  // Files of which bytes are lost beyond repair; empty: all readable.
  std::vector<std::string> lost;
};
absl::StatusOr<VerifyReport> Verify(
    Cluster* cluster, const std::string& path,
    const std::function<void(uint64_t bytes_done)>& progress);

}  // namespace cairn::client
