#include "server/target/chunk_maker.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "format/base/fault_points.h"
#include "format/base/status.h"
#include "format/checksum/block_checksum.h"
#include "format/erasure/reed_solomon.h"
#include "format/extent/stripe.h"
#include "format/target/chunk_record.h"
#include "server/target/limits.h"
#include "server/target/repair_guard.h"

namespace cairn::server {

using format::ChunkId;
using format::kBlockBytes;
using format::MutableBytes;
using io::Task;

// One chunk on its way.
struct ChunkMaker::Job {
  ListedStripe stripe;
  uint64_t stripe_bytes = 0;
  uint64_t chunk_bytes = 0;
  ChunkId chunk;
  bool damaged = false;  // It is there, to be replaced.
  // By source: may not be asked any more.
  std::vector<bool> lost;
  std::vector<bool> away;
  std::vector<std::string> causes;
  // What is read next, by source. One alone: a copy, not decoded.
  std::vector<uint32_t> chosen;
  bool is_copy = false;
  io::Buffer out;
  // One large one for all, or a small one for each shard that is read.
  std::vector<io::Buffer> scratch;
  uint64_t slice_bytes = 0;  // Of each shard at a time.
};

ChunkMaker::ChunkMaker(io::Env* env, ChunkStore* store, Sources* sources,
                       const ShardGoal* goal, io::Semaphore* buffers)
    : env_(env),
      store_(store),
      sources_(sources),
      goal_(goal),
      buffers_(buffers) {}

absl::StatusOr<uint64_t> ChunkMaker::StripeBytesOf(
    const ListedStripe& stripe) const {
  uint64_t agreed = 0;
  for (uint32_t i = 0; i < stripe.chunks.size(); ++i) {
    if (!stripe.chunks[i]) continue;
    const SourceChunk& found = *stripe.chunks[i];
    if (found.stripe_bytes == 0 ||
        found.stripe_bytes > goal_->pool.stripe_bytes() ||
        found.chunk_bytes != format::ShardBytes(goal_->pool,
                                                sources_->ShardOf(i),
                                                found.stripe_bytes)) {
      return absl::DataLossError(absl::StrCat(
          sources_->NameOf(i), " has ", found.chunk_bytes,
          " bytes of a stripe of ", found.stripe_bytes, ", which cannot be"));
    }
    if (agreed == 0) agreed = found.stripe_bytes;
    if (agreed == found.stripe_bytes) continue;
    return absl::DataLossError(absl::StrCat(
        "the sources do not agree how long the stripe is: ", agreed, " or ",
        found.stripe_bytes, " bytes"));
  }
  CAIRN_CHECK(agreed > 0);  // Somebody listed it.
  return agreed;
}

absl::StatusOr<uint64_t> ChunkMaker::ChunkBytesOf(
    const ListedStripe& stripe) const {
  CAIRN_ASSIGN_OR_RETURN(const uint64_t stripe_bytes, StripeBytesOf(stripe));
  return format::ShardBytes(goal_->pool, goal_->shard, stripe_bytes);
}

Task<absl::StatusOr<Made>> ChunkMaker::Make(ListedStripe stripe) {
  Made made;
  const absl::StatusOr<uint64_t> stripe_bytes = StripeBytesOf(stripe);
  if (!stripe_bytes.ok()) {
    made.how = Making::kLost;
    made.reason = std::string(stripe_bytes.status().message());
    co_return made;
  }
  Job job;
  job.stripe_bytes = *stripe_bytes;
  job.chunk_bytes =
      format::ShardBytes(goal_->pool, goal_->shard, job.stripe_bytes);
  job.chunk = {stripe.blob, stripe.stripe, goal_->shard};
  job.lost.resize(sources_->count());
  job.away.resize(sources_->count());
  job.stripe = std::move(stripe);
  made.bytes = job.chunk_bytes;
  if (job.chunk_bytes == 0) co_return made;
  const absl::StatusOr<bool> there = co_await IsThere(&job);
  if (goal_->repair != nullptr && absl::IsDataLoss(there.status())) {
    made.how = Making::kLost;
    made.reason = std::string(there.status().message());
    co_return made;
  }
  CAIRN_CO_RETURN_IF_ERROR(there.status());
  if (*there) {
    made.how = Making::kThere;
    co_return made;
  }
  CAIRN_CO_RETURN_IF_ERROR(co_await TakeBuffers(&job));
  const absl::Status collected = co_await Collect(&job);
  if (!collected.ok()) {
    made.how = absl::IsDataLoss(collected) ? Making::kLost : Making::kAway;
    made.reason = std::string(collected.message());
    co_return made;
  }
  absl::Status stored = co_await Store(&job);
  if (stored.ok()) stored = co_await ReadBack(&job);
  if (goal_->repair != nullptr && absl::IsAlreadyExists(stored)) {
    made.how = Making::kLost;
    made.reason = std::string(stored.message());
    co_return made;
  }
  // Of a repair: its blob was deleted meanwhile.
  if (goal_->repair != nullptr && absl::IsNotFound(stored)) {
    co_return made;
  }
  CAIRN_CO_RETURN_IF_ERROR(stored);
  made.how = Making::kMade;
  co_return made;
}

// A chunk that is there and damaged is an error for a new target: metadata has
// the group erased first. A repair replaces it.
Task<absl::StatusOr<bool>> ChunkMaker::IsThere(Job* job) {
  const absl::StatusOr<std::optional<ChunkRecord>> found =
      co_await store_->Find(goal_->pg.index, job->chunk);
  if (goal_->repair != nullptr && absl::IsDataLoss(found.status())) {
    job->damaged = true;
    co_return false;
  }
  CAIRN_CO_RETURN_IF_ERROR(found.status());
  const std::optional<ChunkRecord>& record = *found;
  if (!record) co_return false;
  if (record->chunk_bytes != job->chunk_bytes ||
      record->stripe_bytes != job->stripe_bytes) {
    co_return absl::DataLossError(absl::StrCat(
        ToString(job->chunk), " is here already with ", record->chunk_bytes,
        " bytes of a stripe of ", record->stripe_bytes, ", and should have ",
        job->chunk_bytes, " of ", job->stripe_bytes));
  }
  const absl::Status read = co_await ReadBack(job);
  if (goal_->repair != nullptr && absl::IsNotFound(read)) co_return false;
  if (goal_->repair != nullptr && absl::IsDataLoss(read)) {
    job->damaged = true;
    co_return false;
  }
  CAIRN_CO_RETURN_IF_ERROR(read);
  CAIRN_SOMETIMES(true, "target.rebuild.there_already");
  co_return true;
}

Task<absl::Status> ChunkMaker::ReadBack(const Job* job) {
  Access access;
  access.traffic_class = format::TrafficClass::kBackground;
  access.deadline = env_->NowNs() + kRebuildBufferTimeout;
  const absl::StatusOr<ChunkStore::ReadResult> read = co_await store_->Read(
      goal_->pg.index, job->chunk, 0, job->chunk_bytes, access);
  co_return read.status();
}

Task<absl::Status> ChunkMaker::TakeBuffers(Job* job) {
  const io::TimeNs deadline = env_->NowNs() + kRebuildBufferTimeout;
  if (co_await buffers_->Acquire(1, deadline) != io::WaitResult::kWoken) {
    co_return absl::DeadlineExceededError("no turn to take buffers");
  }
  job->out = co_await env_->pool()->Acquire(
      format::AllocatedBytesOf(job->chunk_bytes), deadline);
  bool has_all = static_cast<bool>(job->out);
  if (has_all && goal_->pool.scheme.kind != format::SchemeKind::kReplicate) {
    has_all = co_await TakeScratch(job, deadline);
  }
  buffers_->Release();
  if (has_all && !CAIRN_FAULT_POINT("target.rebuild.no_buffer")) {
    co_return absl::OkStatus();
  }
  co_return absl::DeadlineExceededError("no free buffer to rebuild in");
}

// Small pools keep their large buffers for those who ask this target: it may
// be a source of the very targets that it reads from.
Task<bool> ChunkMaker::TakeScratch(Job* job, io::TimeNs deadline) {
  const uint32_t k = goal_->pool.scheme.data_shards;
  const bool one = env_->pool()->region().size() >=
                   kRebuildLargePoolBuffers * format::kChunkBytesMax;
  const uint64_t size = one ? format::kChunkBytesMax : kBlockBytes;
  job->slice_bytes = one ? size / k / kBlockBytes * kBlockBytes : size;
  CAIRN_CHECK(job->slice_bytes > 0);
  for (uint32_t i = 0; i < (one ? 1 : k); ++i) {
    io::Buffer buffer = co_await env_->pool()->Acquire(size, deadline);
    if (!buffer) co_return false;
    job->scratch.push_back(std::move(buffer));
  }
  co_return true;
}

// Fills job->out from some sources, from others if they fail.
// kDataLoss: proven that too few have it. kUnavailable: too few now.
Task<absl::Status> ChunkMaker::Collect(Job* job) {
  while (ChooseSources(job)) {
    bool done = false;
    if (job->is_copy) {
      done = co_await ReadChosen(job);
    } else {
      done = co_await Decode(job);
    }
    if (done) co_return absl::OkStatus();
    CAIRN_SOMETIMES(true, "target.rebuild.other_sources");
  }
  const std::string text = absl::StrCat("too few shards can be read [",
                                        absl::StrJoin(job->causes, "; "), "]");
  if (std::find(job->away.begin(), job->away.end(), true) != job->away.end()) {
    co_return absl::UnavailableError(text);
  }
  co_return absl::DataLossError(text);
}

// False: too few are left. A copy of the chunk itself comes before decoding if
// it is among the first k.
bool ChunkMaker::ChooseSources(Job* job) const {
  const uint32_t k = goal_->pool.scheme.data_shards;
  const bool is_replicate =
      goal_->pool.scheme.kind == format::SchemeKind::kReplicate;
  job->chosen.clear();
  job->is_copy = false;
  for (uint32_t i = 0; i < sources_->count(); ++i) {
    if (job->lost[i] || job->away[i]) continue;
    const bool is_empty = format::ShardBytes(goal_->pool, sources_->ShardOf(i),
                                             job->stripe_bytes) == 0;
    if (!job->stripe.chunks[i] && !is_empty) continue;
    const bool is_same = sources_->ShardOf(i) == goal_->shard;
    if (is_replicate || is_same) {
      job->chosen.assign(1, i);
      job->is_copy = true;
      return true;
    }
    job->chosen.push_back(i);
    if (job->chosen.size() == k) return true;
  }
  return false;
}

// The copy of one source, whole.
Task<bool> ChunkMaker::ReadChosen(Job* job) {
  const uint32_t source = job->chosen.front();
  co_await ReadSlice(job, source, 0, job->out.bytes().first(job->chunk_bytes));
  co_return !job->lost[source] && !job->away[source];
}

// Zeros behind the end of the source's shard. Failure is noted in the job.
Task<void> ChunkMaker::ReadSlice(Job* job, uint32_t source, uint64_t offset,
                                 MutableBytes to) {
  const uint64_t shard_bytes = format::ShardBytes(
      goal_->pool, sources_->ShardOf(source), job->stripe_bytes);
  const uint64_t there =
      shard_bytes <= offset
          ? 0
          : std::min<uint64_t>(to.size(), shard_bytes - offset);
  if (there > 0) {
    const absl::Status read = co_await sources_->Read(
        source, *job->stripe.chunks[source], offset, to.first(there));
    if (!read.ok()) {
      const bool proven = absl::IsDataLoss(read) || absl::IsNotFound(read);
      (proven ? job->lost : job->away)[source] = true;
      CAIRN_SOMETIMES(proven, "target.rebuild.source_lost_it");
      CAIRN_SOMETIMES(!proven, "target.rebuild.source_away");
      job->causes.push_back(std::string(read.message()));
      co_return;
    }
  }
  std::memset(to.data() + there, 0, to.size() - there);
}

// Column by column, as many bytes of each shard as fit into the scratch.
Task<bool> ChunkMaker::Decode(Job* job) {
  const format::Scheme& scheme = goal_->pool.scheme;
  const format::ReedSolomon code(scheme.data_shards, scheme.parity_shards);
  const uint64_t slice = job->slice_bytes;
  const bool one = job->scratch.size() == 1;
  for (uint64_t at = 0; at < job->chunk_bytes; at += slice) {
    const uint64_t length = std::min(slice, job->chunk_bytes - at);
    std::vector<const uint8_t*> present(scheme.shards(), nullptr);
    io::Gate reading(env_);
    for (uint32_t i = 0; i < job->chosen.size(); ++i) {
      const MutableBytes to =
          one ? job->scratch[0].bytes().subspan(i * slice, length)
              : job->scratch[i].bytes().first(length);
      present[sources_->ShardOf(job->chosen[i])] = to.data();
      reading.Spawn(ReadSlice(job, job->chosen[i], at, to));
    }
    co_await reading.Close();
    for (const uint32_t source : job->chosen) {
      if (job->lost[source] || job->away[source]) co_return false;
    }
    const uint32_t wanted[] = {goal_->shard};
    uint8_t* const out[] = {job->out.bytes().data() + at};
    const absl::Status decoded = code.Decode(present, wanted, out, length);
    CAIRN_CHECK(decoded.ok());
  }
  co_return true;
}

Task<absl::Status> ChunkMaker::Store(Job* job) {
  const MutableBytes payload =
      job->out.bytes().first(format::AllocatedBytesOf(job->chunk_bytes));
  std::memset(payload.data() + job->chunk_bytes, 0,
              payload.size() - job->chunk_bytes);
  format::BlockHasher hasher(job->chunk, 0, job->chunk_bytes);
  hasher.Update(payload.first(job->chunk_bytes));
  ChunkRecord record;
  record.chunk_bytes = job->chunk_bytes;
  record.stripe_bytes = job->stripe_bytes;
  record.block_checksums = hasher.Checksums();
  record.digest =
      format::ChunkDigest(job->chunk, job->chunk_bytes, record.block_checksums);
  RepairGuard* const guard = goal_->repair;
  if (guard != nullptr && !guard->BeginPut(job->chunk.blob)) {
    co_return absl::NotFoundError("its blob was deleted");
  }
  absl::Status put = co_await StoreGuarded(job, std::move(record), payload);
  if (guard != nullptr) guard->EndPut(job->chunk.blob);
  // Others may need them before it is read back.
  job->out.Release();
  job->scratch.clear();
  co_return put;
}

Task<absl::Status> ChunkMaker::StoreGuarded(Job* job, ChunkRecord record,
                                            format::ConstBytes payload) {
  Access access;
  access.traffic_class = format::TrafficClass::kBackground;
  access.deadline = env_->NowNs() + kRebuildBufferTimeout;
  if (job->damaged) {
    co_return co_await store_->Replace(goal_->pg.index, job->chunk,
                                       std::move(record), payload, access);
  }
  co_return co_await store_->Put(goal_->pg.index, job->chunk, std::move(record),
                                 payload, goal_->meta_sequence, access);
}

}  // namespace cairn::server
