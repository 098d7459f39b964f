#include "client/file/open_file.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "client/blob/blob_reader.h"
#include "client/file/extents.h"
#include "client/file/turn.h"
#include "format/base/fault_points.h"

namespace cairn::client {

using format::Extent;
using format::Method;
using io::Task;
using io::TimeNs;

OpenFile::OpenFile(Core* core, wire::Attributes attributes, bool writable)
    : core_(core),
      attributes_(std::move(attributes)),
      writable_(writable),
      turn_(core->env(), 1),
      local_size_(attributes_.size()) {}

uint64_t OpenFile::size_bytes() const { return local_size_; }

absl::Status OpenFile::Sticky(absl::Status status) {
  if (!status.ok() && failure_.ok()) failure_ = status;
  return status;
}

void OpenFile::MakeWriter() {
  if (writer_ != nullptr) return;
  writer_ =
      std::make_unique<BlobWriter>(core_, core_->map()->pools.begin()->first,
                                   format::TrafficClass::kInteractive, nullptr);
}

Task<absl::Status> OpenFile::Pwrite(uint64_t offset,
                                    std::span<const uint8_t> from) {
  if (!writable_) {
    co_return absl::PermissionDeniedError("file is not open for writing");
  }
  if (offset + from.size() < offset) {
    co_return absl::InvalidArgumentError("offset and length overflow");
  }
  const TimeNs deadline = core_->Deadline();
  const Turn turn = co_await TakeTurn(&turn_);
  if (!failure_.ok()) co_return failure_;
  if (from.empty()) co_return absl::OkStatus();
  dirty_ = true;
  MakeWriter();
  absl::Status status = co_await WriteThrough(offset, from, deadline);
  if (status.ok()) {
    local_size_ = std::max<uint64_t>(local_size_, offset + from.size());
  }
  co_return Sticky(std::move(status));
}

// Small writes that continue the buffer are copied; what fills stripes is sent
// from the caller's memory.
Task<absl::Status> OpenFile::WriteThrough(uint64_t offset,
                                          std::span<const uint8_t> from,
                                          TimeNs deadline) {
  const uint64_t stripe = writer_->stripe_bytes();
  if (!buffer_.empty() && offset != buffer_offset_ + buffer_.size()) {
    CAIRN_SOMETIMES(true, "client.file.written_elsewhere");
    CAIRN_CO_RETURN_IF_ERROR(co_await FlushBuffer(deadline));
  }
  while (!from.empty()) {
    if (buffer_.empty() && from.size() >= stripe) {
      const uint64_t whole = from.size() / stripe * stripe;
      CAIRN_CO_RETURN_IF_ERROR(
          co_await WriteLarge(offset, from.first(whole), deadline));
      from = from.subspan(whole);
      offset += whole;
      continue;
    }
    if (buffer_.empty()) buffer_offset_ = offset;
    const uint64_t take =
        std::min<uint64_t>(from.size(), stripe - buffer_.size());
    buffer_.append(reinterpret_cast<const char*>(from.data()), take);
    from = from.subspan(take);
    offset += take;
    if (buffer_.size() == stripe ||
        CAIRN_FAULT_POINT("client.file.short_stripe")) {
      CAIRN_CO_RETURN_IF_ERROR(co_await FlushBuffer(deadline));
    }
  }
  co_return absl::OkStatus();
}

// The caller's memory is in flight, so this waits for its stripes.
Task<absl::Status> OpenFile::WriteLarge(uint64_t offset,
                                        std::span<const uint8_t> from,
                                        TimeNs deadline) {
  absl::Status status;
  for (uint64_t done = 0; done < from.size() && status.ok();
       done += writer_->stripe_bytes()) {
    ConstGather bytes(1, from.subspan(done, writer_->stripe_bytes()));
    OwnedBytes nothing;
    status = co_await writer_->Start(std::move(bytes), offset + done,
                                     std::move(nothing), deadline);
  }
  absl::Status drained = co_await writer_->Drain();
  co_return status.ok() ? drained : status;
}

// Hands the buffer over to the writer, which frees it when it is durable.
Task<absl::Status> OpenFile::FlushBuffer(TimeNs deadline) {
  if (buffer_.empty()) co_return absl::OkStatus();
  auto moved = std::make_unique<std::string>(std::move(buffer_));
  buffer_ = std::string();
  ConstGather bytes(1, format::AsBytes(*moved));
  OwnedBytes owned;
  owned.text = std::move(moved);
  co_return co_await writer_->Start(std::move(bytes), buffer_offset_,
                                    std::move(owned), deadline);
}

Task<absl::Status> OpenFile::DrainAll(TimeNs deadline) {
  if (writer_ == nullptr) co_return failure_;
  absl::Status flushed = co_await FlushBuffer(deadline);
  absl::Status drained = co_await writer_->Drain();
  co_return Sticky(flushed.ok() ? drained : flushed);
}

Task<absl::Status> OpenFile::Fsync() {
  const TimeNs deadline = core_->Deadline();
  const Turn turn = co_await TakeTurn(&turn_);
  co_return co_await Publish(deadline);
}

Task<absl::Status> OpenFile::Publish(TimeNs deadline) {
  // What failed to be written or committed has left the writer: it would look
  // as if all were published.
  CAIRN_SOMETIMES(!failure_.ok(), "client.file.failure_kept");
  if (!failure_.ok()) co_return failure_;
  CAIRN_CO_RETURN_IF_ERROR(co_await DrainAll(deadline));
  if (!dirty_) co_return absl::OkStatus();
  Backoff backoff(core_->env(), deadline);
  absl::Status status;
  while (true) {
    status = co_await writer_->Settle(deadline);
    if (status.ok()) status = co_await CommitAll(deadline);
    if (!IsMapChanged(status)) break;
    if (!co_await NewMap(&backoff, deadline)) break;
  }
  if (!status.ok()) co_return Sticky(std::move(status));
  writer_->Clear();
  dirty_ = false;
  co_return absl::OkStatus();
}

// After a commit that was refused because rows changed. False: no time left.
Task<bool> OpenFile::NewMap(Backoff* backoff, TimeNs deadline) {
  const bool time_left = co_await backoff->Pause();
  if (time_left) (void)co_await core_->RefreshMap(deadline);
  co_return time_left;
}

// What was committed before an error is committed again without effect.
Task<absl::Status> OpenFile::CommitAll(TimeNs deadline) {
  const std::vector<Extent> extents = writer_->extents();
  for (uint64_t at = 0; at < extents.size(); at += kExtentsPerCommit) {
    const uint64_t count =
        std::min<uint64_t>(kExtentsPerCommit, extents.size() - at);
    const std::span<const Extent> some(&extents[at], count);
    CAIRN_CO_RETURN_IF_ERROR(
        co_await CommitSome(some, some.back().file_end(), deadline));
  }
  co_return absl::OkStatus();
}

Task<absl::Status> OpenFile::CommitSome(std::span<const Extent> extents,
                                        uint64_t size_at_least,
                                        TimeNs deadline) {
  wire::CommitExtentsRequest request;
  request.set_inode(inode());
  request.set_epoch(writer_->epoch().value);
  request.set_size_at_least(size_at_least);
  request.set_mtime_ns(core_->env()->WallNs());
  for (const Extent& extent : extents) {
    FillExtent(extent, request.add_extents());
  }
  auto response = co_await core_->Mutate<wire::CommitExtentsResponse>(
      Method::kCommitExtents, std::move(request), deadline);
  if (!response.ok()) co_return response.status();
  attributes_ = response->attributes();
  for (const Extent& extent : extents) extents_.Write(extent);
  co_return absl::OkStatus();
}

// An append is a blob of its own, placed by the service at the end it finds.
Task<absl::StatusOr<uint64_t>> OpenFile::Append(std::span<const uint8_t> from) {
  if (!writable_) {
    co_return absl::PermissionDeniedError("file is not open for writing");
  }
  const TimeNs deadline = core_->Deadline();
  const Turn turn = co_await TakeTurn(&turn_);
  CAIRN_CO_RETURN_IF_ERROR(co_await Publish(deadline));
  if (from.empty()) co_return local_size_;
  MakeWriter();
  for (uint64_t done = 0; done < from.size();) {
    const uint64_t size =
        std::min<uint64_t>(writer_->stripe_bytes(), from.size() - done);
    ConstGather bytes(1, from.subspan(done, size));
    OwnedBytes nothing;
    absl::Status started = co_await writer_->Start(
        std::move(bytes), done, std::move(nothing), deadline);
    if (!started.ok()) break;  // Drain() returns it too.
    done += size;
  }
  Backoff backoff(core_->env(), deadline);
  absl::StatusOr<uint64_t> appended_at;
  while (true) {
    appended_at = co_await CommitAppend(deadline);
    if (!IsMapChanged(appended_at.status())) break;
    if (!co_await NewMap(&backoff, deadline)) break;
  }
  if (!appended_at.ok()) co_return Sticky(appended_at.status());
  writer_->Clear();
  extents_loaded_ = false;  // Others may have appended before us.
  local_size_ = std::max<uint64_t>(local_size_, attributes_.size());
  co_return appended_at;
}

Task<absl::StatusOr<uint64_t>> OpenFile::CommitAppend(TimeNs deadline) {
  CAIRN_CO_RETURN_IF_ERROR(co_await writer_->Settle(deadline));
  wire::CommitExtentsRequest request;
  request.set_inode(inode());
  request.set_epoch(writer_->epoch().value);
  request.set_mtime_ns(core_->env()->WallNs());
  request.set_append(true);
  for (const Extent& extent : writer_->extents()) {
    FillExtent(extent, request.add_extents());
  }
  auto response = co_await core_->Mutate<wire::CommitExtentsResponse>(
      Method::kCommitExtents, std::move(request), deadline);
  if (!response.ok()) co_return response.status();
  attributes_ = response->attributes();
  co_return response->appended_at();
}

Task<absl::Status> OpenFile::Truncate(uint64_t size_bytes) {
  if (!writable_) {
    co_return absl::PermissionDeniedError("file is not open for writing");
  }
  const TimeNs deadline = core_->Deadline();
  const Turn turn = co_await TakeTurn(&turn_);
  CAIRN_CO_RETURN_IF_ERROR(co_await Publish(deadline));
  wire::SetAttrRequest request;
  request.set_inode(inode());
  request.set_size(size_bytes);
  auto response = co_await core_->Mutate<wire::SetAttrResponse>(
      Method::kSetAttr, std::move(request), deadline);
  if (!response.ok()) co_return response.status();
  attributes_ = response->attributes();
  extents_.Truncate(size_bytes);
  local_size_ = size_bytes;
  co_return absl::OkStatus();
}

Task<absl::Status> OpenFile::LoadExtents(TimeNs deadline) {
  if (extents_loaded_) co_return absl::OkStatus();
  absl::StatusOr<format::ExtentMap> loaded =
      co_await FetchExtents(core_, inode(), deadline, &attributes_);
  if (!loaded.ok()) co_return loaded.status();
  extents_ = *std::move(loaded);
  extents_loaded_ = true;
  // Nothing is unpublished here: the size is that of the extents, also if the
  // file was shortened since it was opened.
  local_size_ = attributes_.size();
  co_return absl::OkStatus();
}

namespace {
// Splits `to` at `offset` into reads of extents; holes become zeros here.
std::vector<ExtentRead> PlanReads(const format::ExtentMap& extents,
                                  uint64_t offset, std::span<uint8_t> to) {
  std::vector<ExtentRead> reads;
  uint64_t at = offset;
  for (const Extent& extent : extents.Find(offset, to.size())) {
    CAIRN_SOMETIMES(extent.file_offset > at, "client.file.hole_read");
    std::memset(to.data() + (at - offset), 0, extent.file_offset - at);
    ExtentRead read;
    read.extent = extent;
    read.to.push_back(to.subspan(extent.file_offset - offset, extent.length));
    reads.push_back(std::move(read));
    at = extent.file_end();
  }
  std::memset(to.data() + (at - offset), 0, offset + to.size() - at);
  return reads;
}
}  // namespace

Task<absl::StatusOr<uint64_t>> OpenFile::Pread(uint64_t offset,
                                               std::span<uint8_t> to) {
  const TimeNs deadline = core_->Deadline();
  {
    const Turn turn = co_await TakeTurn(&turn_);
    // Own writes are read back from where they will stay: publish them first.
    if (dirty_) CAIRN_CO_RETURN_IF_ERROR(co_await Publish(deadline));
    CAIRN_CO_RETURN_IF_ERROR(co_await LoadExtents(deadline));
  }
  if (offset >= local_size_) co_return uint64_t{0};
  to = to.first(std::min<uint64_t>(to.size(), local_size_ - offset));
  std::vector<ExtentRead> reads = PlanReads(extents_, offset, to);
  ReadOptions options;
  options.deadline = deadline;
  CAIRN_CO_RETURN_IF_ERROR(
      co_await ReadExtents(core_, std::move(reads), std::move(options)));
  co_return to.size();
}

Task<void> OpenFile::Finish() {
  const Turn turn = co_await TakeTurn(&turn_);
  if (writer_ != nullptr) (void)co_await writer_->Drain();
}

}  // namespace cairn::client
