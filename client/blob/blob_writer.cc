#include "client/blob/blob_writer.h"

#include "client/blob/stripe_writer.h"
#include "format/base/fault_points.h"
#include "format/extent/stripe.h"
#include "format/wire/meta.pb.h"

namespace cairn::client {

using io::Task;

BlobWriter::BlobWriter(Core* core, format::PoolId pool,
                       format::TrafficClass traffic,
                       std::function<void(uint64_t)> progress)
    : core_(core),
      pool_(pool),
      traffic_(traffic),
      progress_(std::move(progress)),
      gate_(core->env()),
      blob_turn_(core->env(), 1) {
  const format::Pool* found = core->map()->FindPool(pool);
  CAIRN_CHECK(found != nullptr);
  stripe_bytes_ = found->stripe_bytes();
}

// Claims the next stripe number; gets a new blob when there is none or it is
// full.
Task<absl::Status> BlobWriter::NextStripe(io::TimeNs deadline, uint32_t* stripe,
                                          format::BlobId* blob) {
  if (co_await blob_turn_.Acquire(1, deadline) != io::WaitResult::kWoken) {
    co_return absl::DeadlineExceededError("no blob in time");
  }
  absl::Status status;
  // Not for every stripe: a commit has room for so many blobs only.
  const bool early = next_stripe_ >= kStripesOfShortBlob &&
                     CAIRN_FAULT_POINT("client.blob.new_one_early");
  if (blob_.value == 0 || next_stripe_ == format::kStripesPerBlobMax || early) {
    wire::AllocateBlobsRequest request;
    request.set_pool(pool_.value);
    request.set_count(1);
    auto response = co_await core_->Mutate<wire::AllocateBlobsResponse>(
        format::Method::kAllocateBlobs, request, deadline);
    status = response.status();
    if (status.ok() && response->blobs_size() != 1) {
      status = absl::DataLossError("the metadata server gave no blob");
    }
    if (status.ok()) {
      blob_ = format::BlobId(response->blobs(0));
      next_stripe_ = 0;
    }
  }
  if (status.ok()) {
    *blob = blob_;
    *stripe = next_stripe_++;
  }
  blob_turn_.Release();
  co_return status;
}

Task<absl::Status> BlobWriter::Start(ConstGather bytes, uint64_t file_offset,
                                     OwnedBytes owned, io::TimeNs deadline) {
  const uint64_t size = TotalBytes(bytes);
  CAIRN_CHECK(size > 0 && size <= stripe_bytes_);
  if (!failure_.ok()) co_return failure_;
  if (!co_await core_->write_window()->Acquire(size, deadline)) {
    co_return absl::DeadlineExceededError(
        "earlier writes were not acknowledged in time");
  }
  uint32_t stripe = 0;
  format::BlobId blob;
  absl::Status status = co_await NextStripe(deadline, &stripe, &blob);
  if (!status.ok()) {
    core_->write_window()->Release(size, 0);
    if (failure_.ok()) failure_ = status;
    co_return status;
  }
  format::Extent extent;
  extent.file_offset = file_offset;
  extent.length = size;
  extent.blob = blob;
  extent.blob_offset = uint64_t{stripe} * stripe_bytes_;
  started_.Write(extent);  // In order of Start(): a later write wins.
  gate_.Spawn(
      RunStripe(std::move(bytes), extent, stripe, std::move(owned), deadline));
  co_return absl::OkStatus();
}

Task<void> BlobWriter::RunStripe(ConstGather bytes, format::Extent extent,
                                 uint32_t stripe, OwnedBytes,
                                 io::TimeNs deadline) {
  StripeWrite write;
  write.blob = extent.blob;
  write.stripe = stripe;
  write.bytes = std::move(bytes);
  write.traffic_class = traffic_;
  write.deadline = deadline;
  const io::TimeNs started = core_->env()->NowNs();
  absl::Status status = co_await StripeWriter::Write(core_, std::move(write));
  const io::TimeNs took = core_->env()->NowNs() - started;
  core_->write_window()->Release(extent.length, status.ok() ? took : 0);
  if (!status.ok()) {
    if (failure_.ok()) failure_ = std::move(status);
    co_return;
  }
  if (progress_) progress_(extent.length);
}

Task<absl::Status> BlobWriter::Drain() {
  co_await gate_.Close();
  co_return failure_;
}

std::vector<format::Extent> BlobWriter::TakeExtents() {
  CAIRN_CHECK(gate_.in_flight() == 0 && failure_.ok());
  std::vector<format::Extent> extents = started_.All();
  started_ = format::ExtentMap();
  return extents;
}

}  // namespace cairn::client
