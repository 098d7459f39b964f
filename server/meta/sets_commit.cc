// A rank's commit: its file, its part of the manifest, its place in the set.
#include <algorithm>

#include "format/base/fault_points.h"
#include "server/meta/sets.h"

namespace cairn::server {

using format::Extent;
using format::InodeId;
using format::InodeType;
using format::KeyKind;
using format::SessionId;
using format::SetState;

namespace {

constexpr uint32_t kRankExtentsMax = 50'000;
// Up to these the commit is one transaction.
constexpr uint64_t kExtentsInOneTxnMax = 24;

uint32_t PiecesOf(const std::string& part) {
  return static_cast<uint32_t>((part.size() + kManifestPieceBytes - 1) /
                               kManifestPieceBytes);
}

void PutPiece(Txn* txn, const wire::CommitRankRequest& request,
              uint32_t piece) {
  store::Bytes bytes;
  bytes.set_data(request.manifest_part().substr(piece * kManifestPieceBytes,
                                                kManifestPieceBytes));
  txn->Put(
      format::ManifestPieceKey(InodeId(request.set()), request.rank(), piece),
      bytes);
}

absl::Status CheckCommit(const wire::CommitRankRequest& request) {
  if (!request.file().name().empty() &&
      request.file().name() != RankFileName(request.rank())) {
    return absl::InvalidArgumentError(
        absl::StrCat("the file of rank ", request.rank(), " is named ",
                     RankFileName(request.rank())));
  }
  CAIRN_ASSIGN_OR_RETURN(
      const std::vector<Extent> extents,
      ExtentsFromProto(request.file().extents(), kRankExtentsMax));
  for (const Extent& extent : extents) {
    if (extent.file_end() > request.file().size()) {
      return absl::InvalidArgumentError("an extent beyond the file's size");
    }
  }
  if (request.manifest_part().size() > kManifestPartBytesMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("a manifest part of ", request.manifest_part().size(),
                     " bytes; at most ", kManifestPartBytesMax));
  }
  const absl::StatusOr<format::ManifestPart> part =
      format::DecodeManifestPart(request.manifest_part());
  if (!part.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the manifest part: ", part.status().message()));
  }
  if (part->rank != request.rank() ||
      part->file_bytes != request.file().size()) {
    return absl::InvalidArgumentError(
        "the manifest part is of another rank or file");
  }
  return absl::OkStatus();
}

}  // namespace

io::Task<absl::StatusOr<wire::CommitRankResponse>> Sets::CommitRank(
    wire::CommitRankRequest request) {
  absl::StatusOr<wire::CommitRankResponse> response =
      co_await MutateOp(sessions_, this, &Sets::CommitIn, std::move(request));
  if (response.ok()) response->set_sequence(core_->kv->durable_sequence());
  co_return response;
}

io::Task<absl::StatusOr<store::Rank>> Sets::GuardRank(
    Txn* txn, const wire::CommitRankRequest* request) {
  const InodeId set(request->set());
  const SessionId session(request->id().session());
  CAIRN_CO_RETURN_IF_ERROR(sessions_->ExpectLive(session, txn));
  const absl::StatusOr<std::optional<store::CheckpointSet>> record =
      co_await txn->Get<store::CheckpointSet>(format::SetKey(set));
  if (!record.ok()) co_return record.status();
  if (!record->has_value() || (*record)->attempt() != request->attempt() ||
      (*record)->state() == static_cast<uint32_t>(SetState::kFenced)) {
    CAIRN_SOMETIMES(true, "meta.set.commit_fenced");
    co_return absl::AbortedError(
        absl::StrCat("attempt ", request->attempt(), " of set ", set.value,
                     " is fenced: a newer one was opened, or it was removed"));
  }
  if ((*record)->state() == static_cast<uint32_t>(SetState::kFailed)) {
    co_return absl::FailedPreconditionError(
        absl::StrCat("the attempt failed: ", (*record)->failure()));
  }
  const absl::StatusOr<std::optional<store::Rank>> rank =
      co_await txn->Get<store::Rank>(format::RankKey(set, request->rank()));
  if (!rank.ok()) co_return rank.status();
  if (!rank->has_value() || (*rank)->session() != session.value) {
    // After publication claims are erased; the stored answer covers repeats.
    co_return absl::AbortedError(
        absl::StrCat("rank ", request->rank(), " of set ", set.value,
                     " is not claimed by this session"));
  }
  co_return **rank;
}

