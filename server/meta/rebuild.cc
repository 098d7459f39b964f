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

std::string NameOfShard(PgId pg, uint32_t shard) {
  return absl::StrCat("shard ", shard, " of ", ToString(pg));
}

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
      move.cause = static_cast<Cause>(record.cause());
      const auto shard = static_cast<uint32_t>(key.numbers[2]);
      moves_.try_emplace(MoveId(pg, shard), move);
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
  // The one that leaves may be alive. A copy of what it has is cheaper than
  // decoding: first, unless it was lost and may go again at any time; then it
  // still has what others may have lost.
  const bool lives =
      map->FindTarget(move.from) != nullptr && health_->Look(move.from).answers;
  const bool first = map->MayRead(move.from);
  if (lives && first) add(id.second);
  for (uint32_t shard = 0; shard < row.size(); ++shard) {
    if (shard != id.second && CanRead(*map, row[shard])) add(shard);
  }
  if (lives && !first) {
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
    // For balance alone there is no need to insist.
    const bool counts = move.report.home_failed() ||
                        (move.cause == Cause::kBalance && !problem.empty());
    if (counts) {
      ++move.failures;
    } else if (!running) {
      move.failures = 0;
    }
  }
  move.done = done;
  if (!problem.empty()) {
    move.not_before = core_->env->NowNs() + kMoveRetryNs;
    if (move.problem != problem) {
      spdlog::warn("metadata: {} does not get to target {} yet: {}",
                   NameOfShard(id.first, id.second), move.to.value, problem);
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
    if (move.cause != Cause::kLost) pool.Open(id.first.index);
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
  for (const auto& [id, move] : switched) NoteSwitched(id, move);
  co_return absl::OkStatus();
}

void Rebuild::NoteSwitched(const MoveId& id, const Move& move) {
  spdlog::info("metadata: {} is on target {} now, not on {} (map epoch {})",
               NameOfShard(id.first, id.second), move.to.value, move.from.value,
               core_->map.epoch().value);
  CAIRN_SOMETIMES(move.cause == Cause::kDrain, "meta.rebuild.drained");
  CAIRN_SOMETIMES(move.cause == Cause::kBalance, "meta.rebuild.balanced");
  moved_bytes_ += move.report.bytes_done();
  ++moved_shards_;
  moves_.erase(id);
}

}  // namespace cairn::server
