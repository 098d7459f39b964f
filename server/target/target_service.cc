#include "server/target/target_service.h"

#include <algorithm>

#include "format/base/fault_points.h"
#include "format/base/limits.h"
#include "format/base/status.h"
#include "format/cluster/cluster_map.h"
#include "format/target/chunk_record.h"
#include "server/target/limits.h"
#include "server/target/target_payload.h"

namespace cairn::server {
namespace {

// Of the handshake: the metadata service.
constexpr uint32_t kMetadataRole = 1;

template <typename Request>
absl::StatusOr<Request> ParseRequest(io::ServerCall* call) {
  Request request;
  const std::string_view body = call->body();
  if (!request.ParseFromArray(body.data(), static_cast<int>(body.size()))) {
    return absl::InvalidArgumentError(
        absl::StrCat("malformed request from ", call->peer()));
  }
  return request;
}

// Which chunk a request is about; kInvalidArgument if there can be none such.
absl::StatusOr<format::ChunkId> ParseChunk(const wire::ChunkRef& ref,
                                           uint32_t pg) {
  format::ChunkId chunk;
  chunk.blob = format::BlobId(ref.blob());
  chunk.stripe = ref.stripe();
  chunk.shard = ref.shard();
  if (chunk.blob.pool().value == 0 || chunk.blob.sequence() == 0 ||
      chunk.stripe >= format::kStripesPerBlobMax ||
      chunk.shard >= format::kShardsMax || pg >= format::kPgsPerPoolMax) {
    return absl::InvalidArgumentError(absl::StrCat(
        ToString(chunk), " in group ", pg, ": no such chunk can be"));
  }
  return chunk;
}

absl::Status ValidatePayload(uint64_t payload_bytes, uint64_t stripe_bytes) {
  if (payload_bytes == 0 || payload_bytes > format::kChunkBytesMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("a chunk of ", payload_bytes, " bytes"));
  }
  if (stripe_bytes > format::kDataShardsMax * format::kChunkBytesMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("a stripe of ", stripe_bytes, " bytes"));
  }
  return absl::OkStatus();
}

absl::Status CheckFromMetadata(io::ServerCall* call, std::string_view what) {
  if (call->role() == kMetadataRole) return absl::OkStatus();
  return absl::PermissionDeniedError(
      absl::StrCat("only the metadata service may ", AbslText(what), ", not ",
                   call->peer()));
}

Access AccessOf(io::ServerCall* call) {
  Access access;
  access.traffic_class = call->traffic_class();
  access.deadline = call->deadline();
  return access;
}

template <typename Response>
io::Task<void> Answer(io::ServerCall* call, absl::StatusOr<Response> response) {
  if (!response.ok()) {
    co_await call->Fail(response.status());
    co_return;
  }
  co_await call->Reply(response->SerializeAsString());
}

}  // namespace

void TargetService::AddStore(ChunkStore* store, uint64_t incarnation) {
  const uint32_t id = store->identity().target_id.value;
  Served served;
  served.store = store;
  served.incarnation = incarnation;
  std::erase_if(stopping_, [](const auto& each) { return each->stopped(); });
  if (scrub_.bytes_per_s > 0) {
    served.scrubber = std::make_unique<Scrubber>(env_, store, scrub_);
    served.scrubber->Start();
  }
  rebuilder_.Expect(id, store->stats().meta_sequence);
  CAIRN_CHECK(stores_.emplace(id, std::move(served)).second);
}

void TargetService::RemoveStore(uint32_t target) {
  const auto place = stores_.find(target);
  if (place == stores_.end()) return;
  if (place->second.scrubber != nullptr) {
    place->second.scrubber->Stop();
    stopping_.push_back(std::move(place->second.scrubber));
  }
  rebuilder_.Leave(target);
  stores_.erase(place);
}

io::Task<void> TargetService::Close() {
  co_await rebuilder_.Close();
  for (auto& [id, served] : stores_) {
    if (served.scrubber != nullptr) {
      stopping_.push_back(std::move(served.scrubber));
    }
  }
  for (const auto& scrubber : stopping_) scrubber->Stop();
  for (const auto& scrubber : stopping_) co_await scrubber->Close();
  stopping_.clear();
}

