#include "client/verify/stripe_check.h"


#include "absl/strings/str_cat.h"
#include "client/blob/chunk_reader.h"
#include "client/core/attempt.h"
#include "format/extent/stripe.h"

namespace cairn::client {

using format::ChunkId;
using format::Pool;
using io::Task;
using io::TimeNs;

namespace {

void AddProblem(const Core& core, ChunkId chunk, const absl::Status& status,
                StripeReport* report) {
  report->problems.push_back(
      absl::StrCat(ChunkPlaceName(core, chunk), ": ", status.message()));
}

// The records of the shards say how long the stripe is; they must agree.
Task<uint64_t> LearnLength(Core* core, const Pool* pool, ChunkId chunk,
                           TimeNs deadline) {
  for (chunk.shard = 0; chunk.shard < pool->scheme.shards(); ++chunk.shard) {
    uint64_t stripe_bytes = 0;
    const TimeNs attempt = Within(core->env(), kChunkAttemptTimeout, deadline);
    absl::Status status = co_await GetChunkOnce(
        core, chunk, 0, {}, format::TrafficClass::kBackground, attempt,
        &stripe_bytes);
    if (status.ok() && stripe_bytes > 0 &&
        stripe_bytes <= pool->stripe_bytes()) {
      co_return stripe_bytes;
    }
  }
  co_return pool->stripe_bytes();  // Nothing answers: each shard is reported.
}

Task<absl::Status> CheckShard(Core* core, ChunkId chunk, uint64_t bytes,
                              uint64_t stripe_bytes, TimeNs deadline) {
  io::Buffer buffer = co_await core->env()->pool()->Acquire(bytes, deadline);
  if (!buffer) co_return absl::DeadlineExceededError("no buffer in time");
  MutableGather to(1, buffer.bytes().first(bytes));
  uint64_t recorded = 0;
  const TimeNs attempt = Within(core->env(), kChunkAttemptTimeout, deadline);
  absl::Status status = co_await GetChunkOnce(core, chunk, 0, std::move(to),
                                              format::TrafficClass::kBackground,
                                              attempt, &recorded);
  if (status.ok() && recorded != stripe_bytes) {
    co_return absl::DataLossError(
        absl::StrCat("its record says the stripe has ", recorded,
                     " bytes, others say ", stripe_bytes));
  }
  co_return status;
}

}  // namespace

Task<StripeReport> CheckStripe(Core* core, format::BlobId blob, uint32_t stripe,
                               TimeNs deadline) {
  StripeReport report;
  const auto map = core->map();
  const Pool* pool = map->FindPool(blob.pool());
  ChunkId chunk{blob, stripe, 0};
  if (pool == nullptr) {
    report.problems.push_back(
        absl::StrCat(ToString(blob), ": its pool is not in the map"));
    report.lost = true;
    co_return report;
  }
  const uint64_t stripe_bytes =
      co_await LearnLength(core, pool, chunk, deadline);
  uint32_t bad = 0;
  for (chunk.shard = 0; chunk.shard < pool->scheme.shards(); ++chunk.shard) {
    const uint64_t bytes = format::ShardBytes(*pool, chunk.shard, stripe_bytes);
    if (bytes == 0) continue;
    ++report.chunks;
    report.bytes += bytes;
    absl::Status status =
        co_await CheckShard(core, chunk, bytes, stripe_bytes, deadline);
    if (status.ok()) continue;
    ++bad;
    AddProblem(*core, chunk, status, &report);
  }
  report.lost = bad > pool->scheme.parity_shards;
  co_return report;
}

}  // namespace cairn::client
