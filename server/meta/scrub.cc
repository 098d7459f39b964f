#include "server/meta/scrub.h"

#include <algorithm>
#include <utility>

#include "format/base/fault_points.h"
#include "format/extent/stripe.h"
#include "format/wire/rebuild_state.h"
#include "server/meta/stripe_use.h"
#include "spdlog/spdlog.h"

namespace cairn::server {

using format::BlobId;
using format::ClusterMap;
using format::KeyKind;
using format::PgId;
using format::Pool;
using format::RebuildState;
using format::TargetId;

io::Task<void> Scrub::Loop() {
  while (!core_->stopping.cancelled()) {
    co_await io::SleepFor(core_->env, core_->options.repair.poll_ns,
                          &core_->stopping);
    if (core_->stopping.cancelled()) break;
    co_await AskTargets();
    co_await CompareDue();
    co_await RepairDue();
  }
}

io::Task<absl::Status> Scrub::CheckRow(PgId pg) const {
  const auto map = core_->map.map();
  const Pool* const pool = map->FindPool(pg.pool);
  if (pool == nullptr || pg.index >= pool->pg_count) {
    co_return absl::NotFoundError("no such group");
  }
  for (const TargetId target : pool->PgTargets(pg.index)) {
    const format::TargetInfo* const info = map->FindTarget(target);
    if (info != nullptr && info->state == format::TargetState::kUp &&
        health_->Look(target).answers) {
      continue;
    }
    co_return absl::UnavailableError(
        absl::StrCat("target ", target.value, " is not up"));
  }
  const format::KeyRange moves =
      format::RangeOf(KeyKind::kMove, {pg.pool.value, pg.index});
  const absl::StatusOr<std::vector<KvPair>> moving =
      co_await core_->kv->Scan(moves.begin, moves.end, 1);
  if (!moving.ok()) co_return moving.status();
  if (moving->empty()) co_return absl::OkStatus();
  co_return absl::UnavailableError("a shard of it moves");
}

void Scrub::AddSuspect(const Place& place, bool damaged) {
  if (suspects_.size() >= kSuspectsMax) return;  // Found again later.
  const auto [it, added] = suspects_.try_emplace(place);
  if (added) it->second.damaged = damaged;
}

// --- Finding.

io::Task<void> Scrub::AskTargets() {
  const auto map = core_->map.map();
  io::Gate asking(core_->env);
  for (const auto& [id, info] : map->targets) {
    if (health_->Look(id).answers) asking.Spawn(AskTarget(id));
  }
  co_await asking.Close();
}

io::Task<void> Scrub::AskTarget(TargetId target) {
  const absl::StatusOr<wire::TargetStatusResponse> answer =
      co_await orders_->Heartbeat(
          target, Now() + core_->options.health.suspect_after_ns);
  if (!answer.ok()) co_return;
  const auto map = core_->map.map();
  for (const wire::DamagedChunk& damaged : answer->scrub().damaged()) {
    Place place;
    place.blob = BlobId(damaged.chunk().blob());
    place.stripe = damaged.chunk().stripe();
    place.shard = damaged.chunk().shard();
    place.pg = {place.blob.pool(), damaged.pg()};
    const Pool* const pool = map->FindPool(place.pg.pool);
    // Not of an older row, which it is told to erase.
    if (pool == nullptr || place.pg.index >= pool->pg_count ||
        place.shard >= pool->scheme.shards() ||
        pool->PgTargets(place.pg.index)[place.shard] != target ||
        pool->PgOf(place.blob, place.stripe) != place.pg.index ||
        suspects_.contains(place)) {
      continue;
    }
    AddSuspect(place, true);
    // Who lost one chunk may have lost others.
    wanted_[place.pg] = Now();
  }
}

void Scrub::StartPass() {
  const auto map = core_->map.map();
  for (const auto& [id, pool] : map->pools) {
    for (uint32_t pg = 0; pg < pool.pg_count; ++pg) left_.insert({id, pg});
  }
  groups_ = left_.size();
  if (left_.empty() || cursor_ != PgId()) return;
  // Wherever the process before this one got to.
  auto start = left_.begin();
  std::advance(start,
               static_cast<ptrdiff_t>(core_->env->Random() % left_.size()));
  cursor_ = *start;
}

// Spreads the rows evenly over the time of a pass.
void Scrub::ChooseNext() {
  if (core_->options.repair.compare_ns == 0) return;
  if (left_.empty()) StartPass();
  if (left_.empty()) return;
  const io::TimeNs pause =
      std::max<io::TimeNs>(1, core_->options.repair.compare_ns / groups_);
  if (next_compare_ == 0) next_compare_ = Now() + pause;
  for (uint32_t i = 0; i < kComparesPerRound && Now() >= next_compare_; ++i) {
    next_compare_ += pause;
    auto next = left_.upper_bound(cursor_);
    if (next == left_.end()) next = left_.begin();
    cursor_ = *next;
    wanted_.try_emplace(cursor_, Now());
  }
  // Time in which nothing ran is not caught up with.
  next_compare_ = std::max(next_compare_, Now());
}

io::Task<void> Scrub::CompareDue() {
  ChooseNext();
  std::vector<PgId> due;
  for (const auto& [pg, from] : wanted_) {
    if (from <= Now() && due.size() < kComparesPerRound) due.push_back(pg);
  }
  for (const PgId pg : due) {
    if (core_->stopping.cancelled()) co_return;
    wanted_.erase(pg);
    const absl::Status compared = co_await Compare(pg);
    if (!compared.ok() && !absl::IsNotFound(compared)) {
      CAIRN_SOMETIMES(true, "meta.scrub.compare_later");
      if (absl::IsDataLoss(compared)) {
        disagreements_[pg] = std::string(compared.message());
      }
      wanted_.try_emplace(pg, Now() + kScrubRetryNs);
      continue;
    }
    const bool was_left = left_.erase(pg) > 0;
    if (was_left && left_.empty()) {
      ++passes_;
      spdlog::info("metadata: scrub: the lists of all {} groups were compared",
                   groups_);
    }
  }
}

io::Task<absl::Status> Scrub::Compare(PgId pg) {
  CAIRN_CO_RETURN_IF_ERROR(co_await CheckRow(pg));
  const auto map = core_->map.map();
  const Pool* const pool = map->FindPool(pg.pool);
  if (pool == nullptr || pg.index >= pool->pg_count) co_return absl::OkStatus();
  const auto row = pool->PgTargets(pg.index);
  GroupLists lists(orders_, pg, {row.begin(), row.end()});
  disagreements_.erase(pg);
  while (!core_->stopping.cancelled()) {
    const absl::StatusOr<std::optional<GroupStripe>> stripe =
        co_await lists.Next();
    if (!stripe.ok()) co_return stripe.status();
    if (!stripe->has_value()) break;
    if (pool->PgOf((*stripe)->blob, (*stripe)->stripe) == pg.index) {
      Judge(*pool, pg, **stripe);
    }
  }
  co_return absl::OkStatus();
}

// The lists were not made at one moment: what was put or deleted meanwhile may
// look absent, and is not when it is looked at again.
void Scrub::Judge(const Pool& pool, PgId pg, const GroupStripe& stripe) {
  uint64_t bytes = 0;
  for (uint32_t shard = 0; shard < stripe.chunks.size(); ++shard) {
    const auto& chunk = stripe.chunks[shard];
    if (!chunk) continue;
    if (bytes == 0) bytes = chunk->stripe_bytes;
    if (chunk->stripe_bytes == bytes && bytes > 0 &&
        bytes <= pool.stripe_bytes() &&
        chunk->chunk_bytes == format::ShardBytes(pool, shard, bytes)) {
      continue;
    }
    if (disagreements_.size() < kScrubProblemsShown) {
      disagreements_[pg] = absl::StrCat(
          "the targets of ", ToString(pg), " do not agree on stripe ",
          stripe.stripe, " of ", ToString(stripe.blob), ": target ",
          pool.PgTargets(pg.index)[shard].value, " has ", chunk->chunk_bytes,
          " bytes of ", chunk->stripe_bytes, ", another one ", bytes);
    }
    return;
  }
  for (uint32_t shard = 0; shard < stripe.chunks.size(); ++shard) {
    if (stripe.chunks[shard] || format::ShardBytes(pool, shard, bytes) == 0) {
      continue;
    }
    Place place;
    place.pg = pg;
    place.shard = shard;
    place.blob = stripe.blob;
    place.stripe = stripe.stripe;
    AddSuspect(place, false);
  }
}

// --- Repairing.

io::Task<void> Scrub::RepairDue() {
  for (uint32_t i = 0; i < kRepairsPerRound; ++i) {
    std::vector<Place> places = TakeDue();
    if (places.empty() || core_->stopping.cancelled()) co_return;
    co_await Repair(std::move(places));
  }
}

// Of one shard of one row.
std::vector<Scrub::Place> Scrub::TakeDue() const {
  std::vector<Place> places;
  for (const auto& [place, suspect] : suspects_) {
    if (suspect.not_before > Now()) continue;
    if (!places.empty() && (place.pg != places.front().pg ||
                            place.shard != places.front().shard)) {
      break;
    }
    places.push_back(place);
    if (places.size() == kRepairsPerOrder) break;
  }
  return places;
}

void Scrub::Postpone(const std::vector<Place>& places, std::string problem) {
  for (const Place& place : places) {
    const auto it = suspects_.find(place);
    if (it == suspects_.end()) continue;
    it->second.not_before = Now() + kScrubRetryNs;
    // Not of what may be no more than a write under way.
    if (it->second.damaged || it->second.counted) {
      it->second.problem = problem;
    }
  }
}

io::Task<void> Scrub::Repair(std::vector<Place> places) {
  // Before the files are asked for: whatever is deleted after that was decided
  // at a greater one.
  const uint64_t sequence = core_->kv->durable_sequence();
  const absl::Status whole = co_await CheckRow(places.front().pg);
  if (!whole.ok()) {
    CAIRN_SOMETIMES(true, "meta.scrub.row_not_whole");
    Postpone(places, std::string(whole.message()));
    co_return;
  }
  places = co_await KeepNeeded(std::move(places));
  if (places.empty()) co_return;
  wire::RebuildShardRequest request = OrderOf(places, sequence);
  if (request.target() == 0) {  // The map changed meanwhile.
    Postpone(places, "its row changes");
    co_return;
  }
  const absl::StatusOr<wire::RebuildShardResponse> answer =
      co_await Carry(std::move(request));
  if (!answer.ok()) {
    CAIRN_SOMETIMES(true, "meta.scrub.order_failed");
    Postpone(places, std::string(answer.status().message()));
    co_return;
  }
  Settle(places, *answer);
}

io::Task<std::vector<Scrub::Place>> Scrub::KeepNeeded(
    std::vector<Place> places) {
  std::vector<Place> needed;
  for (const Place& place : places) {
    const absl::StatusOr<bool> used =
        co_await StripeIsInUse(core_, place.blob, place.stripe);
    Suspect& suspect = suspects_.at(place);
    if (!used.ok()) {
      suspect.not_before = Now() + kScrubRetryNs;
    } else if (*used) {
      if (!suspect.damaged && !suspect.counted) ++absent_;
      suspect.counted = true;
      suspect.unused = false;
      needed.push_back(place);
    } else if (!suspect.damaged || suspect.unused) {
      suspects_.erase(place);
    } else {
      // A file may come to refer to it; the target goes on reporting it.
      suspect.unused = true;
      suspect.problem.clear();
      suspect.not_before = Now() + core_->options.repair.retry_ns;
    }
  }
  co_return needed;
}

// From all others of the row. Without a target: it has no such row.
wire::RebuildShardRequest Scrub::OrderOf(const std::vector<Place>& places,
                                         uint64_t sequence) const {
  const PgId pg = places.front().pg;
  const uint32_t shard = places.front().shard;
  const auto map = core_->map.map();
  const Pool* const pool = map->FindPool(pg.pool);
  wire::RebuildShardRequest request;
  if (pool == nullptr || pg.index >= pool->pg_count) return request;
  const auto row = pool->PgTargets(pg.index);
  if (shard >= row.size()) return request;
  for (uint32_t other = 0; other < row.size(); ++other) {
    if (other == shard) continue;
    const format::TargetInfo* const info = map->FindTarget(row[other]);
    if (info == nullptr) return request;
    wire::RebuildSource* const source = request.add_sources();
    source->set_target(row[other].value);
    source->set_shard(other);
    source->set_address(info->address);
  }
  request.set_target(row[shard].value);
  request.set_pool(pg.pool.value);
  request.set_pg(pg.index);
  request.set_shard(shard);
  request.mutable_scheme()->set_kind(static_cast<uint32_t>(pool->scheme.kind));
  request.mutable_scheme()->set_data_shards(pool->scheme.data_shards);
  request.mutable_scheme()->set_parity_shards(pool->scheme.parity_shards);
  request.set_chunk_size(pool->chunk_size);
  // Another one with each order: an old answer is not taken for a new one.
  request.set_fence_epoch(core_->env->Random());
  request.set_meta_sequence(sequence);
  for (const Place& place : places) {
    wire::StripeRef* const stripe = request.add_repair();
    stripe->set_blob(place.blob.value);
    stripe->set_stripe(place.stripe);
  }
  return request;
}

// Orders until it is over.
io::Task<absl::StatusOr<wire::RebuildShardResponse>> Scrub::Carry(
    wire::RebuildShardRequest request) {
  const io::TimeNs deadline = Now() + kRepairPatienceNs;
  io::TimeNs pause = std::max<io::TimeNs>(1, core_->options.tick_ns / 16);
  while (!core_->stopping.cancelled() && Now() < deadline) {
    wire::RebuildShardRequest again = request;
    absl::StatusOr<wire::RebuildShardResponse> answer =
        co_await orders_->RebuildShard(std::move(again));
    if (!answer.ok()) co_return answer;
    if (answer->state() != static_cast<uint32_t>(RebuildState::kRunning)) {
      co_return answer;
    }
    co_await io::SleepFor(core_->env, pause, &core_->stopping);
    pause = std::min(2 * pause, core_->options.tick_ns);
  }
  co_return absl::DeadlineExceededError("the repair does not come to its end");
}

void Scrub::Settle(const std::vector<Place>& places,
                   const wire::RebuildShardResponse& answer) {
  repaired_ += answer.repaired();
  if (answer.repaired() > 0) {
    spdlog::warn("metadata: scrub: {} chunks of {} were made again",
                 answer.repaired(), ToString(places.front().pg));
  }
  if (answer.state() != static_cast<uint32_t>(RebuildState::kDone)) {
    Postpone(places, answer.problem().empty() ? "it failed" : answer.problem());
    return;
  }
  std::map<std::pair<uint64_t, uint32_t>, std::string> lost;
  for (const wire::LostStripe& each : answer.lost()) {
    lost[{each.blob(), each.stripe()}] = each.reason();
  }
  for (const Place& place : places) {
    const auto found = lost.find({place.blob.value, place.stripe});
    if (found == lost.end()) {
      CAIRN_SOMETIMES(true, "meta.scrub.repaired");
      suspects_.erase(place);
      continue;
    }
    Suspect& suspect = suspects_.at(place);
    suspect.not_before = Now() + core_->options.repair.retry_ns;
    if (suspect.problem != found->second) {
      spdlog::error("metadata: scrub: {} cannot be made again: {}",
                    NameOf(place), found->second);
    }
    suspect.problem = found->second;
  }
}

std::string Scrub::NameOf(const Place& place) const {
  const auto map = core_->map.map();
  const Pool* const pool = map->FindPool(place.pg.pool);
  const format::ChunkId chunk{place.blob, place.stripe, place.shard};
  std::string name =
      absl::StrCat(format::ToString(chunk), " of ", ToString(place.pg));
  if (pool != nullptr && place.pg.index < pool->pg_count &&
      place.shard < pool->scheme.shards()) {
    absl::StrAppend(&name, " on target ",
                    pool->PgTargets(place.pg.index)[place.shard].value);
  }
  return name;
}

void Scrub::Report(wire::ClusterStatusResponse* response) const {
  wire::ScrubStatus status;
  for (const wire::TargetStatusResponse& target : response->targets()) {
    const wire::ScrubProgress& said = target.scrub();
    status.set_targets_on(status.targets_on() + (said.on() ? 1 : 0));
    status.set_verified_bytes(status.verified_bytes() + said.verified_bytes());
    status.set_damaged_chunks(status.damaged_chunks() + said.damaged_chunks());
    status.set_damaged_now(status.damaged_now() + said.damaged_now());
    status.set_pass_bytes_done(status.pass_bytes_done() +
                               said.pass_bytes_done());
    status.set_pass_bytes_todo(status.pass_bytes_todo() +
                               said.pass_bytes_todo());
    if (said.passes() == 0) continue;
    status.set_targets_passed(status.targets_passed() + 1);
    status.set_since_pass_ms(
        std::max(status.since_pass_ms(), said.since_pass_ms()));
  }
  status.set_absent_chunks(absent_);
  status.set_repaired_chunks(repaired_);
  status.set_groups(groups_);
  status.set_groups_compared(groups_ - left_.size());
  status.set_compare_passes(passes_);
  const auto add = [&status](std::string problem) {
    if (status.problems_size() < static_cast<int>(kScrubProblemsShown)) {
      status.add_problems(std::move(problem));
    }
  };
  uint64_t unrepaired = 0;
  for (const auto& [place, suspect] : suspects_) {
    if (suspect.problem.empty()) continue;
    ++unrepaired;
    add(absl::StrCat(
        NameOf(place),
        suspect.damaged ? " (damaged): " : " (gone): ", suspect.problem));
  }
  status.set_unrepaired_chunks(unrepaired);
  for (const auto& [pg, problem] : disagreements_) add(problem);
  *response->mutable_scrub() = std::move(status);
}

}  // namespace cairn::server
