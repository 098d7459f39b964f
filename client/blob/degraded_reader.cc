#include "client/blob/degraded_reader.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "format/base/fault_points.h"
#include "format/erasure/reed_solomon.h"

namespace cairn::client {

using format::ChunkId;
using format::Pool;
using io::Task;
using io::TimeNs;

namespace {

// The search for k good shards of one range.
struct Recovery {
  Core* core = nullptr;
  const ChunkRead* read = nullptr;
  std::shared_ptr<const format::ClusterMap> map;
  const Pool* pool = nullptr;
  uint64_t stripe_bytes = 0;            // Its pool's most, if not told.
  bool told_stripe_bytes = false;       // By a shard's record.
  std::vector<io::Buffer> free;         // Of range.length bytes each.
  std::vector<io::Buffer> buffers;      // By shard; empty: not there.
  std::vector<const uint8_t*> present;  // By shard; null: not there.
  uint32_t lost = 0;                    // Proven missing or corrupt.
  std::vector<std::string> causes;
  bool hurried = false;
};

// A data shard behind the end of a short stripe is nowhere, and no loss.
bool MayBeEmpty(const Recovery& r, ChunkId chunk) {
  return !r.told_stripe_bytes && chunk != r.read->range.chunk &&
         chunk.shard < r.pool->scheme.data_shards;
}

bool ProvenLost(const Recovery& r, ChunkId chunk, const absl::Status& status) {
  return status.code() == absl::StatusCode::kDataLoss ||
         (status.code() == absl::StatusCode::kNotFound &&
          !MayBeEmpty(r, chunk));
}

void NoteCause(Recovery* r, ChunkId chunk, const absl::Status& status) {
  if (ProvenLost(*r, chunk, status)) ++r->lost;
  r->causes.push_back(
      absl::StrCat(ChunkPlaceName(*r->core, chunk), ": ", status.message()));
}

absl::Status Failure(const Recovery& r) {
  const std::string text = absl::StrCat(
      "cannot read ", ToString(r.read->range.chunk), ": ", r.causes.size(),
      " of ", r.pool->scheme.shards(), " shards of the stripe failed [",
      absl::StrJoin(r.causes, "; "), "]");
  if (r.lost > r.pool->scheme.parity_shards) return absl::DataLossError(text);
  return absl::UnavailableError(text);
}

// The stripe's other shards, those on silent targets late and those on targets
// that are down last.
std::vector<uint32_t> OtherShards(const Recovery& r) {
  const ChunkId wanted = r.read->range.chunk;
  const auto targets =
      r.pool->PgTargets(r.pool->PgOf(wanted.blob, wanted.stripe));
  std::vector<uint32_t> shards;
  for (uint32_t shard = 0; shard < r.pool->scheme.shards(); ++shard) {
    if (shard != wanted.shard) shards.push_back(shard);
  }
  if (CAIRN_FAULT_POINT("client.read.last_shard_first")) {
    std::reverse(shards.begin(), shards.end());
  }
  std::stable_partition(shards.begin(), shards.end(), [&](uint32_t shard) {
    return !r.core->IsSilent(targets[shard]);
  });
  std::stable_partition(shards.begin(), shards.end(), [&](uint32_t shard) {
    return r.map->MayRead(targets[shard]);
  });
  return shards;
}

Task<absl::Status> ReadAnotherCopy(Recovery* r) {
  const format::ChunkRange& range = r->read->range;
  const std::vector<uint32_t> copies = OtherShards(*r);
  for (const uint32_t shard : copies) {
    const ChunkId copy{range.chunk.blob, range.chunk.stripe, shard};
    absl::Status status = co_await GetChunkOnce(
        r->core, copy, range.offset, r->read->to, r->read->traffic_class,
        ShardDeadline(r->core, r->read->deadline, r->hurried), nullptr);
    if (status.ok()) {
      CAIRN_SOMETIMES(r->causes.size() > 1, "client.read.third_copy");
      r->core->repairs()->bytes_decoded += range.length;
      co_return status;
    }
    NoteCause(r, copy, status);
  }
  co_return Failure(*r);
}

// Any shard's record knows how long the stripe is, also that of a chunk whose
// bytes are damaged.
Task<absl::Status> LearnStripeBytes(Recovery* r) {
  const ChunkId wanted = r->read->range.chunk;
  absl::Status last = absl::UnavailableError("no shard answered");
  std::vector<uint32_t> shards = OtherShards(*r);
  shards.push_back(wanted.shard);
  for (const uint32_t shard : shards) {
    const ChunkId other{wanted.blob, wanted.stripe, shard};
    last = co_await GetChunkOnce(
        r->core, other, 0, {}, r->read->traffic_class,
        ShardDeadline(r->core, r->read->deadline, r->hurried),
        &r->stripe_bytes);
    if (!last.ok()) continue;
    if (r->stripe_bytes > 0 && r->stripe_bytes <= r->pool->stripe_bytes()) {
      r->told_stripe_bytes = true;
      co_return last;
    }
    last = absl::DataLossError("impossible stripe length in a shard's record");
  }
  CAIRN_SOMETIMES(true, "client.decode.length_unknown");
  // None answered; reading them again in turn names the causes.
  r->stripe_bytes = r->pool->stripe_bytes();
  co_return absl::OkStatus();
}

// Reads the range of one other shard into a pool buffer, zero-padded past the
// shard's own end.
Task<void> FetchShard(Recovery* r, uint32_t shard) {
  const format::ChunkRange& range = r->read->range;
  const uint64_t shard_bytes =
      format::ShardBytes(*r->pool, shard, r->stripe_bytes);
  const uint64_t there =
      shard_bytes <= range.offset
          ? 0
          : std::min(range.length, shard_bytes - range.offset);
  CAIRN_CHECK(!r->free.empty());
  io::Buffer buffer = std::move(r->free.back());
  r->free.pop_back();
  const ChunkId chunk{range.chunk.blob, range.chunk.stripe, shard};
  if (there > 0) {
    MutableGather to(1, buffer.bytes().first(there));
    absl::Status status = co_await GetChunkOnce(
        r->core, chunk, range.offset, std::move(to), r->read->traffic_class,
        ShardDeadline(r->core, r->read->deadline, r->hurried), nullptr);
    if (!status.ok()) {
      NoteCause(r, chunk, status);
      r->free.push_back(std::move(buffer));
      co_return;
    }
  }
  std::memset(buffer.bytes().data() + there, 0, range.length - there);
  r->present[shard] = buffer.bytes().data();
  r->buffers[shard] = std::move(buffer);
}

uint32_t CountPresent(const Recovery& r) {
  return static_cast<uint32_t>(
      std::count_if(r.present.begin(), r.present.end(),
                    [](const uint8_t* p) { return p != nullptr; }));
}

// Fetches shards, as many at once as are still missing, until k are there or
// none is left to ask.
Task<void> FetchEnough(Recovery* r) {
  const uint32_t k = r->pool->scheme.data_shards;
  const std::vector<uint32_t> shards = OtherShards(*r);
  size_t next = 0;
  while (CountPresent(*r) < k && next < shards.size()) {
    io::Gate gate(r->core->env());
    const uint32_t at_once =
        CAIRN_FAULT_POINT("client.decode.one_by_one") ? 1 : k;
    for (uint32_t missing = std::min(at_once, k - CountPresent(*r));
         missing > 0 && next < shards.size(); --missing) {
      gate.Spawn(FetchShard(r, shards[next++]));
    }
    co_await gate.Close();
  }
}

absl::Status DecodeInto(Recovery* r) {
  const format::ReedSolomon code(r->pool->scheme.data_shards,
                                 r->pool->scheme.parity_shards);
  const uint32_t wanted[] = {r->read->range.chunk.shard};
  uint8_t* const out[] = {r->free.back().bytes().data()};
  CAIRN_RETURN_IF_ERROR(
      code.Decode(r->present, wanted, out, r->read->range.length));
  const uint8_t* from = out[0];
  for (const format::MutableBytes& part : r->read->to) {
    std::memcpy(part.data(), from, part.size());
    from += part.size();
  }
  r->core->repairs()->bytes_decoded += r->read->range.length;
  CAIRN_SOMETIMES(true, "client.decode.used_parity");
  CAIRN_SOMETIMES(r->causes.size() > 1, "client.decode.two_gone");
  CAIRN_SOMETIMES(r->stripe_bytes < r->pool->stripe_bytes(),
                  "client.decode.short_stripe");
  return absl::OkStatus();
}

// For the k shards that are fetched at most at a time, and for the result. All
// together or none: two recoveries never wait for each other's.
Task<bool> AcquireBuffers(Recovery* r) {
  const io::TimeNs deadline = r->read->deadline;
  const uint32_t wanted = r->pool->scheme.data_shards + 1;
  if (co_await r->core->parity_turn()->Acquire(1, deadline) !=
      io::WaitResult::kWoken) {
    co_return false;
  }
  while (r->free.size() < wanted) {
    io::Buffer buffer = co_await r->core->env()->pool()->Acquire(
        r->read->range.length, deadline);
    if (!buffer) break;
    r->free.push_back(std::move(buffer));
  }
  r->core->parity_turn()->Release();
  co_return r->free.size() == wanted;
}

Task<absl::Status> Decode(Recovery* r) {
  const bool room = co_await AcquireBuffers(r);
  if (!room) {
    co_return absl::DeadlineExceededError(absl::StrCat(
        "no buffers to decode in time, after: ", r->causes.front()));
  }
  CAIRN_CO_RETURN_IF_ERROR(co_await LearnStripeBytes(r));
  r->present.assign(r->pool->scheme.shards(), nullptr);
  r->buffers.resize(r->pool->scheme.shards());
  co_await FetchEnough(r);
  if (CountPresent(*r) < r->pool->scheme.data_shards) co_return Failure(*r);
  co_return DecodeInto(r);
}

}  // namespace

Task<absl::Status> ReadAround(Core* core, const ChunkRead* read,
                              absl::Status direct, bool hurried) {
  Recovery r;
  r.core = core;
  r.read = read;
  r.map = core->map();
  r.hurried = hurried;
  r.pool = r.map->FindPool(read->range.chunk.blob.pool());
  if (r.pool == nullptr) co_return direct;
  NoteCause(&r, read->range.chunk, direct);
  if (r.pool->scheme.parity_shards == 0) co_return Failure(r);
  if (r.pool->scheme.kind == format::SchemeKind::kReplicate) {
    co_return co_await ReadAnotherCopy(&r);
  }
  co_return co_await Decode(&r);
}

}  // namespace cairn::client
