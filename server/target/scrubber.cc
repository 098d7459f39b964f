#include "server/target/scrubber.h"

#include <algorithm>
#include <array>
#include <vector>

#include "format/base/fault_points.h"
#include "format/base/status.h"
#include "format/target/chunk_record.h"
#include "server/target/limits.h"
#include "spdlog/spdlog.h"

namespace cairn::server {

using io::Task;
using io::TimeNs;

namespace {

constexpr uint64_t kHourNs = 3600 * io::kSecond;
// Where one sweep of a pass ends and the next begins, youngest first.
constexpr std::array<uint64_t, 4> kAges = {kHourNs, 24 * kHourNs,
                                           7 * 24 * kHourNs, 30 * 24 * kHourNs};

}  // namespace

Scrubber::Scrubber(io::Env* env, ChunkStore* store, ScrubOptions options)
    : env_(env), store_(store), options_(options), gate_(env) {
  CAIRN_CHECK(options_.bytes_per_s > 0);
}

void Scrubber::Start() { gate_.Spawn(Loop()); }

Task<void> Scrubber::Close() {
  Stop();
  co_await gate_.Close();
}

Task<void> Scrubber::Pause(TimeNs time) {
  co_await io::SleepFor(env_, time, &stopping_);
}

Task<void> Scrubber::Loop() {
  co_await Pause(options_.start_after_ns);
  while (!stopping_.cancelled()) {
    const TimeNs began = env_->NowNs();
    const uint64_t forgotten = store_->stats().damaged_forgotten;
    co_await Pass();
    if (stopping_.cancelled()) break;
    ++passes_;
    pass_ended_ = env_->NowNs();
    const StoreStats stats = store_->stats();
    spdlog::info(
        "target {}: scrub: all chunks were read again in {} s; {} are damaged",
        store_->identity().target_id.value, (pass_ended_ - began) / io::kSecond,
        stats.damaged_now);
    // More damage than a store remembers: once more, when some is repaired.
    if (stats.damaged_forgotten == forgotten) {
      co_await AwaitNextPass(began + options_.pass_ns);
    } else {
      co_await Pause(options_.start_after_ns);
    }
  }
}

// The bands cover all times, so whatever clocks did, no chunk is left out.
Task<void> Scrubber::Pass() {
  pass_bytes_ = 0;
  skipped_ = 0;
  in_pass_ = true;
  const uint64_t now = env_->WallNs();
  Band band;
  band.to = UINT64_MAX;
  for (const uint64_t age : kAges) {
    band.from = now - std::min(now, age);
    co_await Sweep(band);
    band.to = band.from;
  }
  band.from = 0;
  co_await Sweep(band);
  swept_to_wall_ns_ = now;
  in_pass_ = false;
}

Task<void> Scrubber::AwaitNextPass(TimeNs next) {
  while (!stopping_.cancelled() && env_->NowNs() < next) {
    const TimeNs left = next - env_->NowNs();
    co_await Pause(std::min(left, options_.fresh_ns));
    if (stopping_.cancelled() || env_->NowNs() >= next) co_return;
    Band fresh;
    fresh.from = swept_to_wall_ns_;
    fresh.to = UINT64_MAX;
    const uint64_t now = env_->WallNs();
    co_await Sweep(fresh);
    swept_to_wall_ns_ = now;
    CAIRN_SOMETIMES(true, "target.scrub.fresh");
  }
}

Task<void> Scrubber::Sweep(Band band) {
  std::string cursor;
  while (!stopping_.cancelled()) {
    const absl::StatusOr<ChunkStore::WalkResult> page =
        co_await store_->Walk(cursor, kScrubPage);
    if (!page.ok()) {  // Closed.
      Stop();
      co_return;
    }
    for (const ChunkStore::WalkedChunk& chunk : page->chunks) {
      if (stopping_.cancelled()) co_return;
      if (chunk.put_wall_ns < band.from || chunk.put_wall_ns >= band.to) {
        continue;
      }
      co_await Check(chunk);
    }
    if (page->next.empty()) co_return;
    cursor = page->next;
    co_await Pause(kScrubPagePause);
  }
}

Task<void> Scrubber::Check(ChunkStore::WalkedChunk chunk) {
  for (uint32_t tries = 0; tries < kScrubTriesMax; ++tries) {
    co_await AwaitWell();
    if (stopping_.cancelled()) co_return;
    const absl::Status read = co_await ReadAll(chunk);
    if (stopping_.cancelled()) co_return;
    if (read.ok()) {
      ++verified_chunks_;
      verified_bytes_ += chunk.chunk_bytes;
    }
    CAIRN_SOMETIMES(absl::IsDataLoss(read), "target.scrub.damage");
    if (read.ok() || absl::IsDataLoss(read)) {
      pass_bytes_ += format::AllocatedBytesOf(chunk.chunk_bytes);
      co_return;
    }
    // Erased meanwhile.
    if (absl::IsNotFound(read) || absl::IsOutOfRange(read)) co_return;
    CAIRN_SOMETIMES(true, "target.scrub.busy");
    co_await Pause(kScrubBusyPause);
  }
  ++skipped_;
}

Task<absl::Status> Scrubber::ReadAll(ChunkStore::WalkedChunk chunk) {
  absl::Status damage;
  for (uint64_t at = 0; at < chunk.chunk_bytes; at += kScrubPieceBytes) {
    co_await io::SleepUntil(env_, next_read_, &stopping_);
    if (stopping_.cancelled()) co_return absl::CancelledError("stopping");
    const uint64_t length =
        std::min<uint64_t>(kScrubPieceBytes, chunk.chunk_bytes - at);
    next_read_ = env_->NowNs() + length * io::kSecond / options_.bytes_per_s;
    Access access;
    access.traffic_class = format::TrafficClass::kBackground;
    access.deadline = env_->NowNs() + kScrubTurnTimeout;
    const absl::StatusOr<ChunkStore::ReadResult> read =
        co_await store_->Read(chunk.pg.index, chunk.chunk, at, length, access);
    if (absl::IsDataLoss(read.status())) {
      damage = read.status();
    } else if (!read.ok()) {
      co_return read.status();
    }
  }
  co_return damage;
}

Task<void> Scrubber::AwaitWell() {
  while (!stopping_.cancelled() && !store_->stats().failed.empty()) {
    co_await Pause(kScrubFailedPause);
  }
}

wire::ScrubProgress Scrubber::Report() const {
  wire::ScrubProgress report;
  report.set_on(!stopping_.cancelled());
  report.set_verified_chunks(verified_chunks_);
  report.set_verified_bytes(verified_bytes_);
  report.set_passes(passes_);
  report.set_skipped_chunks(skipped_);
  if (in_pass_) {
    report.set_pass_bytes_done(pass_bytes_);
    report.set_pass_bytes_todo(
        std::max(pass_bytes_, store_->stats().used_bytes));
  }
  if (passes_ > 0) {
    report.set_since_pass_ms((env_->NowNs() - pass_ended_) / io::kMillisecond);
  }
  return report;
}

}  // namespace cairn::server