io::Task<absl::StatusOr<wire::CommitRankResponse>> Sets::CommitIn(
    Txn* txn, const wire::CommitRankRequest* request) {
  const InodeId set(request->set());
  absl::StatusOr<store::Rank> rank = co_await GuardRank(txn, request);
  if (!rank.ok()) co_return rank.status();
  const absl::StatusOr<std::optional<store::CheckpointSet>> record =
      co_await txn->Get<store::CheckpointSet>(format::SetKey(set));
  if (!record.ok()) co_return record.status();
  if (!record->has_value()) co_return Conflict();
  const absl::StatusOr<std::shared_ptr<Live>> live =
      co_await FindLive(set, (*record)->world_size());
  if (!live.ok()) co_return live.status();
  wire::CommitRankResponse response;
  if (rank->committed()) {
    response.set_committed_ranks((*live)->count);
    co_return response;
  }
  CAIRN_CO_RETURN_IF_ERROR(CheckCommit(*request));
  CAIRN_CO_ASSIGN_OR_RETURN(
      std::vector<Extent> extents,
      ExtentsFromProto(request->file().extents(), kRankExtentsMax));
  CAIRN_CO_RETURN_IF_ERROR(
      extents_->ExpectRows(request->epoch(), extents, txn));
  const InodeId file(rank->file());
  CAIRN_CO_RETURN_IF_ERROR(co_await ClearFile(request, file));

  const bool small = extents.size() <= kExtentsInOneTxnMax &&
                     PiecesOf(request->manifest_part()) == 1 &&
                     !CAIRN_FAULT_POINT("meta.set.staged_commit");
  if (small) {
    ExtentUpdate update(core_, file);
    const absl::StatusOr<uint64_t> filled =
        co_await extents_->Fill(txn, &update, extents, 0);
    if (!filled.ok()) co_return filled.status();
    if (*filled != TotalBytes(extents)) {
      co_return absl::InvalidArgumentError("extents of the file overlap");
    }
    CAIRN_CO_RETURN_IF_ERROR(co_await extents_->CheckBlobs(
        txn, SessionId(request->id().session()), update.FreshExtents()));
    CAIRN_CO_RETURN_IF_ERROR(co_await update.Finish(txn));
    PutPiece(txn, *request, 0);
  } else {
    CAIRN_CO_RETURN_IF_ERROR(co_await StageExtents(request, file));
    CAIRN_CO_RETURN_IF_ERROR(co_await StagePieces(request));
    if (CAIRN_FAULT_POINT("meta.set.staged_twice")) co_return Conflict();
  }
  PutFile(txn, request, &*rank);
  txn->OnCommit([this, set, index = request->rank()] {
    core_->files.Made();
    NoteCommitted(set, index);
  });
  response.set_committed_ranks((*live)->count + 1);
  co_return response;
}

void Sets::PutFile(Txn* txn, const wire::CommitRankRequest* request,
                   store::Rank* rank) {
  const InodeId set(request->set());
  const uint64_t now = core_->env->WallNs();
  uint64_t allocated = 0;
  for (const wire::Extent& extent : request->file().extents()) {
    allocated += extent.length();
  }
  store::Inode record;
  record.set_type(static_cast<uint32_t>(InodeType::kFile));
  record.set_mode(0444);
  record.set_nlink(1);
  record.set_size(request->file().size());
  record.set_allocated_bytes(allocated);
  record.set_mtime_ns(now);
  record.set_ctime_ns(now);
  record.set_atime_ns(now);
  record.set_generation(1);
  record.set_set(set.value);
  txn->Put(format::InodeKey(InodeId(rank->file())), record);
  store::DirectoryEntry entry;
  entry.set_inode(rank->file());
  entry.set_type(record.type());
  txn->Put(format::DirentKey(set, RankFileName(request->rank())), entry);
  rank->set_committed(true);
  rank->set_pieces(PiecesOf(request->manifest_part()));
  rank->set_file_bytes(request->file().size());
  txn->Put(format::RankKey(set, request->rank()), *rank);
}

