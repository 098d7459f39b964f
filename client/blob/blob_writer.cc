#include "client/blob/blob_writer.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "client/blob/blob_reader.h"
#include "client/blob/stripe_choice.h"
#include "client/blob/stripe_writer.h"
#include "format/base/fault_points.h"
#include "format/extent/stripe.h"
#include "format/wire/meta.pb.h"

namespace cairn::client {

using format::Extent;
using format::Pool;
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
  const Pool* found = core->map()->FindPool(pool);
  CAIRN_CHECK(found != nullptr);
  stripe_bytes_ = found->stripe_bytes();
}

// --- Claims of stripe numbers.

Task<absl::Status> BlobWriter::EnsureBlob(io::TimeNs deadline) {
  const Pool* const pool = core_->map()->FindPool(pool_);
  CAIRN_CHECK(pool != nullptr && pool->stripe_bytes() == stripe_bytes_);
  // So that every row of the blob can still be chosen.
  const uint32_t left = format::kStripesPerBlobMax - next_stripe_;
  // Not for every stripe: a commit has room for so many blobs only.
  const bool early = next_stripe_ >= kStripesOfShortBlob &&
                     CAIRN_FAULT_POINT("client.blob.new_one_early");
  if (blob_.value != 0 && left >= pool->stripe_width && !early) {
    co_return absl::OkStatus();
  }
  wire::AllocateBlobsRequest request;
  request.set_pool(pool_.value);
  request.set_count(1);
  auto response = co_await core_->Mutate<wire::AllocateBlobsResponse>(
      format::Method::kAllocateBlobs, request, deadline);
  if (!response.ok()) co_return response.status();
  if (response->blobs_size() != 1) {
    co_return absl::DataLossError("the metadata server gave no blob");
  }
  const format::BlobId blob(response->blobs(0));
  if (blob <= blob_) {
    co_return absl::DataLossError(absl::StrCat(
        "the metadata server gave ", format::ToString(blob), " after ",
        format::ToString(blob_), ": ids are never used again"));
  }
  blob_ = blob;
  next_stripe_ = 0;
  co_return absl::OkStatus();
}

Task<absl::Status> BlobWriter::ChooseNext(io::TimeNs deadline, Claim* claim) {
  Backoff backoff(core_->env(), deadline);
  bool asked = false;
  while (true) {
    CAIRN_CO_RETURN_IF_ERROR(co_await EnsureBlob(deadline));
    claim->map = core_->map();
    const Pool& pool = *claim->map->FindPool(pool_);
    const StripeChoice choice =
        ChooseStripe(core_, *claim->map, pool, blob_, next_stripe_, true);
    // It may have got better since the map was made.
    if (choice.fitness != RowFitness::kGood && !std::exchange(asked, true)) {
      (void)co_await core_->RefreshMap(deadline);
      continue;
    }
    if (choice.fitness != RowFitness::kUseless) {
      claim->blob = blob_;
      claim->stripe = choice.stripe;
      next_stripe_ = choice.stripe + 1;
      co_return absl::OkStatus();
    }
    if (!co_await backoff.Pause()) {
      co_return absl::DeadlineExceededError(
          absl::StrCat("no placement group of pool ", pool.name,
                       " can take data: ", TargetsNotUp(*claim->map, pool)));
    }
    asked = false;
  }
}

Task<absl::Status> BlobWriter::NextStripe(io::TimeNs deadline, Claim* claim) {
  if (co_await blob_turn_.Acquire(1, deadline) != io::WaitResult::kWoken) {
    co_return absl::DeadlineExceededError("no blob in time");
  }
  absl::Status status = co_await ChooseNext(deadline, claim);
  if (status.ok()) NoteClaim(*claim);
  blob_turn_.Release();
  co_return status;
}

void BlobWriter::NoteClaim(const Claim& claim) {
  const auto key = std::pair(claim.blob, claim.stripe);
  if (!claims_.empty()) {
    const auto& [last, epoch] = *claims_.rbegin();
    CAIRN_CHECK(last < key && epoch <= claim.map->epoch);
    if (last.first == claim.blob && epoch == claim.map->epoch) return;
  }
  claims_.emplace(key, claim.map->epoch);
}

format::Epoch BlobWriter::EpochOf(format::BlobId blob, uint32_t stripe) const {
  const auto after = claims_.upper_bound(std::pair(blob, stripe));
  CAIRN_CHECK(after != claims_.begin());
  return std::prev(after)->second;
}

// --- Writing.

Task<absl::Status> BlobWriter::Start(ConstGather bytes, uint64_t file_offset,
                                     OwnedBytes owned, io::TimeNs deadline) {
  Flight flight;
  flight.bytes = std::move(bytes);
  flight.extent.file_offset = file_offset;
  flight.owned = std::move(owned);
  flight.deadline = deadline;
  return StartFlight(std::move(flight));
}

Task<absl::Status> BlobWriter::StartFlight(Flight flight) {
  const uint64_t size = TotalBytes(flight.bytes);
  CAIRN_CHECK(size > 0 && size <= stripe_bytes_);
  if (!failure_.ok()) co_return failure_;
  const io::TimeNs deadline = flight.deadline;
  if (!co_await core_->write_window()->Acquire(size, deadline)) {
    co_return absl::DeadlineExceededError(
        "earlier writes were not acknowledged in time");
  }
  absl::Status status = co_await NextStripe(deadline, &flight.claim);
  if (!status.ok()) {
    core_->write_window()->Release(size, 0);
    if (failure_.ok()) failure_ = status;
    co_return status;
  }
  flight.extent.length = size;
  flight.extent.blob = flight.claim.blob;
  flight.extent.blob_offset = uint64_t{flight.claim.stripe} * stripe_bytes_;
  started_.Write(flight.extent);  // In order of Start(): a later write wins.
  gate_.Spawn(RunStripe(std::move(flight)));
  co_return absl::OkStatus();
}

