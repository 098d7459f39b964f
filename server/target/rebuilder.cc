#include "server/target/rebuilder.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "format/base/status.h"
#include "server/target/limits.h"

namespace cairn::server {

using format::PgId;
using format::RebuildState;
using io::Task;

namespace {

absl::StatusOr<PgId> ParseGroup(uint32_t pool, uint32_t pg) {
  if (pool == 0 || pool > UINT16_MAX || pg >= format::kPgsPerPoolMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("no group ", pg, " of pool ", pool, " can be"));
  }
  return PgId{format::PoolId(static_cast<uint16_t>(pool)), pg};
}

absl::StatusOr<format::Pool> ParseShape(
    const wire::RebuildShardRequest& request) {
  format::Pool pool;
  pool.scheme.kind = static_cast<format::SchemeKind>(request.scheme().kind());
  pool.scheme.data_shards = request.scheme().data_shards();
  pool.scheme.parity_shards = request.scheme().parity_shards();
  pool.chunk_size = request.chunk_size();
  // As text, because that knows what schemes there are.
  const absl::StatusOr<format::Scheme> known =
      format::ParseScheme(ToString(pool.scheme));
  if (!known.ok() || *known != pool.scheme ||
      request.shard() >= pool.scheme.shards() ||
      pool.chunk_size < format::kChunkBytesMin ||
      pool.chunk_size > format::kChunkBytesMax) {
    return absl::InvalidArgumentError(absl::StrCat(
        "no shard ", request.shard(), " of ", ToString(pool.scheme),
        " with chunks of ", pool.chunk_size, " bytes can be"));
  }
  return pool;
}

absl::Status CheckSources(const wire::RebuildShardRequest& request,
                          const format::Pool& pool) {
  std::set<uint32_t> shards;
  for (const wire::RebuildSource& source : request.sources()) {
    if (source.shard() < pool.scheme.shards() &&
        source.target() != request.target() &&
        shards.insert(source.shard()).second) {
      continue;
    }
    return absl::InvalidArgumentError(
        absl::StrCat("target ", source.target(), " with shard ", source.shard(),
                     " cannot be a source"));
  }
  if (!shards.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError("a rebuild without sources");
}

absl::StatusOr<std::vector<StripeName>> ParseRepair(
    const wire::RebuildShardRequest& request, PgId pg) {
  std::vector<StripeName> stripes;
  for (const wire::StripeRef& ref : request.repair()) {
    StripeName& name = stripes.emplace_back();
    name.blob = format::BlobId(ref.blob());
    name.stripe = ref.stripe();
    if (name.blob.pool() == pg.pool && name.blob.sequence() != 0 &&
        name.stripe < format::kStripesPerBlobMax &&
        stripes.size() <= kRepairStripesMax) {
      continue;
    }
    return absl::InvalidArgumentError(absl::StrCat(
        "stripe ", ref.stripe(), " of ", ToString(name.blob), ", or ",
        request.repair_size(), " stripes in one order, cannot be repaired in ",
        ToString(pg)));
  }
  return stripes;
}

uint64_t ChunksAtOnce(io::Env* env) {
  const uint64_t large = env->pool()->region().size() / format::kChunkBytesMax;
  return std::clamp<uint64_t>(large / kRebuildPoolShare, 1,
                              kRebuildChunksAtOnce);
}

}  // namespace

Rebuilder::Rebuilder(io::Env* env)
    : env_(env), share_(env, ChunksAtOnce(env)), gate_(env) {}

Rebuilder::~Rebuilder() { CAIRN_CHECK(rebuilds_.empty()); }

absl::StatusOr<wire::RebuildShardResponse> Rebuilder::Order(
    ChunkStore* store, const wire::RebuildShardRequest& request) {
  if (closed_) return absl::UnavailableError("shutting down");
  CAIRN_ASSIGN_OR_RETURN(const PgId pg,
                         ParseGroup(request.pool(), request.pg()));
  CAIRN_ASSIGN_OR_RETURN(const format::Pool pool, ParseShape(request));
  CAIRN_RETURN_IF_ERROR(CheckSources(request, pool));
  CAIRN_ASSIGN_OR_RETURN(const std::vector<StripeName> repair,
                         ParseRepair(request, pg));
  const Place place(request.target(), pg);
  if (dropping_.contains(place)) {
    return absl::UnavailableError("the group is being erased here");
  }
  // From here on no older order to drop the group is obeyed.
  store->NoteMetaSequence(request.meta_sequence());
  const auto found = rebuilds_.find(place);
  if (found != rebuilds_.end()) {
    Entry& entry = found->second;
    if (request.meta_sequence() < entry.sequence) {
      return absl::FailedPreconditionError(absl::StrCat(
          "an order of metadata sequence ", request.meta_sequence(),
          ", after one of ", entry.sequence));
    }
    entry.sequence = request.meta_sequence();
    const wire::RebuildShardResponse report = entry.rebuild->Report();
    const bool same = entry.fence_epoch == request.fence_epoch() &&
                      entry.rebuild->goal().shard == request.shard() &&
                      entry.rebuild->repair() == repair;
    if (!entry.over && !same) {
      entry.rebuild->Stop();
      return absl::UnavailableError("an older order of the group ends first");
    }
    // A good outcome may be asked for again; after another one the next order
    // tries again.
    const bool keep =
        !entry.over || (entry.rebuild->state() == RebuildState::kDone &&
                        entry.rebuild->lost_stripes() == 0);
    if (same && keep) return report;
    rebuilds_.erase(found);
    if (same) return report;
  }
  CAIRN_RETURN_IF_ERROR(Start(store, place, request));
  return rebuilds_.at(place).rebuild->Report();
}

absl::Status Rebuilder::Start(ChunkStore* store, const Place& place,
                              const wire::RebuildShardRequest& request) {
  if (Running() >= kRebuildTasksMax) {
    return absl::UnavailableError("too many rebuilds at once");
  }
  CAIRN_ASSIGN_OR_RETURN(const format::Pool pool, ParseShape(request));
  CAIRN_ASSIGN_OR_RETURN(std::vector<StripeName> repair,
                         ParseRepair(request, place.second));
  if (!repair.empty() && request.meta_sequence() < erased_[place.first]) {
    return absl::UnavailableError(
        absl::StrCat("decided at metadata sequence ", request.meta_sequence(),
                     ", and chunks were deleted here at ", erased_[place.first],
                     ": decide again"));
  }
  if (rebuilds_.size() >= kRebuildsKeptMax) ForgetOldest();
  ShardGoal goal;
  goal.cluster_id = store->identity().cluster_id;
  goal.target = store->identity().target_id;
  goal.pg = place.second;
  goal.shard = request.shard();
  goal.pool = pool;
  goal.meta_sequence = request.meta_sequence();
  std::vector<wire::RebuildSource> sources(request.sources().begin(),
                                           request.sources().end());
  Entry& entry = rebuilds_[place];
  entry.rebuild =
      std::make_unique<ShardRebuild>(env_, store, &share_, std::move(goal),
                                     std::move(sources), std::move(repair));
  entry.fence_epoch = request.fence_epoch();
  entry.sequence = request.meta_sequence();
  entry.started = ++orders_;
  gate_.Spawn(Run(place, entry.rebuild.get()));
  return absl::OkStatus();
}

Task<void> Rebuilder::Run(Place place, ShardRebuild* rebuild) {
  co_await rebuild->Run();
  co_await rebuild->Close();
  // It is not erased before it is over.
  rebuilds_.at(place).over = true;
}

uint64_t Rebuilder::Running() const {
  return static_cast<uint64_t>(
      std::count_if(rebuilds_.begin(), rebuilds_.end(),
                    [](const auto& e) { return !e.second.over; }));
}

void Rebuilder::ForgetOldest() {
  auto oldest = rebuilds_.end();
  for (auto it = rebuilds_.begin(); it != rebuilds_.end(); ++it) {
    if (!it->second.over) continue;
    if (oldest == rebuilds_.end() ||
        it->second.started < oldest->second.started) {
      oldest = it;
    }
  }
  if (oldest != rebuilds_.end()) rebuilds_.erase(oldest);
}

void Rebuilder::Expect(uint32_t target, uint64_t meta_sequence) {
  uint64_t& erased = erased_[target];
  erased = std::max(erased, meta_sequence);
}

absl::Status Rebuilder::NoteDeleted(uint32_t target,
                                    const std::vector<format::BlobId>& blobs,
                                    uint64_t meta_sequence) {
  Expect(target, meta_sequence);
  bool free = true;
  for (auto& [place, entry] : rebuilds_) {
    if (place.first != target || entry.over ||
        entry.rebuild->repair().empty()) {
      continue;
    }
    free = entry.rebuild->guard()->NoteDeleted(blobs) && free;
  }
  if (free) return absl::OkStatus();
  return absl::UnavailableError("a chunk of these blobs is being repaired");
}

Task<absl::StatusOr<wire::DropGroupResponse>> Rebuilder::Drop(
    ChunkStore* store, wire::DropGroupRequest request) {
  CAIRN_CO_ASSIGN_OR_RETURN(const PgId pg,
                            ParseGroup(request.pool(), request.pg()));
  const auto& row = request.row();
  if (row.empty()) {
    co_return absl::InvalidArgumentError("an order to drop without a row");
  }
  if (std::find(row.begin(), row.end(), request.target()) != row.end()) {
    co_return absl::FailedPreconditionError(absl::StrCat(
        "target ", request.target(), " is in the row of ", ToString(pg),
        " at epoch ", request.epoch(), ": nothing is erased"));
  }
  const Place place(request.target(), pg);
  const auto found = rebuilds_.find(place);
  if (found != rebuilds_.end() && !found->second.over) {
    found->second.rebuild->Stop();
    co_return absl::UnavailableError("the group is being rebuilt here");
  }
  if (!dropping_.insert(place).second) {
    co_return absl::UnavailableError("the group is being erased already");
  }
  if (found != rebuilds_.end()) rebuilds_.erase(found);
  Expect(request.target(), request.meta_sequence());
  const absl::StatusOr<ChunkStore::DeleteResult> dropped =
      co_await store->DropGroup(pg, request.meta_sequence());
  dropping_.erase(place);
  if (!dropped.ok()) co_return dropped.status();
  wire::DropGroupResponse response;
  response.set_chunks(dropped->chunks);
  response.set_bytes(dropped->bytes);
  co_return response;
}

void Rebuilder::Leave(uint32_t target) {
  for (auto& [place, entry] : rebuilds_) {
    if (place.first == target && !entry.over) entry.rebuild->Stop();
  }
}

Task<void> Rebuilder::Close() {
  closed_ = true;
  for (auto& [place, entry] : rebuilds_) {
    if (entry.over) continue;
    entry.rebuild->Stop();
    co_await entry.rebuild->Close();  // Calls in flight fail.
  }
  co_await gate_.Close();
  rebuilds_.clear();
}

}  // namespace cairn::server