void TargetService::Register(io::RpcServer* server) {
  using format::Method;
  server->Handle(Method::kPing,
                 [this](io::ServerCall* call) { return Ping(call); });
  server->Handle(Method::kPutChunk,
                 [this](io::ServerCall* call) { return PutChunk(call); });
  server->Handle(Method::kGetChunk,
                 [this](io::ServerCall* call) { return GetChunk(call); });
  server->Handle(Method::kListChunks,
                 [this](io::ServerCall* call) { return ListChunks(call); });
  server->Handle(Method::kDeleteBlobs,
                 [this](io::ServerCall* call) { return DeleteBlobs(call); });
  server->Handle(Method::kRebuildShard,
                 [this](io::ServerCall* call) { return RebuildShard(call); });
  server->Handle(Method::kDropGroup,
                 [this](io::ServerCall* call) { return DropGroup(call); });
  server->Handle(Method::kTargetStatus,
                 [this](io::ServerCall* call) { return TargetStatus(call); });
}

absl::StatusOr<ChunkStore*> TargetService::FindStore(uint32_t target) {
  const auto it = stores_.find(target);
  if (it != stores_.end()) return it->second.store;
  return absl::FailedPreconditionError(absl::StrCat(
      "target ", target, " is not served here: fetch the cluster map again"));
}

io::Task<void> TargetService::Ping(io::ServerCall* call) {
  co_await call->Reply(std::string());
}

io::Task<void> TargetService::PutChunk(io::ServerCall* call) {
  absl::StatusOr<wire::PutChunkResponse> response = co_await Put(call);
  co_await Answer(call, std::move(response));
}

io::Task<absl::StatusOr<wire::PutChunkResponse>> TargetService::Put(
    io::ServerCall* call) {
  CAIRN_CO_ASSIGN_OR_RETURN(const auto request,
                            ParseRequest<wire::PutChunkRequest>(call));
  CAIRN_CO_ASSIGN_OR_RETURN(ChunkStore* const store,
                            FindStore(request.target()));
  CAIRN_CO_ASSIGN_OR_RETURN(const format::ChunkId chunk,
                            ParseChunk(request.chunk(), request.pg()));
  const uint64_t size = call->payload_bytes();
  CAIRN_CO_RETURN_IF_ERROR(ValidatePayload(size, request.stripe_bytes()));
  const uint64_t padded = format::AllocatedBytesOf(size);
  // Before a byte is read: no buffer, no reading.
  const io::Buffer buffer =
      co_await env_->pool()->Acquire(padded, call->deadline());
  if (!buffer || CAIRN_FAULT_POINT("target.put.no_buffer")) {
    co_return absl::DeadlineExceededError(
        absl::StrCat("target ", request.target(), " had no free buffer"));
  }
  PutSink sink(chunk, size, buffer.bytes());
  CAIRN_CO_RETURN_IF_ERROR(co_await call->ReceivePayload(&sink));
  const format::MutableBytes payload = buffer.bytes().first(padded);
  std::fill(payload.begin() + static_cast<ptrdiff_t>(size), payload.end(),
            uint8_t{0});
  ChunkRecord record;
  record.chunk_bytes = size;
  record.stripe_bytes = request.stripe_bytes();
  record.block_checksums = sink.checksums();
  record.digest = format::ChunkDigest(chunk, size, record.block_checksums);
  wire::PutChunkResponse response;
  response.set_digest(record.digest);
  CAIRN_CO_RETURN_IF_ERROR(
      co_await store->Put(request.pg(), chunk, std::move(record), payload,
                          request.meta_sequence(), AccessOf(call)));
  co_return response;
}

io::Task<void> TargetService::GetChunk(io::ServerCall* call) {
  absl::StatusOr<wire::GetChunkRequest> request =
      ParseRequest<wire::GetChunkRequest>(call);
  if (!request.ok()) {
    co_await call->Fail(request.status());
    co_return;
  }
  absl::StatusOr<ChunkStore*> store = FindStore(request->target());
  if (!store.ok()) {
    co_await call->Fail(store.status());
    co_return;
  }
  if (request->length() == 0) {
    auto record = co_await GetRecord(*store, *request);
    co_await Answer(call, std::move(record));
    co_return;
  }
  auto blocks = co_await ReadRange(call, *store, *request);
  if (!blocks.ok()) {
    co_await call->Fail(blocks.status());
    co_return;
  }
  format::ChunkId chunk;
  chunk.blob = format::BlobId(request->chunk().blob());
  chunk.stripe = request->chunk().stripe();
  chunk.shard = request->chunk().shard();
  wire::GetChunkResponse response;
  response.set_chunk_bytes(blocks->record.chunk_bytes);
  response.set_stripe_bytes(blocks->record.stripe_bytes);
  response.set_digest(blocks->record.digest);
  RangeSource source(chunk, &*blocks, request->offset(), request->length());
  co_await call->Reply(response.SerializeAsString(), &source);
}

