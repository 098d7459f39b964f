#include "server/meta/rebuild.h"

#include <algorithm>

#include "format/base/fault_points.h"
#include "server/meta/stripe_use.h"
#include "spdlog/spdlog.h"

namespace cairn::server {

using format::ClusterMap;
using format::PgId;
using format::Pool;
using format::RebuildState;
using format::TargetId;
using format::TargetState;

namespace {

// Samples of the rate, one a round.
constexpr size_t kRateSamples = 10;

std::string NameOf(PgId pg, uint32_t shard) {
  return absl::StrCat("shard ", shard, " of ", ToString(pg));
}

}  // namespace

io::Task<absl::Status> Rebuild::Load() {
  format::KeyRange range = format::RangeOf(format::KeyKind::kMove, {});
  while (true) {
    const absl::StatusOr<std::vector<KvPair>> page =
        co_await core_->kv->Scan(range.begin, range.end, kMovesPerTxn);
    if (!page.ok()) co_return page.status();
    for (const KvPair& pair : *page) {
      CAIRN_CO_ASSIGN_OR_RETURN(const format::ParsedKey key,
                                format::ParseKey(pair.key));
      CAIRN_CO_ASSIGN_OR_RETURN(
          const store::Move record,
          format::DecodeRecord<store::Move>(pair.key, pair.value));
      PgId pg;
      pg.pool = format::PoolId(static_cast<uint16_t>(key.numbers[0]));
      pg.index = static_cast<uint32_t>(key.numbers[1]);
      Move move;
      move.from = TargetId(record.from());
      move.to = TargetId(record.to());
      move.fence = format::Epoch(record.fence_epoch());
      moves_[MoveId(pg, static_cast<uint32_t>(key.numbers[2]))] = move;
    }
    if (page->size() < kMovesPerTxn) break;
    range.begin = page->back().key + '\0';
  }
  CAIRN_SOMETIMES(!moves_.empty(), "meta.rebuild.resumed");
  co_return absl::OkStatus();
}

io::Task<void> Rebuild::Loop() {
  io::Gate asking(core_->env);
  while (!core_->stopping.cancelled()) {
    const absl::Status done = co_await Round(&asking);
    if (!done.ok()) {
      spdlog::warn("metadata: rebuild: {}", StdText(done.message()));
    }
    NoteRate();
    co_await io::SleepFor(core_->env, core_->options.tick_ns, &core_->stopping);
  }
  co_await asking.Close();
}

// The brake is looked at before each step: it may engage meanwhile.
io::Task<absl::Status> Rebuild::Round(io::Gate* asking) {
  found_.clear();
  CAIRN_CO_RETURN_IF_ERROR(co_await Reconcile());
  CAIRN_SOMETIMES(Braked() && !moves_.empty(), "meta.rebuild.braked");
  if (!Braked()) CAIRN_CO_RETURN_IF_ERROR(co_await TakeOut());
  if (!Braked()) CAIRN_CO_RETURN_IF_ERROR(co_await Plan());
  problems_ = found_;
  if (!Braked()) AskAll(asking);
  if (!Braked()) CAIRN_CO_RETURN_IF_ERROR(co_await Switch());
  co_return absl::OkStatus();
}

void Rebuild::AskAll(io::Gate* asking) {
  const io::TimeNs now = core_->env->NowNs();
  for (auto& [id, move] : moves_) {
    if (move.asking || move.done || now < move.not_before) continue;
    move.asking = true;
    asking->Spawn(Ask(id));
  }
}

absl::StatusOr<wire::RebuildShardRequest> Rebuild::OrderOf(
    const MoveId& id, const Move& move) const {
  const auto map = core_->map.map();
  const Pool* const pool = map->FindPool(id.first.pool);
  if (pool == nullptr) return absl::NotFoundError("no such pool");
  wire::RebuildShardRequest request;
  request.set_target(move.to.value);
  request.set_pool(id.first.pool.value);
  request.set_pg(id.first.index);
  request.set_shard(id.second);
  request.mutable_scheme()->set_kind(static_cast<uint32_t>(pool->scheme.kind));
  request.mutable_scheme()->set_data_shards(pool->scheme.data_shards);
  request.mutable_scheme()->set_parity_shards(pool->scheme.parity_shards);
  request.set_chunk_size(pool->chunk_size);
  request.set_fence_epoch(move.fence.value);
  request.set_meta_sequence(core_->kv->durable_sequence());
  const auto row = pool->PgTargets(id.first.index);
  const auto add = [&](uint32_t shard) {
    wire::RebuildSource* const source = request.add_sources();
    source->set_target(row[shard].value);
    source->set_shard(shard);
    source->set_address(map->FindTarget(row[shard])->address);
  };
  for (uint32_t shard = 0; shard < row.size(); ++shard) {
    if (shard != id.second && map->MayRead(row[shard])) add(shard);
  }
  // The one that leaves may be alive, and have what others have lost.
  if (map->FindTarget(move.from) != nullptr &&
      health_->Look(move.from).answers) {
    CAIRN_SOMETIMES(true, "meta.rebuild.from_is_a_source");
    add(id.second);
  }
  const auto sources = static_cast<uint32_t>(request.sources_size());
  if (sources < pool->scheme.data_shards) {
    return absl::UnavailableError(
        absl::StrCat("only ", sources, " targets can be read, ",
                     pool->scheme.data_shards, " are needed"));
  }
  return request;
}

io::Task<void> Rebuild::Ask(MoveId id) {
  // Not erased while it is asked: only rounds erase, and they look it up again.
  const format::Epoch fence = moves_.at(id).fence;
  absl::StatusOr<wire::RebuildShardRequest> request =
      OrderOf(id, moves_.at(id));
  if (request.ok()) {
    auto answer = co_await orders_->RebuildShard(*std::move(request));
    co_await Answered(id, fence, std::move(answer));
  } else {
    co_await Answered(id, fence, request.status());
  }
  const auto place = moves_.find(id);
  if (place != moves_.end()) place->second.asking = false;
}

io::Task<void> Rebuild::Answered(
    MoveId id, format::Epoch fence,
    absl::StatusOr<wire::RebuildShardResponse> answer) {
  std::string problem;
  bool done = false;
  bool running = false;
  if (!answer.ok()) {
    problem = std::string(answer.status().message());
  } else if (answer->state() == static_cast<uint32_t>(RebuildState::kDone)) {
    problem = co_await Excuse(*answer);
    done = problem.empty();
  } else if (answer->state() == static_cast<uint32_t>(RebuildState::kRunning)) {
    running = true;
  } else {
    problem = answer->problem().empty() ? "it failed" : answer->problem();
  }
  const auto place = moves_.find(id);
  if (place == moves_.end() || place->second.fence != fence) co_return;
  Move& move = place->second;
  if (answer.ok()) {
    move.report = *std::move(answer);
    if (!running && !move.report.home_failed()) move.home_failures = 0;
    if (move.report.home_failed()) ++move.home_failures;
  }
  move.done = done;
  if (!problem.empty()) {
    move.not_before = core_->env->NowNs() + kMoveRetryNs;
    if (move.problem != problem) {
      spdlog::warn("metadata: {} does not get to target {} yet: {}",
                   NameOf(id.first, id.second), move.to.value, problem);
    }
  }
  // What stopped the last try is worth knowing while the next one runs.
  if (!running) move.problem = std::move(problem);
}

io::Task<std::string> Rebuild::Excuse(wire::RebuildShardResponse report) const {
  if (report.lost_stripes() > static_cast<uint64_t>(report.lost_size())) {
    co_return absl::StrCat(report.lost_stripes(),
                           " stripes cannot be made, more than are looked up");
  }
  for (const wire::LostStripe& lost : report.lost()) {
    const absl::StatusOr<bool> used = co_await StripeIsInUse(
        core_, format::BlobId(lost.blob()), lost.stripe());
    if (!used.ok()) co_return std::string(used.status().message());
    if (*used) {
      CAIRN_SOMETIMES(true, "meta.rebuild.stripe_lost");
      co_return absl::StrCat("data that files need cannot be made now: ",
                             lost.reason());
    }
    CAIRN_SOMETIMES(true, "meta.rebuild.stripe_of_nobody");
  }
  co_return std::string();
}

// All that is done now, in one map.
io::Task<absl::Status> Rebuild::Switch() {
  const auto map = core_->map.map();
  ClusterMap next = *map;
  next.epoch = format::Epoch(map->epoch.value + 1);
  std::vector<std::pair<MoveId, Move>> switched;
  for (const auto& [id, move] : moves_) {
    if (!move.done || WorthOf(*map, id, move) != Worth::kGoesOn ||
        !map->MayRead(move.to)) {
      continue;
    }
    Pool& pool = next.pools.at(id.first.pool);
    pool.pg_targets[uint64_t{id.first.index} * pool.scheme.shards() +
                    id.second] = move.to;
    switched.emplace_back(id, move);
    const bool only_one = CAIRN_FAULT_POINT("meta.rebuild.switch_one_by_one");
    if (only_one || switched.size() == kSwitchesPerMap) break;
  }
  if (switched.empty()) co_return absl::OkStatus();
  MapHolder::AlsoWrite also = [this, &switched](Txn* txn) {
    for (const auto& [id, move] : switched) {
      txn->Delete(format::MoveKey(id.first, id.second));
      chores_->Add(txn, format::GroupChore::kDrop, move.from, id.first);
      chores_->Add(txn, format::GroupChore::kSweep, move.to, id.first);
    }
  };
  const absl::Status replaced =
      co_await core_->map.Replace(std::move(next), std::move(also));
  // Somebody else made a map: once more in the next round.
  if (IsConflict(replaced)) co_return absl::OkStatus();
  CAIRN_CO_RETURN_IF_ERROR(replaced);
  for (const auto& [id, move] : switched) {
    spdlog::info("metadata: {} is on target {} now, not on {} (map epoch {})",
                 NameOf(id.first, id.second), move.to.value, move.from.value,
                 core_->map.epoch().value);
    moved_bytes_ += move.report.bytes_done();
    ++moved_shards_;
    moves_.erase(id);
  }
  co_return absl::OkStatus();
}

void Rebuild::NoteRate() {
  uint64_t bytes = moved_bytes_;
  for (const auto& [id, move] : moves_) bytes += move.report.bytes_done();
  samples_.emplace_back(core_->env->NowNs(), bytes);
  if (samples_.size() > kRateSamples) samples_.pop_front();
}

wire::RebuildStatus Rebuild::Report() const {
  wire::RebuildStatus status;
  status.set_shards_waiting(waiting_);
  status.set_shards_moving(moves_.size());
  status.set_shards_moved(moved_shards_);
  uint64_t done = 0;
  uint64_t todo = 0;
  for (const auto& [id, move] : moves_) {
    done += move.report.bytes_done();
    todo += move.report.bytes_todo();
    status.set_chunks_done(status.chunks_done() + move.report.chunks_done());
    status.set_chunks_todo(status.chunks_todo() + move.report.chunks_todo());
  }
  status.set_bytes_done(done);
  status.set_bytes_todo(todo);
  if (samples_.size() > 1) {
    const auto& [from, before] = samples_.front();
    const auto& [to, after] = samples_.back();
    const io::TimeNs time = std::max<io::TimeNs>(1, to - from);
    const double rate = after <= before
                            ? 0
                            : static_cast<double>(after - before) *
                                  io::kSecond / static_cast<double>(time);
    status.set_bytes_per_s(static_cast<uint64_t>(rate));
  }
  // Those that wait are taken to be as long as the others.
  const uint64_t known = moves_.size() + moved_shards_;
  const uint64_t mean = known == 0 ? 0 : (todo + moved_bytes_) / known;
  const uint64_t left = todo - std::min(done, todo) + waiting_ * mean;
  if (status.bytes_per_s() > 0) {
    status.set_left_ms(
        static_cast<uint64_t>(1000.0 * static_cast<double>(left) /
                              static_cast<double>(status.bytes_per_s())));
  }
  for (const std::string& problem : problems_) status.add_problems(problem);
  for (const auto& [id, move] : moves_) {
    if (move.problem.empty()) continue;
    if (status.problems_size() >= static_cast<int>(kRebuildProblemsShown)) {
      break;
    }
    status.add_problems(absl::StrCat(NameOf(id.first, id.second), " to target ",
                                     move.to.value, ": ", move.problem));
  }
  return status;
}

}  // namespace cairn::server
