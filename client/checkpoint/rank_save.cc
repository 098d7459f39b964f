#include "client/checkpoint/rank_save.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/blob/blob_writer.h"
#include "client/checkpoint/rank_stream.h"
#include "client/file/extents.h"
#include "format/base/fault_points.h"
#include "format/checkpoint/set_state.h"
#include "format/wire/checkpoint.pb.h"

namespace cairn::client {

using format::Method;
using io::Task;
using io::TimeNs;

using WriterOptions = CheckpointWriter::Options;

absl::Status CheckWriterOptions(const WriterOptions& options) {
  if (options.world_size == 0 || options.world_size > format::kRanksMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("world size must be 1 to ", format::kRanksMax));
  }
  if (options.rank >= options.world_size) {
    return absl::InvalidArgumentError(absl::StrCat("rank ", options.rank,
                                                   " is outside the world of ",
                                                   options.world_size));
  }
  if (options.set_id.empty() || options.set_id.size() > format::kNameBytesMax) {
    return absl::InvalidArgumentError("set_id must have 1 to 255 bytes");
  }
  return absl::OkStatus();
}

absl::StatusOr<RankItem> MakeTensorItem(TensorView tensor) {
  ViewShape view{tensor.name,           tensor.dtype, tensor.global_shape,
                 tensor.offset,         tensor.shape, tensor.strides,
                 tensor.data != nullptr};
  CAIRN_ASSIGN_OR_RETURN(TensorLayout layout, MakeLayout(view));
  RankItem item;
  item.name = std::move(tensor.name);
  item.layout = std::move(layout);
  item.data = static_cast<const uint8_t*>(tensor.data);
  return item;
}

absl::StatusOr<RankItem> MakeBytesItem(std::string name, std::string bytes) {
  ViewShape view{name, format::Dtype::kU8, {bytes.size()}, {}, {}, {}, true};
  CAIRN_ASSIGN_OR_RETURN(TensorLayout layout, MakeLayout(view));
  RankItem item;
  item.name = std::move(name);
  item.kind = format::EntryKind::kOpaque;
  item.layout = std::move(layout);
  item.opaque = std::move(bytes);
  return item;
}

Task<absl::StatusOr<OpenedSet>> OpenSet(Core* core, WriterOptions options) {
  const TimeNs deadline = core->Deadline(options.timeout_ms);
  absl::StatusOr<const format::Pool*> pool = core->FindPool(options.pool);
  if (!pool.ok()) co_return pool.status();
  wire::OpenSetRequest request;
  request.set_path(options.path);
  request.set_set_id(options.set_id);
  request.set_attempt(options.attempt);
  request.set_world_size(options.world_size);
  request.set_rank(options.rank);
  request.set_pool((*pool)->id.value);
  auto response = co_await core->Mutate<wire::OpenSetResponse>(
      Method::kOpenSet, std::move(request), deadline);
  if (!response.ok()) co_return response.status();
  co_return OpenedSet{response->set(), (*pool)->id};
}

namespace {

Task<absl::Status> WriteStripes(BlobWriter* writer, RankStream* stream,
                                TimeNs deadline) {
  absl::Status status;
  while (status.ok() && !stream->done()) {
    absl::StatusOr<RankStripe> stripe =
        co_await stream->Next(writer->stripe_bytes(), deadline);
    if (!stripe.ok()) {
      status = stripe.status();
      break;
    }
    status =
        co_await writer->Start(std::move(stripe->bytes), stripe->file_offset,
                               std::move(stripe->owned), deadline);
  }
  absl::Status drained = co_await writer->Drain();
  co_return status.ok() ? drained : status;
}

absl::StatusOr<wire::CommitRankRequest> MakeCommit(const RankSave& save,
                                                   const RankFile& file,
                                                   const RankStream& stream,
                                                   const BlobWriter& writer) {
  wire::CommitRankRequest request;
  request.set_set(save.opened.set);
  request.set_attempt(save.options->attempt);
  request.set_rank(save.options->rank);
  request.set_epoch(writer.epoch().value);
  request.mutable_file()->set_size(file.size_bytes);
  for (const format::Extent& extent : writer.extents()) {
    FillExtent(extent, request.mutable_file()->add_extents());
  }
  format::ManifestPart part = MakeManifestPart(save.options->rank, file,
                                               *save.items, stream.checksums());
  CAIRN_RETURN_IF_ERROR(format::ValidateManifestPart(part));
  request.set_manifest_part(format::EncodeManifestPart(std::move(part)));
  if (request.ByteSizeLong() > format::kFrameBodyBytesMax) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the rank's ", save.items->size(),
        " tensors need a manifest longer than ", format::kFrameBodyBytesMax,
        " bytes: fewer slices or shorter names"));
  }
  return request;
}

}  // namespace

