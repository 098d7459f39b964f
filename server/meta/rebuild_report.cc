// What a rebuild tells of itself.
#include <algorithm>

#include "server/meta/rebuild.h"

namespace cairn::server {

namespace {
// Samples of the rate, one a round.
constexpr size_t kRateSamples = 10;
}  // namespace

void Rebuild::NoteRate() {
  uint64_t bytes = moved_bytes_;
  for (const auto& [id, move] : moves_) bytes += move.report.bytes_done();
  samples_.emplace_back(core_->env->NowNs(), bytes);
  if (samples_.size() > kRateSamples) samples_.pop_front();
}

uint64_t Rebuild::CountMoves(Cause cause) const {
  return static_cast<uint64_t>(std::count_if(
      moves_.begin(), moves_.end(),
      [cause](const auto& m) { return m.second.cause == cause; }));
}

wire::RebuildStatus Rebuild::Report() const {
  wire::RebuildStatus status;
  status.set_shards_waiting(waiting_);
  status.set_shards_moving(moves_.size());
  status.set_shards_moved(moved_shards_);
  status.set_drain_moving(CountMoves(Cause::kDrain));
  status.set_drain_left(drain_waiting_ + status.drain_moving());
  status.set_balance_moving(CountMoves(Cause::kBalance));
  status.set_balance_left(balance_waiting_ + status.balance_moving());
  if (balance_waiting_ > 0) status.set_balance_waits(balance_waits_);
  for (const auto& [id, move] : moves_) {
    status.set_bytes_done(status.bytes_done() + move.report.bytes_done());
    status.set_bytes_todo(status.bytes_todo() + move.report.bytes_todo());
    status.set_chunks_done(status.chunks_done() + move.report.chunks_done());
    status.set_chunks_todo(status.chunks_todo() + move.report.chunks_todo());
  }
  ReportRate(&status);
  ReportProblems(&status);
  return status;
}

void Rebuild::ReportRate(wire::RebuildStatus* status) const {
  if (samples_.size() > 1) {
    const auto& [from, before] = samples_.front();
    const auto& [to, after] = samples_.back();
    const io::TimeNs time = std::max<io::TimeNs>(1, to - from);
    const double rate = after <= before
                            ? 0
                            : static_cast<double>(after - before) *
                                  io::kSecond / static_cast<double>(time);
    status->set_bytes_per_s(static_cast<uint64_t>(rate));
  }
  // Those that wait are taken to be as long as the others.
  const uint64_t waiting =
      waiting_ + drain_waiting_ +
      (balance_waits_.empty() ? balance_waiting_ : uint64_t{0});
  const uint64_t known = moves_.size() + moved_shards_;
  const uint64_t mean =
      known == 0 ? 0 : (status->bytes_todo() + moved_bytes_) / known;
  const uint64_t left = status->bytes_todo() -
                        std::min(status->bytes_done(), status->bytes_todo()) +
                        waiting * mean;
  if (status->bytes_per_s() > 0) {
    status->set_left_ms(
        static_cast<uint64_t>(1000.0 * static_cast<double>(left) /
                              static_cast<double>(status->bytes_per_s())));
  }
}

void Rebuild::ReportProblems(wire::RebuildStatus* status) const {
  for (const std::string& problem : problems_) status->add_problems(problem);
  for (const auto& [id, move] : moves_) {
    if (move.problem.empty()) continue;
    if (status->problems_size() >= static_cast<int>(kRebuildProblemsShown)) {
      break;
    }
    status->add_problems(absl::StrCat(NameOfShard(id.first, id.second),
                                      " to target ", move.to.value, ": ",
                                      move.problem));
  }
}

}  // namespace cairn::server
