// Pools: makes pools: their options, and their table of placement groups.
//
// Durability: an answer tells only what is on stable storage.
// Threads:    one loop. Lifetime: as the Core.
#pragma once

#include "format/cluster/placement.h"
#include "format/wire/member.pb.h"
#include "server/meta/core.h"

namespace cairn::server {

// The placement of a pool with this scheme, failure domain, row count and id
// over the targets that may hold its data: those in service that are neither
// out nor being emptied.
format::PlacementRequest PlacementOf(const format::ClusterMap& map,
                                     const format::Pool& pool);

class Pools {
 public:
  explicit Pools(Core* core) : core_(core) {}

  // Over all targets in service that are neither out nor being emptied.
  // OK also if there is a pool of that name with just these options.
  // kAlreadyExists: there is one with others. kInvalidArgument: options that
  // cannot be, or too few targets in different failure domains (says how many
  // there are and how many are needed).
  io::Task<absl::StatusOr<wire::CreatePoolResponse>> Create(
      wire::CreatePoolRequest request);

 private:
  Core* const core_;
};

}  // namespace cairn::server
