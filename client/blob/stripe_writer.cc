#include "client/blob/stripe_writer.h"

#include "absl/strings/str_cat.h"
#include "client/blob/chunk_payload.h"
#include "client/blob/parity.h"
#include "client/blob/stripe_choice.h"
#include "client/core/attempt.h"
#include "format/base/fault_points.h"
#include "format/extent/stripe.h"
#include "format/wire/target.pb.h"

namespace cairn::client {

using format::Pool;
using format::TargetId;
using io::Task;

namespace {

// What all shards of one stripe in flight share.
struct StripeInFlight {
  Core* core;
  const StripeWrite* write;
  const Pool* pool;  // Of write->map.
  uint32_t pg;
  uint64_t stripe_bytes;
  std::vector<ConstGather> shards;  // k + m; parity ones name pool memory.
  absl::Status failure;             // The first one.
  bool elsewhere = false;           // Given up for a better place.

  bool going_on() const { return failure.ok() && !elsewhere; }
};

std::string ShardName(const StripeInFlight& stripe, uint32_t shard,
                      TargetId target) {
  const format::ChunkId chunk{stripe.write->blob, stripe.write->stripe, shard};
  const format::TargetInfo* info = stripe.core->map()->FindTarget(target);
  return absl::StrCat(ToString(chunk), " on target ", target.value, " (",
                      info == nullptr ? std::string("unknown") : info->address,
                      ")");
}

wire::PutChunkRequest MakePut(const StripeInFlight& stripe, uint32_t shard,
                              TargetId target) {
  wire::PutChunkRequest request;
  request.set_target(target.value);
  request.mutable_chunk()->set_blob(stripe.write->blob.value);
  request.mutable_chunk()->set_stripe(stripe.write->stripe);
  request.mutable_chunk()->set_shard(shard);
  request.set_pg(stripe.pg);
  request.set_epoch(stripe.write->map->epoch.value);
  request.set_stripe_bytes(stripe.stripe_bytes);
  request.set_session(stripe.core->session());
  request.set_meta_sequence(stripe.core->meta_sequence());
  return request;
}

// A target that is slower than the others is not waited for, if the stripe can
// go to others; each attempt waits twice as long as the one before.
io::TimeNs PutDeadline(const StripeInFlight& stripe, TargetId target,
                       int attempt) {
  Core* const core = stripe.core;
  const StripeWrite& write = *stripe.write;
  const io::TimeNs deadline = WithinShare(core->env(), kChunkAttemptTimeout,
                                          kPutAttemptDivisor, write.deadline);
  if (!CanAvoid(core, *write.map, *stripe.pool, write.blob, write.stripe + 1,
                target)) {
    return deadline;
  }
  const io::TimeNs patience = core->SlowAfter(CallKind::kPut)
                              << std::min(attempt, kPatienceDoublingsMax);
  return Within(core->env(), patience, deadline);
}

Task<absl::Status> PutOnce(StripeInFlight* stripe, uint32_t shard,
                           TargetId target, int attempt) {
  Core* const core = stripe->core;
  absl::StatusOr<io::Channel*> channel = core->TargetChannel(target);
  if (!channel.ok()) co_return channel.status();
  const format::ChunkId chunk{stripe->write->blob, stripe->write->stripe,
                              shard};
  ChunkSource source(chunk, &stripe->shards[shard]);
  io::CallOptions call;
  call.deadline = PutDeadline(*stripe, target, attempt);
  if (CAIRN_FAULT_POINT("client.put.no_patience")) {
    call.deadline = Within(core->env(), kNoPatience, call.deadline);
  } else if (CAIRN_FAULT_POINT("client.put.some_patience")) {
    // By then the target has all of it, and works on it.
    call.deadline = Within(core->env(), 10 * kNoPatience, call.deadline);
  }
  call.traffic_class = stripe->write->traffic_class;
  call.source = &source;
  ++core->counters()->calls;
  const io::TimeNs asked_at = core->env()->NowNs();
  std::string body = MakePut(*stripe, shard, target).SerializeAsString();
  absl::StatusOr<std::string> answer = co_await (*channel)->Call(
      format::Method::kPutChunk, std::move(body), call);
  core->NoteAnswer(CallKind::kPut, target, answer.status(), asked_at);
  if (absl::IsResourceExhausted(answer.status())) core->NoteFull(target);
  if (answer.ok()) {
    ++core->counters()->chunks_put;
    core->counters()->payload_bytes_sent += source.size_bytes();
  }
  co_return answer.status();
}

bool WorthRepeating(const absl::Status& status, int* corrupt_left) {
  switch (status.code()) {
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:    // Of the attempt.
    case absl::StatusCode::kFailedPrecondition:  // Not there: newer map.
      return true;
    case absl::StatusCode::kDataLoss:  // Damaged on the way.
      return (*corrupt_left)-- > 0;
    default:
      return false;
  }
}

// Whether the stripe is better written under another number, as things are now.
bool BetterElsewhere(const StripeInFlight& stripe) {
  Core* const core = stripe.core;
  const auto map = core->map();
  const Pool* const pool = map->FindPool(stripe.write->blob.pool());
  if (pool == nullptr) return false;
  // What is put in a row that has other targets now would not count.
  if (map->PgEpoch(*pool, stripe.pg) > stripe.write->map->epoch) return true;
  const RowFitness here = FitnessOf(core, *map, *pool, stripe.pg);
  if (here == RowFitness::kGood) return false;
  return ChooseStripe(core, *map, *pool, stripe.write->blob,
                      stripe.write->stripe + 1, false)
             .fitness < here;
}

absl::Status NoAnswer(const StripeInFlight& stripe, const Backoff& backoff,
                      const absl::Status& last) {
  const auto map = stripe.core->map();
  const Pool* const pool = map->FindPool(stripe.write->blob.pool());
  const std::string not_up =
      pool == nullptr ? std::string() : TargetsNotUp(*map, *pool);
  return absl::DeadlineExceededError(absl::StrCat(
      "no answer in time after ", backoff.attempts(),
      " attempts; last: ", last.message(), not_up.empty() ? "" : "; ", not_up));
}

// No data is lost: the writer has it still.
absl::Status DamagedOnWay(const absl::Status& last) {
  return absl::UnavailableError(absl::StrCat(
      "arrived damaged ", kPutCorruptRetries + 1,
      " times: the network or memory of one of the machines is faulty, or the "
      "program changes the bytes while they are written; last: ",
      last.message()));
}

// OK: durable, or the stripe is given up.
Task<absl::Status> PutUntilDone(StripeInFlight* stripe, uint32_t shard,
                                TargetId target) {
  Core* const core = stripe->core;
  Backoff backoff(core->env(), stripe->write->deadline);
  int corrupt_left = kPutCorruptRetries;
  while (stripe->going_on()) {
    absl::Status status =
        co_await PutOnce(stripe, shard, target, backoff.attempts());
    CAIRN_SOMETIMES(status.ok() && backoff.attempts() > 0,
                    "client.put.sent_again");
    CAIRN_SOMETIMES(absl::IsDataLoss(status), "client.put.damaged_on_way");
    if (status.ok() && CAIRN_FAULT_POINT("client.put.repeated")) continue;
    if (status.ok()) break;
    const bool repeat = WorthRepeating(status, &corrupt_left);
    if (!repeat && !absl::IsResourceExhausted(status)) co_return status;
    if (repeat) {
      ++core->counters()->retries;
      if (!co_await backoff.Pause()) {
        co_return NoAnswer(*stripe, backoff, status);
      }
      (void)co_await core->RefreshMap(stripe->write->deadline);
    }
    if (BetterElsewhere(*stripe)) stripe->elsewhere = true;
    if (!repeat && !stripe->elsewhere) co_return status;
  }
  co_return absl::OkStatus();
}

Task<void> PutShard(StripeInFlight* stripe, uint32_t shard) {
  const TargetId target = stripe->pool->PgTargets(stripe->pg)[shard];
  absl::Status status = co_await PutUntilDone(stripe, shard, target);
  if (status.ok() || !stripe->going_on()) co_return;
  if (absl::IsDataLoss(status)) status = DamagedOnWay(status);
  stripe->failure = Annotate(std::move(status),
                             "writing " + ShardName(*stripe, shard, target));
}

// Cuts the stripe's bytes into the k data shards (some may stay empty).
void CutDataShards(StripeInFlight* stripe) {
  const Pool& pool = *stripe->pool;
  stripe->shards.resize(pool.scheme.shards());
  GatherCursor<const uint8_t> cursor(stripe->write->bytes);
  for (uint32_t shard = 0; shard < pool.scheme.data_shards; ++shard) {
    cursor.Take(format::ShardBytes(pool, shard, stripe->stripe_bytes),
                UINT64_MAX, &stripe->shards[shard]);
  }
}

absl::Status NoBuffer() {
  return absl::DeadlineExceededError(
      "no buffer for parity in time: earlier stripes are not acknowledged");
}

// Copies share the data's memory; Reed-Solomon parity gets pool buffers.
Task<absl::Status> MakeOtherShards(StripeInFlight* stripe,
                                   std::vector<io::Buffer>* buffers) {
  const format::Scheme& scheme = stripe->pool->scheme;
  const uint32_t k = scheme.data_shards;
  if (scheme.kind == format::SchemeKind::kReplicate) {
    for (uint32_t copy = 0; copy < scheme.parity_shards; ++copy) {
      stripe->shards[k + copy] = stripe->shards[0];
    }
    co_return absl::OkStatus();
  }
  const uint64_t bytes =
      format::ShardBytes(*stripe->pool, k, stripe->stripe_bytes);
  Core* const core = stripe->core;
  std::vector<uint8_t*> parity;
  const io::TimeNs deadline = stripe->write->deadline;
  if (co_await core->parity_turn()->Acquire(1, deadline) !=
      io::WaitResult::kWoken) {
    co_return NoBuffer();
  }
  for (uint32_t i = 0; i < scheme.parity_shards; ++i) {
    io::Buffer buffer = co_await core->env()->pool()->Acquire(bytes, deadline);
    if (!buffer) break;
    parity.push_back(buffer.bytes().data());
    stripe->shards[k + i].push_back(buffer.bytes().first(bytes));
    buffers->push_back(std::move(buffer));
  }
  core->parity_turn()->Release();
  if (parity.size() < scheme.parity_shards) co_return NoBuffer();
  const std::vector<ConstGather> data(stripe->shards.begin(),
                                      stripe->shards.begin() + k);
  EncodeParity(scheme, data, parity, bytes);
  co_return absl::OkStatus();
}

}  // namespace

Task<absl::StatusOr<StripeOutcome>> StripeWriter::Write(Core* core,
                                                        StripeWrite write) {
  StripeInFlight stripe{core, &write, nullptr, 0, 0, {}, {}};
  stripe.pool = write.map->FindPool(write.blob.pool());
  CAIRN_CHECK(stripe.pool != nullptr);
  stripe.stripe_bytes = TotalBytes(write.bytes);
  CAIRN_CHECK(stripe.stripe_bytes > 0);
  CAIRN_CHECK(stripe.stripe_bytes <= stripe.pool->stripe_bytes());
  stripe.pg = stripe.pool->PgOf(write.blob, write.stripe);
  CAIRN_SOMETIMES(stripe.stripe_bytes < stripe.pool->stripe_bytes(),
                  "client.put.short_stripe");
  CutDataShards(&stripe);
  std::vector<io::Buffer> buffers;
  CAIRN_CO_RETURN_IF_ERROR(co_await MakeOtherShards(&stripe, &buffers));
  io::Gate puts(core->env());
  for (uint32_t shard = 0; shard < stripe.shards.size(); ++shard) {
    if (!stripe.shards[shard].empty()) puts.Spawn(PutShard(&stripe, shard));
  }
  co_await puts.Close();
  CAIRN_CO_RETURN_IF_ERROR(stripe.failure);
  co_return stripe.elsewhere ? StripeOutcome::kElsewhere
                             : StripeOutcome::kDurable;
}

}  // namespace cairn::client
