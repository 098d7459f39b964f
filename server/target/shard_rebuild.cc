#include "server/target/shard_rebuild.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "format/base/fault_points.h"
#include "server/target/limits.h"
#include "spdlog/spdlog.h"

namespace cairn::server {

using format::RebuildState;
using io::Task;

namespace {
// Longest reason that is told of one stripe.
constexpr size_t kReasonBytesMax = 256;

ShardGoal WithGuard(ShardGoal goal, RepairGuard* guard) {
  goal.repair = guard;
  return goal;
}
}  // namespace

ShardRebuild::ShardRebuild(io::Env* env, ChunkStore* store, RebuildShare* share,
                           ShardGoal goal,
                           std::vector<wire::RebuildSource> sources,
                           std::vector<StripeName> repair)
    : env_(env),
      share_(share),
      repair_(std::move(repair)),
      goal_(WithGuard(std::move(goal), repair_.empty() ? nullptr : &guard_)),
      sources_(env, goal_, std::move(sources)),
      maker_(env, store, &sources_, &goal_, &share_->buffers) {}

void ShardRebuild::Stop() {
  stopping_.Cancel();
  if (failure_.ok()) failure_ = absl::CancelledError("told to stop");
}

Task<void> ShardRebuild::Run() {
  io::Gate making(env_);
  absl::Status status;
  if (repair_.empty()) {
    status = co_await Count();
    if (status.ok()) status = co_await MakeAll(&making);
  } else {
    chunks_todo_ = repair_.size();
    status = co_await RepairAll(&making);
  }
  co_await making.Close();
  if (status.ok()) status = failure_;
  if (status.ok() && !away_.empty()) status = absl::UnavailableError(away_);
  failure_ = status;
  state_ = status.ok() ? RebuildState::kDone : RebuildState::kFailed;
  CAIRN_SOMETIMES(!status.ok(), "target.rebuild.failed");
  LogEnd();
}

void ShardRebuild::LogEnd() const {
  if (failure_.ok() && !repair_.empty()) {
    spdlog::info(
        "target {}: shard {} of {}: {} of {} chunks were made again, {} could "
        "not be",
        goal_.target.value, goal_.shard, ToString(goal_.pg), repaired_,
        repair_.size(), lost_stripes_);
  } else if (failure_.ok()) {
    spdlog::info(
        "target {}: shard {} of {} is here: {} chunks, {} bytes; {} could not "
        "be made",
        goal_.target.value, goal_.shard, ToString(goal_.pg), chunks_done_,
        bytes_done_, lost_stripes_);
  } else {
    spdlog::warn("target {}: shard {} of {} is not complete: {}",
                 goal_.target.value, goal_.shard, ToString(goal_.pg),
                 StdText(failure_.message()));
  }
}

Task<absl::Status> ShardRebuild::Count() {
  StripeLister lister(&sources_);
  while (failure_.ok()) {
    absl::StatusOr<std::optional<ListedStripe>> stripe = co_await lister.Next();
    if (!stripe.ok()) co_return stripe.status();
    if (!stripe->has_value()) break;
    // What cannot be is told of when it is to be made.
    const uint64_t bytes = maker_.ChunkBytesOf(**stripe).value_or(0);
    if (bytes == 0) continue;
    ++chunks_todo_;
    bytes_todo_ += bytes;
  }
  co_return failure_;
}

Task<absl::Status> ShardRebuild::MakeAll(io::Gate* making) {
  StripeLister lister(&sources_);
  while (failure_.ok()) {
    absl::StatusOr<std::optional<ListedStripe>> stripe = co_await lister.Next();
    if (!stripe.ok()) co_return stripe.status();
    if (!stripe->has_value()) break;
    ListedStripe found = **std::move(stripe);
    CAIRN_CO_RETURN_IF_ERROR(co_await StartOne(std::move(found), making));
  }
  co_return failure_;
}

Task<absl::Status> ShardRebuild::StartOne(ListedStripe stripe,
                                          io::Gate* making) {
  const io::WaitResult turn =
      co_await share_->chunks.Acquire(1, io::kNoDeadline, &stopping_);
  const bool mine = turn == io::WaitResult::kWoken;
  if (mine) making->Spawn(MakeOne(std::move(stripe)));
  co_return failure_;
}

Task<absl::Status> ShardRebuild::RepairAll(io::Gate* making) {
  for (const StripeName& name : repair_) {
    if (!failure_.ok()) break;
    absl::StatusOr<ListedStripe> found = co_await Look(name);
    if (!found.ok()) {
      if (away_.empty()) away_ = std::string(found.status().message());
      continue;
    }
    ListedStripe stripe = *std::move(found);
    const bool any =
        std::any_of(stripe.chunks.begin(), stripe.chunks.end(),
                    [](const auto& chunk) { return chunk.has_value(); });
    if (any) {
      CAIRN_CO_RETURN_IF_ERROR(co_await StartOne(std::move(stripe), making));
      continue;
    }
    Made made;
    made.how = Making::kLost;
    made.reason = "no other target of the row has anything of it";
    Note(stripe, made);
  }
  co_return failure_;
}

Task<absl::StatusOr<ListedStripe>> ShardRebuild::Look(StripeName name) {
  ListedStripe stripe;
  stripe.blob = name.blob;
  stripe.stripe = name.stripe;
  for (uint32_t source = 0; source < sources_.count(); ++source) {
    absl::StatusOr<std::optional<SourceChunk>> found =
        co_await sources_.Look(source, name.blob, name.stripe);
    if (!found.ok()) co_return found.status();
    stripe.chunks.push_back(*std::move(found));
  }
  co_return stripe;
}

Task<void> ShardRebuild::MakeOne(ListedStripe stripe) {
  const absl::StatusOr<Made> made = co_await maker_.Make(stripe);
  share_->chunks.Release();
  if (made.ok()) {
    Note(stripe, *made);
  } else if (failure_.ok()) {
    failure_ = made.status();
    // No buffer, or no turn at the disk: busy, not broken.
    home_failed_ = !absl::IsDeadlineExceeded(failure_);
  }
}

void ShardRebuild::Note(const ListedStripe& stripe, const Made& made) {
  const std::string reason = absl::StrCat(format::ToString(stripe.blob), "/",
                                          stripe.stripe, ": ", made.reason);
  switch (made.how) {
    case Making::kNothing:
      return;
    case Making::kMade:
      if (!repair_.empty()) ++repaired_;
      [[fallthrough]];
    case Making::kThere:
      ++chunks_done_;
      bytes_done_ += made.bytes;
      return;
    case Making::kAway:
      if (away_.empty()) away_ = reason;
      return;
    case Making::kLost:
      break;
  }
  ++lost_stripes_;
  CAIRN_SOMETIMES(true, "target.rebuild.lost_stripe");
  if (lost_.size() >= kLostStripesMax) return;
  wire::LostStripe& lost = lost_.emplace_back();
  lost.set_blob(stripe.blob.value);
  lost.set_stripe(stripe.stripe);
  lost.set_reason(reason.substr(0, kReasonBytesMax));
}

wire::RebuildShardResponse ShardRebuild::Report() const {
  wire::RebuildShardResponse report;
  report.set_state(static_cast<uint32_t>(state_));
  report.set_chunks_done(chunks_done_);
  report.set_chunks_todo(std::max(chunks_todo_, chunks_done_));
  report.set_bytes_done(bytes_done_);
  report.set_bytes_todo(std::max(bytes_todo_, bytes_done_));
  report.set_lost_stripes(lost_stripes_);
  report.set_repaired(repaired_);
  if (state_ == RebuildState::kRunning) return report;
  for (const wire::LostStripe& lost : lost_) *report.add_lost() = lost;
  report.set_problem(std::string(failure_.message()));
  report.set_home_failed(home_failed_);
  return report;
}

}  // namespace cairn::server