Task<void> BlobWriter::RunStripe(Flight flight) {
  const io::TimeNs started = core_->env()->NowNs();
  absl::Status status = co_await WriteSomewhere(&flight);
  const io::TimeNs took = core_->env()->NowNs() - started;
  const uint64_t size = flight.extent.length;
  core_->write_window()->Release(size, status.ok() ? took : 0);
  if (!status.ok()) {
    if (failure_.ok()) failure_ = std::move(status);
    co_return;
  }
  if (progress_ && !flight.again) progress_(size);
}

// Under one stripe number after the other until one has all its chunks.
Task<absl::Status> BlobWriter::WriteSomewhere(Flight* flight) {
  while (true) {
    StripeWrite write;
    write.map = flight->claim.map;
    write.blob = flight->claim.blob;
    write.stripe = flight->claim.stripe;
    write.bytes = flight->bytes;
    write.traffic_class = traffic_;
    write.deadline = flight->deadline;
    const absl::StatusOr<StripeOutcome> outcome =
        co_await StripeWriter::Write(core_, std::move(write));
    if (!outcome.ok()) co_return outcome.status();
    if (*outcome == StripeOutcome::kDurable) co_return absl::OkStatus();
    ++core_->counters()->stripes_moved;
    CAIRN_CO_RETURN_IF_ERROR(
        co_await NextStripe(flight->deadline, &flight->claim));
    MoveExtent(&flight->extent, flight->claim);
  }
}

// What still is of the extent, after later writes, lies elsewhere from now on.
void BlobWriter::MoveExtent(Extent* extent, const Claim& claim) {
  const Extent old = *extent;
  extent->blob = claim.blob;
  extent->blob_offset = uint64_t{claim.stripe} * stripe_bytes_;
  for (Extent part : started_.Find(old.file_offset, old.length)) {
    const uint64_t at = part.file_offset - old.file_offset;
    if (part.blob != old.blob || part.blob_offset != old.blob_offset + at) {
      continue;
    }
    part.blob = extent->blob;
    part.blob_offset = extent->blob_offset + at;
    started_.Write(part);
  }
}

Task<absl::Status> BlobWriter::Drain() {
  co_await gate_.Close();
  co_return failure_;
}

// --- Settling.

// The parts of what was started, none longer than a stripe, that lie in rows
// which got other targets after they were put there.
std::vector<Extent> BlobWriter::FindStale(const format::ClusterMap& map) const {
  std::vector<Extent> stale;
  const bool all_new = std::all_of(
      claims_.begin(), claims_.end(),
      [&map](const auto& claim) { return claim.second == map.epoch; });
  if (all_new) return stale;
  const Pool* const pool = map.FindPool(pool_);
  CAIRN_CHECK(pool != nullptr);
  for (const Extent& extent : started_.All()) {
    for (uint64_t done = 0; done < extent.length;) {
      const uint64_t at = extent.blob_offset + done;
      const auto stripe = static_cast<uint32_t>(at / stripe_bytes_);
      const uint64_t length =
          std::min(extent.length - done, stripe_bytes_ - at % stripe_bytes_);
      const uint32_t pg = pool->PgOf(extent.blob, stripe);
      if (EpochOf(extent.blob, stripe) < map.PgEpoch(*pool, pg)) {
        stale.push_back({extent.file_offset + done, length, extent.blob, at});
      }
      done += length;
    }
  }
  return stale;
}

Task<absl::Status> BlobWriter::Settle(io::TimeNs deadline) {
  while (true) {
    CAIRN_CO_RETURN_IF_ERROR(co_await Drain());
    const auto map = core_->map();
    const std::vector<Extent> stale = FindStale(*map);
    epoch_ = map->epoch;
    if (stale.empty()) co_return absl::OkStatus();
    for (const Extent& extent : stale) {
      CAIRN_CO_RETURN_IF_ERROR(co_await WriteAgain(extent, deadline));
    }
  }
}

Task<absl::Status> BlobWriter::WriteAgain(Extent extent, io::TimeNs deadline) {
  auto text = std::make_unique<std::string>(extent.length, '\0');
  ExtentRead read;
  read.extent = extent;
  read.to.push_back(format::MutableBytes(
      reinterpret_cast<uint8_t*>(text->data()), text->size()));
  std::vector<ExtentRead> reads(1, std::move(read));
  ReadOptions options;
  options.traffic_class = traffic_;
  options.deadline = deadline;
  absl::Status status =
      co_await ReadExtents(core_, std::move(reads), std::move(options));
  if (!status.ok()) {
    if (failure_.ok()) {
      failure_ = Annotate(std::move(status),
                          "its placement group has other targets now, and it "
                          "cannot be read to be written again");
    }
    co_return failure_;
  }
  Flight flight;
  flight.bytes.push_back(format::AsBytes(*text));
  flight.extent.file_offset = extent.file_offset;
  flight.owned.text = std::move(text);
  flight.deadline = deadline;
  flight.again = true;
  ++core_->counters()->stripes_moved;
  co_return co_await StartFlight(std::move(flight));
}

std::vector<Extent> BlobWriter::extents() const {
  CAIRN_CHECK(gate_.in_flight() == 0 && failure_.ok());
  return started_.All();
}

void BlobWriter::Clear() {
  CAIRN_CHECK(gate_.in_flight() == 0);
  started_ = format::ExtentMap();
  // The newest goes on to cover the stripes to come.
  if (claims_.size() > 1) claims_.erase(claims_.begin(), --claims_.end());
}

}  // namespace cairn::client
