#include "server/meta/kv/high_water_mark.h"

#include <algorithm>
#include <utility>

#include "format/base/fault_points.h"
#include "server/meta/limits.h"
#include "spdlog/spdlog.h"

namespace cairn::server {

namespace {

using FoundMarks = std::array<absl::StatusOr<format::Mark>, 2>;

// Why neither of two marks can be used.
absl::Status Unusable(const FoundMarks& found) {
  for (const absl::StatusOr<format::Mark>& one : found) {
    if (!absl::IsDataLoss(one.status())) continue;
    return Annotate(one.status(),
                    "neither mark can be read; put a copy back, or remove both "
                    "and start once with --accept-metadata-loss");
  }
  return absl::NotFoundError(
      "mark.0 and mark.1 are missing: put them back, or start once with "
      "--accept-metadata-loss to make new ones");
}

}  // namespace

HighWaterMark::~HighWaterMark() { CAIRN_CHECK(closed_); }

std::string HighWaterMark::SlotPath(size_t slot) const {
  return absl::StrCat(dir_, "/mark.", slot);
}

io::Task<absl::StatusOr<std::unique_ptr<HighWaterMark>>> HighWaterMark::Open(
    io::Env* env, std::string dir, format::ClusterId cluster, bool create) {
  std::unique_ptr<HighWaterMark> mark(new HighWaterMark(env, std::move(dir)));
  absl::Status loaded = co_await mark->Load(cluster, create);
  if (!loaded.ok()) {
    (void)co_await mark->Close();
    co_return Annotate(std::move(loaded), "high-water mark in " + mark->dir_);
  }
  co_return mark;
}

io::Task<absl::Status> HighWaterMark::Load(format::ClusterId cluster,
                                           bool create) {
  // One by one: gcc 12 destroys braced aggregates around a co_await twice.
  absl::StatusOr<format::Mark> first_slot = co_await ReadSlot(0);
  absl::StatusOr<format::Mark> second_slot = co_await ReadSlot(1);
  const FoundMarks found = {std::move(first_slot), std::move(second_slot)};
  for (const absl::StatusOr<format::Mark>& one : found) {
    // Damage in one is what a torn write leaves; anything else is not.
    if (!one.ok() && !absl::IsNotFound(one.status()) &&
        !absl::IsDataLoss(one.status())) {
      co_return one.status();
    }
    if (one.ok() && one->cluster != cluster) {
      co_return absl::FailedPreconditionError(
          absl::StrCat("belongs to cluster ", format::ToString(one->cluster),
                       ", not to ", format::ToString(cluster)));
    }
  }
  const bool any = found[0].ok() || found[1].ok();
  CAIRN_SOMETIMES(absl::IsDataLoss(found[0].status()) ||
                      absl::IsDataLoss(found[1].status()),
                  "meta.mark.one_torn");
  // The second file is written when the first one is whole: while one is
  // missing and the other torn, no mark was ever there.
  const bool never = !any && (absl::IsNotFound(found[0].status()) ||
                              absl::IsNotFound(found[1].status()));
  if (!any && !(never && create)) co_return Unusable(found);
  CAIRN_CO_RETURN_IF_ERROR(co_await OpenSlots());
  if (!any) {
    format::Mark first;
    first.cluster = cluster;
    co_return co_await Write(first);
  }
  const bool second_is_newer =
      found[1].ok() &&
      (!found[0].ok() || found[1]->generation > found[0]->generation);
  written_ = second_is_newer ? *found[1] : *found[0];
  due_ = written_.sequence;
  next_slot_ = second_is_newer ? 0 : 1;
  co_return absl::OkStatus();
}

io::Task<absl::StatusOr<format::Mark>> HighWaterMark::ReadSlot(size_t slot) {
  const std::string path = SlotPath(slot);
  CAIRN_CO_ASSIGN_OR_RETURN(const std::optional<io::FileInfo> info,
                            co_await env_->Stat(path));
  if (!info || info->size_bytes == 0) co_return absl::NotFoundError(path);
  if (info->size_bytes != format::kMarkBytes) {
    co_return absl::DataLossError(
        absl::StrCat(path, " has ", info->size_bytes, " bytes"));
  }
  io::OpenOptions options;
  CAIRN_CO_ASSIGN_OR_RETURN(const std::unique_ptr<io::File> file,
                            co_await env_->OpenFile(path, options));
  std::string bytes(format::kMarkBytes, '\0');
  const format::MutableBytes to(reinterpret_cast<uint8_t*>(bytes.data()),
                                bytes.size());
  const absl::Status read = co_await file->ReadAt(0, to);
  (void)co_await file->Close();
  if (absl::IsOutOfRange(read)) co_return absl::DataLossError(read.message());
  CAIRN_CO_RETURN_IF_ERROR(read);
  absl::StatusOr<format::Mark> mark = format::DecodeMark(to);
  if (!mark.ok()) co_return Annotate(mark.status(), path);
  co_return mark;
}

io::Task<absl::Status> HighWaterMark::OpenSlots() {
  for (size_t slot = 0; slot < slots_.size(); ++slot) {
    io::OpenOptions options;
    options.write = true;
    options.create = true;
    absl::StatusOr<std::unique_ptr<io::File>> file =
        co_await env_->OpenFile(SlotPath(slot), options);
    CAIRN_CO_RETURN_IF_ERROR(file);
    slots_[slot] = *std::move(file);
  }
  co_return co_await env_->SyncDirectory(dir_);
}

uint64_t HighWaterMark::Needed(uint64_t targets_max) const {
  return std::max(written_.sequence, targets_max);
}

absl::Status HighWaterMark::Check(uint64_t recovered,
                                  uint64_t targets_max) const {
  const uint64_t needed = Needed(targets_max);
  if (recovered >= needed) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "the metadata store ends at change ", recovered, ", but changes up to ",
      needed, " were acknowledged (mark in ", dir_, ": ", written_.sequence,
      "; newest known to a target: ", targets_max, "): ", needed - recovered,
      " changes are lost. Its files were damaged, or are an old copy. Restore "
      "a "
      "copy of the metadata directory that reaches change ",
      needed, ", or start once with --accept-metadata-loss to go on without ",
      "these changes: files written, renamed or removed by them are then as "
      "they were before."));
}