io::Task<absl::StatusOr<ChunkStore::ReadResult>> TargetService::ReadRange(
    io::ServerCall* call, ChunkStore* store, wire::GetChunkRequest request) {
  CAIRN_CO_ASSIGN_OR_RETURN(const format::ChunkId chunk,
                            ParseChunk(request.chunk(), request.pg()));
  if (request.length() > format::kChunkBytesMax) {
    co_return absl::OutOfRangeError(
        absl::StrCat("no chunk has ", request.length(), " bytes"));
  }
  store->NoteMetaSequence(request.meta_sequence());
  co_return co_await store->Read(request.pg(), chunk, request.offset(),
                                 request.length(), AccessOf(call));
}

io::Task<absl::StatusOr<wire::GetChunkResponse>> TargetService::GetRecord(
    ChunkStore* store, wire::GetChunkRequest request) {
  CAIRN_CO_ASSIGN_OR_RETURN(const format::ChunkId chunk,
                            ParseChunk(request.chunk(), request.pg()));
  store->NoteMetaSequence(request.meta_sequence());
  CAIRN_CO_ASSIGN_OR_RETURN(const std::optional<ChunkRecord> record,
                            co_await store->Find(request.pg(), chunk));
  if (!record) {
    co_return absl::NotFoundError(
        absl::StrCat("target ", request.target(), " has no ", ToString(chunk)));
  }
  wire::GetChunkResponse response;
  response.set_chunk_bytes(record->chunk_bytes);
  response.set_stripe_bytes(record->stripe_bytes);
  response.set_digest(record->digest);
  co_return response;
}

io::Task<void> TargetService::ListChunks(io::ServerCall* call) {
  absl::StatusOr<wire::ListChunksResponse> response = co_await List(call);
  co_await Answer(call, std::move(response));
}

io::Task<absl::StatusOr<wire::ListChunksResponse>> TargetService::List(
    io::ServerCall* call) {
  CAIRN_CO_ASSIGN_OR_RETURN(const auto request,
                            ParseRequest<wire::ListChunksRequest>(call));
  CAIRN_CO_ASSIGN_OR_RETURN(ChunkStore* const store,
                            FindStore(request.target()));
  if (request.pool() > UINT16_MAX || request.pg() >= format::kPgsPerPoolMax ||
      request.after().size() > kCursorBytesMax) {
    co_return absl::InvalidArgumentError(absl::StrCat(
        "no group ", request.pg(), " of pool ", request.pool(), " can be"));
  }
  const format::PgId pg{format::PoolId(static_cast<uint16_t>(request.pool())),
                        request.pg()};
  const uint32_t limit =
      request.limit() == 0 ? kListChunksMax : request.limit();
  CAIRN_CO_ASSIGN_OR_RETURN(const ChunkStore::ListResult list,
                            co_await store->List(pg, request.after(), limit));
  wire::ListChunksResponse response;
  response.set_next(list.next);
  for (const ListedChunk& listed : list.chunks) {
    wire::ChunkInfo* const info = response.add_chunks();
    info->mutable_chunk()->set_blob(listed.chunk.blob.value);
    info->mutable_chunk()->set_stripe(listed.chunk.stripe);
    info->mutable_chunk()->set_shard(listed.chunk.shard);
    info->set_chunk_bytes(listed.record.chunk_bytes);
    info->set_stripe_bytes(listed.record.stripe_bytes);
    info->set_digest(listed.record.digest);
    info->set_put_wall_ns(listed.record.put_wall_ns);
  }
  co_return response;
}

io::Task<void> TargetService::DeleteBlobs(io::ServerCall* call) {
  absl::StatusOr<wire::DeleteBlobsResponse> response = co_await Delete(call);
  co_await Answer(call, std::move(response));
}

io::Task<absl::StatusOr<wire::DeleteBlobsResponse>> TargetService::Delete(
    io::ServerCall* call) {
  CAIRN_CO_RETURN_IF_ERROR(CheckFromMetadata(call, "delete"));
  if (CAIRN_FAULT_POINT("target.delete.refused")) {
    co_return absl::UnavailableError("too busy to delete");
  }
  CAIRN_CO_ASSIGN_OR_RETURN(const auto request,
                            ParseRequest<wire::DeleteBlobsRequest>(call));
  CAIRN_CO_ASSIGN_OR_RETURN(ChunkStore* const store,
                            FindStore(request.target()));
  if (static_cast<uint32_t>(request.blobs_size()) > kDeleteBlobsMax) {
    co_return absl::InvalidArgumentError(
        absl::StrCat(request.blobs_size(), " blobs in one order, at most ",
                     kDeleteBlobsMax));
  }
  std::vector<format::BlobId> blobs;
  for (const uint64_t blob : request.blobs()) blobs.emplace_back(blob);
  // No repair makes chunks of them from now on.
  CAIRN_CO_RETURN_IF_ERROR(
      rebuilder_.NoteDeleted(request.target(), blobs, request.meta_sequence()));
  CAIRN_CO_ASSIGN_OR_RETURN(
      const ChunkStore::DeleteResult deleted,
      co_await store->DeleteBlobs(std::move(blobs), request.meta_sequence()));
  wire::DeleteBlobsResponse response;
  response.set_chunks(deleted.chunks);
  response.set_bytes(deleted.bytes);
  co_return response;
}

