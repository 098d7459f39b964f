#include "server/target/rebuild_sources.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "format/base/fault_points.h"
#include "format/base/status.h"
#include "format/checksum/block_checksum.h"
#include "format/wire/frame.h"
#include "server/target/limits.h"

namespace cairn::server {

using format::ChunkId;
using format::Method;
using io::Task;

namespace {

// Receives a range into memory and holds it against the checksums behind it.
class RangeSink final : public io::PayloadSink {
 public:
  RangeSink(ChunkId chunk, uint64_t offset, format::MutableBytes to)
      : to_(to), hasher_(chunk, offset, to.size()) {}

  absl::Status Begin(uint64_t payload_bytes, uint32_t /*trailer_bytes*/,
                     std::string_view /*body*/) override {
    if (payload_bytes == to_.size()) return absl::OkStatus();
    return absl::UnavailableError(absl::StrCat(
        "got ", payload_bytes, " bytes, not the ", to_.size(), " asked for"));
  }
  std::span<const format::MutableBytes> Next(uint64_t remaining) override {
    piece_ = to_.subspan(to_.size() - remaining,
                         std::min<uint64_t>(remaining, io::kPieceBytes));
    return {&piece_, 1};
  }
  void Arrived() override { hasher_.Update(piece_); }
  absl::Status Finish(format::ConstBytes trailer) override {
    CAIRN_RETURN_IF_ERROR(format::TrailerStatus(trailer));
    const std::vector<uint64_t>& sums = hasher_.Checksums();
    bool same = format::TrailerChecksumCount(trailer) == sums.size();
    for (uint32_t i = 0; same && i < sums.size(); ++i) {
      same = format::TrailerChecksum(trailer, i) == sums[i];
    }
    // Says nothing about what is stored.
    if (!same) return absl::UnavailableError("damaged on its way");
    verified_ = true;
    return absl::OkStatus();
  }
  bool verified() const { return verified_; }

