#include "server/meta/sessions.h"

#include <algorithm>

#include "format/base/fault_points.h"

namespace cairn::server {

using format::BlobId;
using format::CounterId;
using format::KeyKind;
using format::SessionId;

io::Task<absl::Status> Sessions::Load() {
  constexpr uint32_t kPage = 1024;
  format::KeyRange range = format::RangeOf(KeyKind::kSession, {});
  while (true) {
    absl::StatusOr<std::vector<KvPair>> page =
        co_await core_->kv->Scan(range.begin, range.end, kPage);
    if (!page.ok()) co_return page.status();
    for (const KvPair& pair : *page) {
      CAIRN_CO_ASSIGN_OR_RETURN(const format::ParsedKey key,
                                format::ParseKey(pair.key));
      CAIRN_CO_ASSIGN_OR_RETURN(
          const store::Session record,
          format::DecodeRecord<store::Session>(pair.key, pair.value));
      Session session;
      session.client = record.client();
      session.nonce = record.nonce();
      session.version = pair.version;
      session.deadline = core_->env->NowNs() + core_->options.lease_ns;
      session.fenced = record.fenced();
      CAIRN_CO_RETURN_IF_ERROR(co_await LoadResults(key.numbers[0], &session));
      by_nonce_[{session.client, session.nonce}] = key.numbers[0];
      sessions_[key.numbers[0]] = std::move(session);
    }
    if (page->size() < kPage) co_return absl::OkStatus();
    range.begin = page->back().key + '\0';
  }
}

io::Task<absl::Status> Sessions::LoadResults(uint64_t id, Session* session) {
  constexpr uint32_t kPage = 1024;
  format::KeyRange range = format::RangeOf(KeyKind::kResult, {id});
  while (true) {
    absl::StatusOr<std::vector<KvPair>> page =
        co_await core_->kv->Scan(range.begin, range.end, kPage);
    if (!page.ok()) co_return page.status();
    for (const KvPair& pair : *page) {
      CAIRN_CO_ASSIGN_OR_RETURN(const format::ParsedKey key,
                                format::ParseKey(pair.key));
      CAIRN_CO_ASSIGN_OR_RETURN(
          const store::Result record,
          format::DecodeRecord<store::Result>(pair.key, pair.value));
      session->results.insert(key.numbers[1]);
      session->done_below = std::max(session->done_below, record.done_below());
    }
    if (page->size() < kPage) co_return absl::OkStatus();
    range.begin = page->back().key + '\0';
  }
}

io::Task<absl::StatusOr<wire::OpenSessionResponse>> Sessions::Open(
    wire::OpenSessionRequest request) {
  const io::Gate::Hold hold = core_->gate.Enter();
  if (request.client().size() > kClientNameBytesMax) {
    co_return absl::InvalidArgumentError("the client's name is too long");
  }
  const std::pair<std::string, uint64_t> nonce(request.client(),
                                               request.nonce());
  while (true) {
    const auto known = by_nonce_.find(nonce);
    if (known != by_nonce_.end()) {
      CAIRN_SOMETIMES(true, "meta.session.opened_again");
      Session* const session = FindLive(SessionId(known->second));
      if (session == nullptr) co_return Lost(known->second);
      session->deadline = core_->env->NowNs() + core_->options.lease_ns;
      wire::OpenSessionResponse response;
      response.set_session(known->second);
      response.set_lease_ms(core_->options.lease_ns / io::kMillisecond);
      response.set_sequence(core_->kv->durable_sequence());
      co_return response;
    }
    const auto twin = opening_.find(nonce);
    if (twin == opening_.end()) break;
    const std::shared_ptr<io::Event> done = twin->second;
    co_await done->Wait();
    CAIRN_SOMETIMES(true, "meta.session.twin_awaited");
  }
  const auto done = std::make_shared<io::Event>(core_->env);
  opening_[nonce] = done;
  absl::StatusOr<wire::OpenSessionResponse> response =
      co_await MakeSession(std::move(request));
  opening_.erase(nonce);
  done->Set();
  co_return response;
}

io::Task<absl::StatusOr<wire::OpenSessionResponse>> Sessions::MakeSession(
    wire::OpenSessionRequest request) {
  if (sessions_.size() >= kSessionsMax) {
    co_return absl::ResourceExhaustedError(
        absl::StrCat("there are ", sessions_.size(), " sessions already"));
  }
  uint64_t id = 0;
  absl::StatusOr<uint64_t> committed = Conflict();
  for (uint32_t attempt = 0;
       attempt < kTxnAttemptsMax && IsConflict(committed.status()); ++attempt) {
    co_await Backoff(core_, attempt);
    CAIRN_CO_ASSIGN_OR_RETURN(
        id, co_await core_->ids.Next(CounterId::kSessionCounter));
    committed = co_await PutSession(id, &request);
  }
  if (IsConflict(committed.status())) co_return TooBusy();
  CAIRN_SOMETIMES(absl::IsUnavailable(committed.status()),
                  "meta.session.open_unknown");
  // Of unknown outcome: a session without a client, whose lease is over.
  if (absl::IsUnavailable(committed.status())) sessions_[id] = Session();
  if (!committed.ok()) co_return committed.status();
  if (CAIRN_FAULT_POINT("meta.session.opened_late")) {
    co_await io::SleepFor(core_->env, kLateCommitNs);
  }

  Session session;
  session.client = request.client();
  session.nonce = request.nonce();
  session.version = *committed;
  session.deadline = core_->env->NowNs() + core_->options.lease_ns;
  sessions_[id] = std::move(session);
  by_nonce_[{request.client(), request.nonce()}] = id;
  wire::OpenSessionResponse response;
  response.set_session(id);
  response.set_lease_ms(core_->options.lease_ns / io::kMillisecond);
  response.set_sequence(*committed);
  co_return response;
}

io::Task<absl::StatusOr<uint64_t>> Sessions::PutSession(
    uint64_t id, const wire::OpenSessionRequest* request) {
  Txn txn(core_->kv);
  const std::string key = format::SessionKey(SessionId(id));
  store::Session record;
  record.set_client(request->client());
  record.set_nonce(request->nonce());
  record.set_opened_wall_ns(core_->env->WallNs());
  txn.Expect(key, 0);
  txn.Put(key, record);
  co_return co_await txn.Commit();
}

io::Task<absl::StatusOr<wire::RenewSessionResponse>> Sessions::Renew(
    wire::RenewSessionRequest request) {
  Session* const session = FindLive(SessionId(request.session()));
  if (session == nullptr) co_return Lost(request.session());
  session->deadline = core_->env->NowNs() + core_->options.lease_ns;
  wire::RenewSessionResponse response;
  response.set_sequence(core_->kv->durable_sequence());
  response.set_map_epoch(core_->map.epoch().value);
  co_return response;
}

io::Task<absl::StatusOr<wire::CloseSessionResponse>> Sessions::Close(
    wire::CloseSessionRequest request) {
  const io::Gate::Hold hold = core_->gate.Enter();
  if (FindLive(SessionId(request.session())) != nullptr) {
    CAIRN_CO_RETURN_IF_ERROR(co_await Fence(request.session()));
    core_->gate.Spawn(Reclaim(request.session()));
  }
  co_return wire::CloseSessionResponse();
}

io::Task<absl::StatusOr<wire::AllocateBlobsResponse>> Sessions::AllocateBlobs(
    wire::AllocateBlobsRequest request) {
  return MutateOp(this, this, &Sessions::AllocateIn, std::move(request));
}

io::Task<absl::StatusOr<wire::AllocateBlobsResponse>> Sessions::AllocateIn(
    Txn* txn, const wire::AllocateBlobsRequest* request) {
  if (request->count() == 0 || request->count() > kBlobsPerAllocationMax) {
    co_return absl::InvalidArgumentError(
        absl::StrCat("asked for ", request->count(), " blobs; 1 to ",
                     kBlobsPerAllocationMax, " are given at once"));
  }
  const auto map = core_->map.map();
  const format::PoolId pool(static_cast<uint16_t>(request->pool()));
  if (request->pool() > 0xffff || map->FindPool(pool) == nullptr) {
    co_return absl::InvalidArgumentError(
        absl::StrCat("there is no pool ", request->pool()));
  }
  const SessionId session(request->id().session());
  wire::AllocateBlobsResponse response;
  for (uint32_t i = 0; i < request->count(); ++i) {
    const absl::StatusOr<uint64_t> sequence =
        co_await core_->ids.Next(CounterId::kBlobCounter, pool.value);
    if (!sequence.ok()) co_return sequence.status();
    const BlobId blob = BlobId::Make(pool, *sequence);
    CAIRN_CHECK(blob.sequence() == *sequence);
    store::Blob record;
    record.set_owner(session.value);
    txn->Put(format::BlobKey(blob), record);
    txn->Put(format::OwnedBlobKey(session, blob), store::OwnedBlob());
    response.add_blobs(blob.value);
  }
  co_return response;
}

}  // namespace cairn::server