Task<absl::Status> SaveRank(RankSave save) {
  Core* const core = save.core;
  const TimeNs deadline = core->Deadline(save.options->timeout_ms);
  absl::StatusOr<RankFile> file = PlanRankFile(*save.items);
  if (!file.ok()) co_return file.status();
  uint64_t done = 0;
  std::function<void(uint64_t)> progress;
  if (save.options->progress) {
    progress = [&done, &file, &save](uint64_t bytes) {
      done += bytes;
      save.options->progress(done, file->size_bytes);
    };
  }
  BlobWriter writer(core, save.opened.pool,
                    format::TrafficClass::kCheckpointWrite, progress);
  RankStream stream(core, &*file, save.items);
  CAIRN_CO_RETURN_IF_ERROR(co_await WriteStripes(&writer, &stream, deadline));
  Backoff backoff(core->env(), deadline);
  while (true) {
    CAIRN_CO_RETURN_IF_ERROR(co_await writer.Settle(deadline));
    absl::StatusOr<wire::CommitRankRequest> request =
        MakeCommit(save, *file, stream, writer);
    if (!request.ok()) co_return request.status();
    auto response = co_await core->Mutate<wire::CommitRankResponse>(
        Method::kCommitRank, *std::move(request), deadline);
    if (!IsMapChanged(response.status())) co_return response.status();
    if (!co_await backoff.Pause()) co_return response.status();
    (void)co_await core->RefreshMap(deadline);
  }
}

namespace {

std::string NameRanks(const wire::WaitSetResponse& state) {
  std::string ranks = absl::StrJoin(state.missing_ranks(), ", ");
  const uint32_t missing = state.world_size() - state.committed_ranks();
  if (missing > static_cast<uint32_t>(state.missing_ranks_size())) {
    absl::StrAppend(&ranks, ", ...");
  }
  return absl::StrCat(missing, " of ", state.world_size(),
                      " ranks have not committed: ", ranks);
}

// OK: published. kUnavailable: still open when the service answered.
absl::Status Judge(const wire::WaitSetResponse& state) {
  switch (static_cast<format::SetState>(state.state())) {
    case format::SetState::kPublished:
      return absl::OkStatus();
    case format::SetState::kOpen:
      return absl::UnavailableError(NameRanks(state));
    case format::SetState::kFenced:
      CAIRN_SOMETIMES(true, "client.save.set_fenced");
      return absl::AbortedError("a newer attempt has taken over this set");
    case format::SetState::kFailed:
      return absl::FailedPreconditionError(
          absl::StrCat("the set can never be published: ", state.failure()));
  }
  return absl::DataLossError("the server answered with an unknown set state");
}

}  // namespace

Task<absl::Status> WaitSet(Core* core, uint64_t set, uint64_t attempt,
                           TimeNs deadline) {
  absl::Status last = absl::UnavailableError("not asked yet");
  while (true) {
    const TimeNs now = core->env()->NowNs();
    if (now >= deadline) {
      co_return absl::DeadlineExceededError(last.message());
    }
    wire::WaitSetRequest request;
    request.set_set(set);
    request.set_attempt(attempt);
    request.set_wait_ms(static_cast<uint32_t>(
        std::min(deadline - now, kWaitSetPause) / io::kMillisecond));
    auto response = co_await core->Query<wire::WaitSetResponse>(
        Method::kWaitSet, request, deadline);
    if (!response.ok() && absl::IsDeadlineExceeded(response.status()) &&
        !absl::IsUnavailable(last)) {
      co_return response.status();
    }
    if (response.ok()) last = Judge(*response);
    if (response.ok() ? !absl::IsUnavailable(last)
                      : !absl::IsDeadlineExceeded(response.status())) {
      co_return response.ok() ? last : response.status();
    }
  }
}

}  // namespace cairn::client