 private:
  const format::MutableBytes to_;
  format::BlockHasher hasher_;
  format::MutableBytes piece_;
  bool verified_ = false;
};

absl::Status BadList(std::string_view what) {
  return absl::DataLossError(
      absl::StrCat("a list of chunks that cannot be: ", AbslText(what)));
}

// Those of the source's shard, if the page is one that a target may give.
absl::StatusOr<Sources::Page> ParsePage(const wire::ListChunksResponse& answer,
                                        const ShardGoal& goal, uint32_t shard) {
  Sources::Page page;
  page.next = answer.next();
  if (!page.next.empty() && answer.chunks().empty()) {
    return BadList("nothing, and more to come");
  }
  ChunkId last;
  for (const wire::ChunkInfo& info : answer.chunks()) {
    SourceChunk found;
    found.chunk.blob = format::BlobId(info.chunk().blob());
    found.chunk.stripe = info.chunk().stripe();
    found.chunk.shard = info.chunk().shard();
    found.chunk_bytes = info.chunk_bytes();
    found.stripe_bytes = info.stripe_bytes();
    if (found.chunk.blob.pool() != goal.pg.pool ||
        found.chunk.stripe >= format::kStripesPerBlobMax) {
      return BadList(ToString(found.chunk));
    }
    if (found.chunk <= last) return BadList("not ascending");
    last = found.chunk;
    if (found.chunk.shard == shard) page.chunks.push_back(found);
  }
  return page;
}

}  // namespace

Sources::Sources(io::Env* env, ShardGoal goal,
                 std::vector<wire::RebuildSource> sources)
    : env_(env), goal_(std::move(goal)) {
  for (wire::RebuildSource& info : sources) {
    Source source;
    io::ChannelOptions options;
    options.address = info.address();
    options.cluster_id = goal_.cluster_id;
    options.expect_target = info.target();
    options.client_name =
        absl::StrCat("target ", goal_.target.value, ", rebuilding");
    options.server_name = absl::StrCat("target ", info.target());
    source.channel = io::Channel::Create(env_, std::move(options));
    source.info = std::move(info);
    sources_.push_back(std::move(source));
  }
}

Sources::~Sources() { CAIRN_CHECK(closed_); }

Task<void> Sources::Close() {
  if (closed_) co_return;
  closed_ = true;
  for (Source& source : sources_) co_await source.channel->Close();
}

std::string Sources::NameOf(uint32_t source) const {
  return absl::StrCat("shard ", ShardOf(source), " on target ",
                      sources_[source].info.target());
}

io::CallOptions Sources::Options() const {
  io::CallOptions options;
  options.deadline = env_->NowNs() + kRebuildReadTimeout;
  options.traffic_class = format::TrafficClass::kBackground;
  return options;
}

Task<absl::StatusOr<Sources::Page>> Sources::List(uint32_t source,
                                                  std::string cursor) {
  wire::ListChunksRequest request;
  request.set_target(sources_[source].info.target());
  request.set_pool(goal_.pg.pool.value);
  request.set_pg(goal_.pg.index);
  request.set_after(std::move(cursor));
  request.set_limit(CAIRN_FAULT_POINT("target.rebuild.list_one_by_one")
                        ? 1
                        : kRebuildListPage);
  const io::CallOptions options = Options();
  const absl::StatusOr<wire::ListChunksResponse> answer =
      co_await io::CallProto<wire::ListChunksResponse>(
          sources_[source].channel.get(), Method::kListChunks,
          std::move(request), options);
  if (!answer.ok()) co_return Annotate(answer.status(), NameOf(source));
  absl::StatusOr<Page> page = ParsePage(*answer, goal_, ShardOf(source));
  if (!page.ok()) co_return Annotate(page.status(), NameOf(source));
  co_return page;
}

Task<absl::StatusOr<std::optional<SourceChunk>>> Sources::Look(
    uint32_t source, format::BlobId blob, uint32_t stripe) {
  wire::GetChunkRequest request;
  request.set_target(sources_[source].info.target());
  request.mutable_chunk()->set_blob(blob.value);
  request.mutable_chunk()->set_stripe(stripe);
  request.mutable_chunk()->set_shard(ShardOf(source));
  request.set_pg(goal_.pg.index);
  request.set_meta_sequence(goal_.meta_sequence);
  const io::CallOptions options = Options();
  const absl::StatusOr<wire::GetChunkResponse> answer =
      co_await io::CallProto<wire::GetChunkResponse>(
          sources_[source].channel.get(), Method::kGetChunk, std::move(request),
          options);
  std::optional<SourceChunk> found;
  if (absl::IsNotFound(answer.status()) || absl::IsDataLoss(answer.status())) {
    co_return found;
  }
  if (!answer.ok()) co_return Annotate(answer.status(), NameOf(source));
  found.emplace();
  found->chunk = {blob, stripe, ShardOf(source)};
  found->chunk_bytes = answer->chunk_bytes();
  found->stripe_bytes = answer->stripe_bytes();
  co_return found;
}

Task<absl::Status> Sources::Read(uint32_t source, SourceChunk chunk,
                                 uint64_t offset, format::MutableBytes to) {
  absl::Status status = co_await ReadOnce(source, chunk, offset, to);
  if (absl::IsDataLoss(status)) {
    status = co_await ReadOnce(source, chunk, offset, to);
    CAIRN_SOMETIMES(status.ok(), "target.rebuild.second_ask_helped");
  }
  if (status.ok()) co_return status;
  co_return Annotate(std::move(status), NameOf(source));
}

Task<absl::Status> Sources::ReadOnce(uint32_t source, SourceChunk chunk,
                                     uint64_t offset, format::MutableBytes to) {
  wire::GetChunkRequest request;
  request.set_target(sources_[source].info.target());
  request.mutable_chunk()->set_blob(chunk.chunk.blob.value);
  request.mutable_chunk()->set_stripe(chunk.chunk.stripe);
  request.mutable_chunk()->set_shard(chunk.chunk.shard);
  request.set_pg(goal_.pg.index);
  request.set_offset(offset);
  request.set_length(to.size());
  request.set_meta_sequence(goal_.meta_sequence);
  RangeSink sink(chunk.chunk, offset, to);
  io::CallOptions options = Options();
  options.sink = &sink;
  const absl::StatusOr<wire::GetChunkResponse> answer =
      co_await io::CallProto<wire::GetChunkResponse>(
          sources_[source].channel.get(), Method::kGetChunk, std::move(request),
          options);
  if (!answer.ok()) co_return answer.status();
  if (!sink.verified()) {
    co_return absl::UnavailableError("answered without its bytes");
  }
  if (answer->chunk_bytes() != chunk.chunk_bytes ||
      answer->stripe_bytes() != chunk.stripe_bytes) {
    co_return absl::DataLossError("its record is not the one that was listed");
  }
  co_return absl::OkStatus();
}

}  // namespace cairn::server
