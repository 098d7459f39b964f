// The cluster map: targets, pools and their placement groups, by version.
//
// Immutable once made; share it as std::shared_ptr<const ClusterMap> (readers
// keep the version they started with). docs/format.md#cluster-map.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "format/base/ids.h"
#include "format/base/limits.h"

namespace cairn::wire {
class ClusterMap;
}

namespace cairn::format {

// Persisted: add values, never renumber.
enum class SchemeKind : uint32_t { kReplicate = 1, kReedSolomon = 2 };
enum class FailureDomain : uint32_t { kTarget = 1, kHost = 2, kRack = 3 };
enum class TargetState : uint32_t {
  kUp = 1,
  kSuspect = 2,  // Missed heartbeats, or takes no writes: no new stripes.
  kDown = 3,     // Reads go elsewhere.
  kOut = 4,      // Its shards are being rebuilt elsewhere.
  kDraining = 5,
};
// "up", "suspect"...; "unknown" for what is none.
std::string_view ToString(TargetState state);

struct Scheme {
  SchemeKind kind = SchemeKind::kReplicate;
  uint32_t data_shards = 1;    // k.
  uint32_t parity_shards = 0;  // m.
  uint32_t shards() const { return data_shards + parity_shards; }
  friend bool operator==(const Scheme&, const Scheme&) = default;
};
// "rs:4+2", "replicate:3". kInvalidArgument says what is allowed.
absl::StatusOr<Scheme> ParseScheme(std::string_view text);
std::string ToString(const Scheme& scheme);

struct TargetInfo {
  TargetId id;
  std::string address;
  std::string host;
  std::string rack;
  TargetState state = TargetState::kUp;
  uint64_t capacity_bytes = 0;
  std::string directory;
};

struct Pool {
  PoolId id;
  std::string name;
  Scheme scheme;
  uint32_t chunk_size = kChunkBytesMax;
  uint32_t stripe_width = 0;  // PGs one blob spreads over.
  FailureDomain failure_domain = FailureDomain::kTarget;
  uint32_t pg_count = 0;
  std::vector<TargetId> pg_targets;  // pg_count rows of scheme.shards().
  // The map epoch at which each row got the targets it has: ClusterMap::PgEpoch
  // reads them. Empty: the map's own, for every row.
  std::vector<Epoch> pg_epochs;
  // Rows that take no new stripes although their targets may be well: one of
  // their shards is being moved. Ascending.
  std::vector<uint32_t> closed_pgs;

  // The ordered targets of a row; shard i lives on the i-th.
  std::span<const TargetId> PgTargets(uint32_t pg) const;
  // Design section 2: (mix(blob) + stripe mod stripe_width) mod pg_count.
  uint32_t PgOf(BlobId blob, uint32_t stripe) const;
  bool IsClosed(uint32_t pg) const;
  // Nothing if it is so already.
  void Close(uint32_t pg);
  void Open(uint32_t pg);
  uint64_t stripe_bytes() const {  // User bytes in a full stripe.
    return uint64_t{scheme.data_shards} * chunk_size;
  }
};

struct ClusterMap {
  ClusterId cluster_id;
  Epoch epoch;
  std::map<TargetId, TargetInfo> targets;
  std::map<PoolId, Pool> pools;

  const TargetInfo* FindTarget(TargetId id) const;  // Null: unknown.
  const Pool* FindPool(PoolId id) const;
  const Pool* FindPool(std::string_view name) const;
  // True if every target of the PG is kUp and it is not closed: only then new
  // stripes go there.
  bool PgHealthy(const Pool& pool, uint32_t pg) const;
  // False: it is down, out or unknown: a read asks others first.
  bool MayRead(TargetId id) const;
  // Since when the row has the targets it has. A chunk that was put under an
  // older map may lie where nobody looks for it.
  Epoch PgEpoch(const Pool& pool, uint32_t pg) const;
};

// Gives every row of `next` its epoch: the one it has in `before` if the pool
// and the row's targets are the same there, else that of `next`. A row that has
// it already keeps it: a fence on purpose. Changes of states leave all alone,
// but for one: a row with a target that is taken out, or put back, gets the
// epoch of `next`; so does one that is closed there and was not. From then on
// only chunks that were committed before are listed by a rebuild, and no other
// chunk of before can be committed.
void CarryPgEpochs(const ClusterMap& before, ClusterMap* next);

// kInvalidArgument names the first thing that is wrong: counts over limits, a
// PG row with an unknown or repeated target, a scheme that cannot be...
absl::Status ValidateMap(const ClusterMap& map);

void MapToProto(const ClusterMap& map, wire::ClusterMap* proto);
// Validates. kDataLoss: the message is not a valid map.
absl::StatusOr<ClusterMap> MapFromProto(const wire::ClusterMap& proto);

}  // namespace cairn::format