io::Task<void> TargetService::RebuildShard(io::ServerCall* call) {
  absl::StatusOr<wire::RebuildShardResponse> response = Rebuild(call);
  co_await Answer(call, std::move(response));
}

absl::StatusOr<wire::RebuildShardResponse> TargetService::Rebuild(
    io::ServerCall* call) {
  CAIRN_RETURN_IF_ERROR(CheckFromMetadata(call, "order a rebuild"));
  if (CAIRN_FAULT_POINT("target.rebuild.refused")) {
    return absl::UnavailableError("too busy to rebuild");
  }
  CAIRN_ASSIGN_OR_RETURN(const auto request,
                         ParseRequest<wire::RebuildShardRequest>(call));
  CAIRN_ASSIGN_OR_RETURN(ChunkStore* const store, FindStore(request.target()));
  return rebuilder_.Order(store, request);
}

io::Task<void> TargetService::DropGroup(io::ServerCall* call) {
  absl::StatusOr<wire::DropGroupResponse> response = co_await Drop(call);
  co_await Answer(call, std::move(response));
}

io::Task<absl::StatusOr<wire::DropGroupResponse>> TargetService::Drop(
    io::ServerCall* call) {
  CAIRN_CO_RETURN_IF_ERROR(CheckFromMetadata(call, "drop a group"));
  CAIRN_CO_ASSIGN_OR_RETURN(auto request,
                            ParseRequest<wire::DropGroupRequest>(call));
  CAIRN_CO_ASSIGN_OR_RETURN(ChunkStore* const store,
                            FindStore(request.target()));
  co_return co_await rebuilder_.Drop(store, std::move(request));
}

io::Task<void> TargetService::TargetStatus(io::ServerCall* call) {
  absl::StatusOr<wire::TargetStatusRequest> request =
      ParseRequest<wire::TargetStatusRequest>(call);
  if (!request.ok()) {
    co_await call->Fail(request.status());
    co_return;
  }
  absl::StatusOr<ChunkStore*> store = FindStore(request->target());
  if (!store.ok()) {
    co_await call->Fail(store.status());
    co_return;
  }
  const StoreStats stats = (*store)->stats();
  wire::TargetStatusResponse response;
  response.set_capacity_bytes(stats.capacity_bytes);
  response.set_used_bytes(stats.used_bytes);
  response.set_chunks(stats.chunks);
  response.set_corrupt_blocks(stats.corrupt_blocks);
  response.set_failed(stats.failed);
  response.set_meta_sequence(stats.meta_sequence);
  response.set_puts(stats.puts);
  response.set_gets(stats.gets);
  response.set_put_bytes(stats.put_bytes);
  response.set_get_bytes(stats.get_bytes);
  response.set_boot_epoch(stats.boot_epoch);
  response.set_disk_generation((*store)->identity().disk_generation);
  const Served& served = stores_.at(request->target());
  response.set_incarnation(served.incarnation);
  *response.mutable_scrub() = ScrubOf(**store, served.scrubber.get());
  co_await call->Reply(response.SerializeAsString());
}

wire::ScrubProgress TargetService::ScrubOf(const ChunkStore& store,
                                           const Scrubber* scrubber) const {
  wire::ScrubProgress progress;
  if (scrubber != nullptr) progress = scrubber->Report();
  const StoreStats stats = store.stats();
  progress.set_damaged_chunks(stats.damaged_chunks);
  progress.set_damaged_now(stats.damaged_now);
  // Some anywhere, so that none hides behind others that stay damaged.
  const uint64_t skip = stats.damaged_now > kDamagedShown ? env_->Random() : 0;
  const std::vector<ChunkStore::WalkedChunk> shown =
      store.Damaged(skip, kDamagedShown);
  for (const ChunkStore::WalkedChunk& chunk : shown) {
    wire::DamagedChunk* const damaged = progress.add_damaged();
    damaged->set_pg(chunk.pg.index);
    damaged->mutable_chunk()->set_blob(chunk.chunk.blob.value);
    damaged->mutable_chunk()->set_stripe(chunk.chunk.stripe);
    damaged->mutable_chunk()->set_shard(chunk.chunk.shard);
  }
  return progress;
}

}  // namespace cairn::server
