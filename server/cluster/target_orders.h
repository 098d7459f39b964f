// TargetOrders: what the metadata service tells and asks targets.
//
// Deletion is by order only: a target never frees a chunk on its own, and takes
// orders from nobody but metadata.
//
// Threads: one loop; calls may overlap.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "format/base/ids.h"
#include "format/wire/target.pb.h"
#include "io/executor.h"
#include "io/task.h"

namespace cairn::server {

class TargetOrders {
 public:
  virtual ~TargetOrders() = default;

  // Where the target is from now on.
  virtual void SetAddress(format::TargetId /*target*/,
                          std::string /*address*/) {}

  // OK: no chunk of the blobs is on the target any more (there may have been
  // none). Idempotent. `meta_sequence` is that of the decision.
  // kFailedPrecondition: the target has seen newer metadata than that: this
  //   store was restored from an old copy, and deletes nothing.
  // kUnavailable, kDeadlineExceeded: not confirmed; order again later.
  virtual io::Task<absl::Status> DeleteBlobs(format::TargetId target,
                                             std::vector<format::BlobId> blobs,
                                             uint64_t meta_sequence) = 0;

  // Makes the target hold a shard of a group that it does not have yet, and
  // says how far that is: order again until it is done. Errors: not accepted,
  // or not known; nothing is lost by ordering again.
  virtual io::Task<absl::StatusOr<wire::RebuildShardResponse>> RebuildShard(
      wire::RebuildShardRequest request) = 0;

  // OK: no chunk of the group is on the target any more. Errors as
  // DeleteBlobs(); kFailedPrecondition also: the target is in the row.
  virtual io::Task<absl::Status> DropGroup(wire::DropGroupRequest request) = 0;

  // A page of a group's chunks.
  virtual io::Task<absl::StatusOr<wire::ListChunksResponse>> ListChunks(
      wire::ListChunksRequest request) = 0;

  virtual io::Task<absl::StatusOr<wire::TargetStatusResponse>> Status(
      format::TargetId target) = 0;

  // The same, ahead of other traffic, and given up at `deadline`.
  virtual io::Task<absl::StatusOr<wire::TargetStatusResponse>> Heartbeat(
      format::TargetId target, io::TimeNs deadline) = 0;
};

}  // namespace cairn::server