io::Task<absl::Status> HighWaterMark::AcceptLoss(KvEngine* kv,
                                                 uint64_t targets_max) {
  CAIRN_CHECK(!closed_);
  const auto in_flight = gate_.Enter();
  const uint64_t recovered = kv->sequence();
  const uint64_t needed = Needed(targets_max);
  if (recovered >= needed) {
    co_return absl::FailedPreconditionError(
        "no metadata is lost: start without --accept-metadata-loss");
  }
  CAIRN_CO_RETURN_IF_ERROR(co_await kv->SkipTo(needed + kKvSequenceGap));
  co_await one_write_.Acquire();
  format::Mark next = written_;
  next.sequence = std::max(next.sequence, kv->durable_sequence());
  ++next.losses;
  next.lost_after = recovered;
  next.lost_until = needed;
  absl::Status written = co_await Write(next);
  one_write_.Release();
  co_return written;
}

void HighWaterMark::Advance(uint64_t sequence) {
  CAIRN_CHECK(!closed_);
  due_ = std::max(due_, sequence);
  if (writing_ || due_ <= written_.sequence) return;
  writing_ = true;
  gate_.Spawn(WriteDue());
}

io::Task<void> HighWaterMark::WriteDue() {
  bool failed = false;
  while (due_ > written_.sequence && !failed) {
    if (CAIRN_FAULT_POINT("meta.mark.written_late")) {
      co_await io::SleepFor(env_, kLateCommitNs, &closing_);
    }
    co_await one_write_.Acquire();
    format::Mark next = written_;
    next.sequence = std::max(next.sequence, due_);
    const absl::Status written = co_await Write(next);
    one_write_.Release();
    failed = !written.ok();
    CAIRN_SOMETIMES(failed, "meta.mark.not_written");
    co_await io::SleepFor(env_, kMarkIntervalNs, &closing_);
  }
  writing_ = false;
}

io::Task<absl::Status> HighWaterMark::Write(format::Mark next) {
  next.generation = written_.generation + 1;
  const std::string bytes = format::EncodeMark(next);
  io::WriteOptions durable;
  durable.durable = true;
  absl::Status written =
      co_await slots_[next_slot_]->WriteAt(0, format::AsBytes(bytes), durable);
  if (written.ok()) {
    written_ = next;
    next_slot_ ^= 1;
  } else if (status_.ok()) {  // Say it once, not with every commit.
    spdlog::error(
        "high-water mark in {}: {}: a loss of metadata would go "
        "unnoticed",
        dir_, written.ToString());
  }
  status_ = written;
  co_return written;
}

io::Task<absl::Status> HighWaterMark::Close() {
  CAIRN_CHECK(!closed_);
  closed_ = true;
  closing_.Cancel();
  co_await gate_.Close();
  absl::Status status = status_;
  for (std::unique_ptr<io::File>& slot : slots_) {
    if (slot == nullptr) continue;
    const absl::Status closed = co_await slot->Close();
    if (status.ok()) status = closed;
    slot.reset();
  }
  co_return status;
}

}  // namespace cairn::server