io::Task<absl::Status> Sets::ClearFile(const wire::CommitRankRequest* request,
                                       InodeId file) {
  const format::KeyRange range =
      format::RangeOf(KeyKind::kExtent, {file.value});
  const absl::StatusOr<std::vector<KvPair>> first =
      co_await core_->kv->Scan(range.begin, range.end, 1);
  if (!first.ok()) co_return first.status();
  bool more = !first->empty();
  CAIRN_SOMETIMES(more, "meta.set.staged_before");
  while (more) {
    TxnBody body = [this, request, file, out = &more](Txn* txn) {
      return ClearPage(txn, request, file, out);
    };
    CAIRN_CO_RETURN_IF_ERROR(co_await RunTxn(core_, std::move(body)));
  }
  co_return absl::OkStatus();
}

io::Task<absl::Status> Sets::ClearPage(Txn* txn,
                                       const wire::CommitRankRequest* request,
                                       InodeId file, bool* more) {
  const absl::StatusOr<store::Rank> rank = co_await GuardRank(txn, request);
  if (!rank.ok()) co_return rank.status();
  if (rank->committed()) co_return Conflict();
  ExtentUpdate update(core_, file);
  const absl::StatusOr<bool> rest = co_await update.Trim(txn, 0);
  if (!rest.ok()) co_return rest.status();
  *more = *rest;
  co_return co_await update.Finish(txn);
}

io::Task<absl::Status> Sets::StageExtents(
    const wire::CommitRankRequest* request, InodeId file) {
  CAIRN_CO_ASSIGN_OR_RETURN(
      const std::vector<Extent> extents,
      ExtentsFromProto(request->file().extents(), kRankExtentsMax));
  const uint64_t total = TotalBytes(extents);
  uint64_t done = 0;
  while (done < total) {
    uint64_t written = 0;
    TxnBody body = [this, request, file, done, out = &written](Txn* txn) {
      return StageExtentsPart(txn, request, file, done, out);
    };
    CAIRN_CO_RETURN_IF_ERROR(co_await RunTxn(core_, std::move(body)));
    if (written == 0) co_return absl::InternalError("a commit is stuck");
    done += written;
  }
  co_return absl::OkStatus();
}

io::Task<absl::Status> Sets::StageExtentsPart(
    Txn* txn, const wire::CommitRankRequest* request, InodeId file,
    uint64_t skip, uint64_t* written) {
  const absl::StatusOr<store::Rank> rank = co_await GuardRank(txn, request);
  if (!rank.ok()) co_return rank.status();
  if (rank->committed()) co_return Conflict();
  CAIRN_CO_ASSIGN_OR_RETURN(
      std::vector<Extent> extents,
      ExtentsFromProto(request->file().extents(), kRankExtentsMax));
  CAIRN_CO_RETURN_IF_ERROR(
      extents_->ExpectRows(request->epoch(), extents, txn));
  ExtentUpdate update(core_, file);
  const absl::StatusOr<uint64_t> filled =
      co_await extents_->Fill(txn, &update, extents, skip);
  if (!filled.ok()) co_return filled.status();
  CAIRN_CO_RETURN_IF_ERROR(co_await extents_->CheckBlobs(
      txn, SessionId(request->id().session()), update.FreshExtents()));
  CAIRN_CO_RETURN_IF_ERROR(co_await update.Finish(txn));
  *written = *filled;
  co_return absl::OkStatus();
}

io::Task<absl::Status> Sets::StagePieces(
    const wire::CommitRankRequest* request) {
  const uint32_t pieces = PiecesOf(request->manifest_part());
  for (uint32_t first = 0; first < pieces; first += kManifestPiecesPerTxn) {
    const uint32_t count = std::min(kManifestPiecesPerTxn, pieces - first);
    TxnBody body = [this, request, first, count](Txn* txn) {
      return StagePiecesPart(txn, request, first, count);
    };
    CAIRN_CO_RETURN_IF_ERROR(co_await RunTxn(core_, std::move(body)));
  }
  co_return absl::OkStatus();
}

io::Task<absl::Status> Sets::StagePiecesPart(
    Txn* txn, const wire::CommitRankRequest* request, uint32_t first,
    uint32_t count) {
  const absl::StatusOr<store::Rank> rank = co_await GuardRank(txn, request);
  if (!rank.ok()) co_return rank.status();
  if (rank->committed()) co_return Conflict();
  for (uint32_t piece = first; piece < first + count; ++piece) {
    PutPiece(txn, *request, piece);
  }
  co_return absl::OkStatus();
}

}  // namespace cairn::server
