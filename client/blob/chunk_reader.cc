#include "client/blob/chunk_reader.h"

#include "absl/strings/str_cat.h"
#include "client/blob/chunk_payload.h"
#include "client/blob/degraded_reader.h"
#include "client/core/attempt.h"
#include "format/base/fault_points.h"
#include "format/wire/target.pb.h"

namespace cairn::client {

using format::ChunkId;
using format::Pool;
using format::TargetId;
using io::Task;
using io::TimeNs;

namespace {

struct Place {
  TargetId target;
  uint32_t pg = 0;
};

absl::StatusOr<Place> PlaceOf(const format::ClusterMap& map, ChunkId chunk) {
  const Pool* pool = map.FindPool(chunk.blob.pool());
  if (pool == nullptr || chunk.shard >= pool->scheme.shards()) {
    return absl::FailedPreconditionError(
        absl::StrCat(ToString(chunk), ": no such pool or shard in the map"));
  }
  const uint32_t pg = pool->PgOf(chunk.blob, chunk.stripe);
  return Place{pool->PgTargets(pg)[chunk.shard], pg};
}

}  // namespace

std::string ChunkPlaceName(const Core& core, ChunkId chunk) {
  const auto map = core.map();
  const absl::StatusOr<Place> place = PlaceOf(*map, chunk);
  if (!place.ok()) return ToString(chunk);
  const format::TargetInfo* info = map->FindTarget(place->target);
  return absl::StrCat(ToString(chunk), " on target ", place->target.value, " (",
                      info == nullptr ? std::string("unknown") : info->address,
                      ")");
}

TimeNs ShardDeadline(Core* core, TimeNs deadline, bool hurried) {
  const TimeNs attempt = WithinShare(core->env(), kChunkAttemptTimeout,
                                     kChunkAttemptDivisor, deadline);
  if (!hurried) return attempt;
  return Within(core->env(), core->SlowAfter(CallKind::kGet), attempt);
}

Task<absl::Status> GetChunkOnce(Core* core, ChunkId chunk, uint64_t offset,
                                MutableGather to,
                                format::TrafficClass traffic_class,
                                TimeNs deadline, uint64_t* stripe_bytes) {
  const auto map = core->map();
  const absl::StatusOr<Place> place = PlaceOf(*map, chunk);
  if (!place.ok()) co_return place.status();
  absl::StatusOr<io::Channel*> channel = core->TargetChannel(place->target);
  if (!channel.ok()) co_return channel.status();
  wire::GetChunkRequest request;
  request.set_target(place->target.value);
  request.mutable_chunk()->set_blob(chunk.blob.value);
  request.mutable_chunk()->set_stripe(chunk.stripe);
  request.mutable_chunk()->set_shard(chunk.shard);
  request.set_pg(place->pg);
  request.set_offset(offset);
  request.set_length(TotalBytes(to));
  request.set_meta_sequence(core->meta_sequence());
  ChunkSink sink(chunk, offset, &to);
  io::CallOptions call;
  call.deadline = deadline;
  call.traffic_class = traffic_class;
  if (request.length() > 0) call.sink = &sink;
  ++core->counters()->calls;
  const TimeNs asked_at = core->env()->NowNs();
  auto response = co_await io::CallProto<wire::GetChunkResponse>(
      *channel, format::Method::kGetChunk, request, call);
  core->NoteAnswer(CallKind::kGet, place->target, response.status(), asked_at);
  if (sink.damaged()) {
    co_return absl::UnavailableError(response.status().message());
  }
  if (!response.ok()) co_return response.status();
  if (request.length() > 0 && !sink.verified()) {
    co_return absl::DataLossError(
        absl::StrCat(ToString(chunk), ": answered without its bytes"));
  }
  ++core->counters()->chunks_got;
  core->counters()->payload_bytes_received += request.length();
  if (stripe_bytes != nullptr) *stripe_bytes = response->stripe_bytes();
  co_return absl::OkStatus();
}

namespace {

void CountFailure(Core* core, ChunkId chunk, const absl::Status& status) {
  const bool corrupt = status.code() == absl::StatusCode::kDataLoss ||
                       status.code() == absl::StatusCode::kNotFound;
  ++(corrupt ? core->repairs()->chunks_corrupt
             : core->repairs()->chunks_unreachable);
  core->NoteRepair(
      absl::StrCat(ChunkPlaceName(*core, chunk), ": ", status.message()));
}

bool MayPass(const absl::Status& status) {
  return status.code() == absl::StatusCode::kUnavailable ||
         status.code() == absl::StatusCode::kDeadlineExceeded ||
         status.code() == absl::StatusCode::kFailedPrecondition;
}

bool HasOtherShards(const Core& core, ChunkId chunk) {
  const Pool* const pool = core.map()->FindPool(chunk.blob.pool());
  return pool != nullptr && pool->scheme.parity_shards > 0;
}

TimeNs DirectDeadline(Core* core, const ChunkRead& read, bool first) {
  if (HasOtherShards(*core, read.range.chunk)) {
    return ShardDeadline(core, read.deadline, first);
  }
  return Within(core->env(), kChunkAttemptTimeout, read.deadline);
}

Task<absl::Status> ReadDirectly(Core* core, const ChunkRead* read, bool first) {
  const format::ChunkRange& range = read->range;
  const TimeNs attempt = DirectDeadline(core, *read, first);
  absl::Status status =
      co_await GetChunkOnce(core, range.chunk, range.offset, read->to,
                            read->traffic_class, attempt, nullptr);
  // It may be that the disk gave other bytes than it holds: ask once more.
  if (status.code() == absl::StatusCode::kDataLoss) {
    const absl::Status again =
        co_await GetChunkOnce(core, range.chunk, range.offset, read->to,
                              read->traffic_class, attempt, nullptr);
    CAIRN_SOMETIMES(again.ok(), "client.read.second_ask_helped");
    if (again.ok()) co_return again;
  }
  co_return status;
}

// Not if its target is silent, or down as the map says, and there are other
// shards to read.
bool ShouldAsk(Core* core, ChunkId chunk) {
  if (!HasOtherShards(*core, chunk)) return true;
  if (CAIRN_FAULT_POINT("client.read.around_at_once")) return false;
  const auto map = core->map();
  const absl::StatusOr<Place> place = PlaceOf(*map, chunk);
  if (!place.ok()) return true;
  return map->MayRead(place->target) && core->MayAsk(place->target);
}

// One round: the chunk itself, then whatever else the scheme offers.
Task<absl::Status> ReadRound(Core* core, const ChunkRead* read, bool first) {
  const ChunkId chunk = read->range.chunk;
  absl::Status direct =
      absl::UnavailableError("its target is down or silent; not asked");
  if (!first || ShouldAsk(core, chunk)) {
    direct = co_await ReadDirectly(core, read, first);
  }
  if (direct.ok()) co_return direct;
  if (first) CountFailure(core, chunk, direct);
  absl::Status around =
      co_await ReadAround(core, read, std::move(direct), first);
  CAIRN_SOMETIMES(around.ok(), "client.read.found_around");
  co_return around;
}

// The row's age.
format::Epoch RowEpochOf(const format::ClusterMap& map, ChunkId chunk) {
  const Pool* const pool = map.FindPool(chunk.blob.pool());
  if (pool == nullptr) return map.epoch;
  return map.PgEpoch(*pool, pool->PgOf(chunk.blob, chunk.stripe));
}

// The row's age in the map that the service has now, whatever it was asked by
// others lately.
Task<absl::StatusOr<format::Epoch>> AskRowEpoch(Core* core, ChunkId chunk,
                                                TimeNs deadline) {
  const TimeNs patience = Within(core->env(), kMapRefreshTimeout, deadline);
  wire::GetMapRequest request;
  auto response = co_await core->Query<wire::GetMapResponse>(
      format::Method::kGetMap, request, patience);
  if (!response.ok()) co_return response.status();
  const absl::StatusOr<format::ClusterMap> map =
      format::MapFromProto(response->map());
  if (!map.ok()) co_return map.status();
  co_return RowEpochOf(*map, chunk);
}

// Shards that are not where an old map says are not lost: they were moved. Only
// the newest map proves a loss. kAborted: it has another row; look there.
Task<absl::Status> ProveLoss(Core* core, ChunkId chunk, format::Epoch asked,
                             absl::Status loss, TimeNs deadline) {
  const absl::StatusOr<format::Epoch> now =
      co_await AskRowEpoch(core, chunk, deadline);
  if (!now.ok()) {
    co_return absl::UnavailableError(absl::StrCat(
        loss.message(), "; whether its shards were moved is not known: ",
        now.status().message()));
  }
  const bool moved = *now != asked;
  if (!moved) co_return loss;
  co_await io::SleepFor(core->env(), kMapRefreshPause);
  (void)co_await core->RefreshMap(deadline);
  co_return absl::AbortedError("the row has other targets");
}

}  // namespace

Task<absl::Status> ReadChunkRange(Core* core, ChunkRead read) {
  CAIRN_CHECK(TotalBytes(read.to) == read.range.length);
  Backoff backoff(core->env(), read.deadline);
  absl::Status last;  // Why the newest round failed that was not cut short.
  while (true) {
    const format::Epoch asked = RowEpochOf(*core->map(), read.range.chunk);
    absl::Status status =
        co_await ReadRound(core, &read, backoff.attempts() == 0);
    if (absl::IsDataLoss(status)) {
      status = co_await ProveLoss(core, read.range.chunk, asked,
                                  std::move(status), read.deadline);
      if (absl::IsAborted(status)) continue;
    }
    CAIRN_SOMETIMES(status.ok() && backoff.attempts() > 0,
                    "client.read.later_round");
    if (status.ok() || !MayPass(status)) co_return status;
    if (last.ok() || !absl::IsDeadlineExceeded(status)) last = status;
    ++core->counters()->retries;
    if (!co_await backoff.Pause()) {
      co_return absl::DeadlineExceededError(absl::StrCat(
          "reading ", ChunkPlaceName(*core, read.range.chunk),
          ": not enough shards answered in time; last: ", last.message()));
    }
    (void)co_await core->RefreshMap(read.deadline);
  }
}

}  // namespace cairn::client
