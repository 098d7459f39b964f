// Opening sets and claiming ranks.
#include "format/base/fault_points.h"
#include "format/path/names.h"
#include "server/meta/sets.h"

namespace cairn::server {

using format::CounterId;
using format::InodeId;
using format::InodeType;
using format::SessionId;
using format::SetState;

namespace {

absl::Status CheckOpen(const wire::OpenSetRequest& request) {
  if (request.world_size() == 0 || request.world_size() > format::kRanksMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("world size ", request.world_size(), "; 1 to ",
                     format::kRanksMax, " are possible"));
  }
  if (request.rank() >= request.world_size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "rank ", request.rank(), " of a world of ", request.world_size()));
  }
  if (request.attempt() == 0) {
    return absl::InvalidArgumentError("attempts count from 1");
  }
  if (request.set_id().empty() || request.set_id().size() > kSetIdBytesMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("a set id has 1 to ", kSetIdBytesMax, " bytes"));
  }
  return absl::OkStatus();
}

store::Inode HiddenDirectory(InodeId set, InodeId parent,
                             const std::string& name, uint64_t now_ns) {
  store::Inode record;
  record.set_type(static_cast<uint32_t>(InodeType::kDirectory));
  record.set_mode(0755);
  record.set_nlink(1);
  record.set_mtime_ns(now_ns);
  record.set_ctime_ns(now_ns);
  record.set_atime_ns(now_ns);
  record.set_generation(1);
  record.set_parent(parent.value);
  record.set_name(name);
  record.set_set(set.value);
  return record;
}

absl::Status CheckSame(const wire::OpenSetRequest& request,
                       const store::CheckpointSet& record) {
  if (record.world_size() != request.world_size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "attempt ", record.attempt(), " of ", request.path(), " has ",
        record.world_size(), " ranks, not ", request.world_size()));
  }
  if (record.set_id() != request.set_id()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "attempt ", record.attempt(), " of ", request.path(), " is set \"",
        format::EscapeForDisplay(record.set_id()), "\", not \"",
        format::EscapeForDisplay(request.set_id()), "\""));
  }
  if (record.state() == static_cast<uint32_t>(SetState::kFailed)) {
    return absl::FailedPreconditionError(
        absl::StrCat("attempt ", record.attempt(), " of ", request.path(),
                     " failed: ", record.failure(), "; open the next attempt"));
  }
  return absl::OkStatus();
}

}  // namespace

std::string RankFileName(uint32_t rank) {
  std::string digits = absl::StrCat(rank);
  if (digits.size() < 5) digits.insert(0, 5 - digits.size(), '0');
  return absl::StrCat("rank-", digits, ".safetensors");
}

absl::StatusOr<uint32_t> Sets::ChoosePool(uint32_t asked) const {
  const auto map = core_->map.map();
  if (asked == 0) {
    if (!map->pools.empty()) return map->pools.begin()->first.value;
    return absl::FailedPreconditionError("the cluster has no pool");
  }
  const format::PoolId pool(static_cast<uint16_t>(asked));
  if (asked > 0xffff || map->FindPool(pool) == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("there is no pool ", asked));
  }
  return asked;
}

io::Task<absl::StatusOr<wire::OpenSetResponse>> Sets::Open(
    wire::OpenSetRequest request) {
  return MutateOp(sessions_, this, &Sets::OpenIn, std::move(request));
}

io::Task<absl::StatusOr<wire::OpenSetResponse>> Sets::OpenIn(
    Txn* txn, const wire::OpenSetRequest* request) {
  CAIRN_CO_RETURN_IF_ERROR(CheckOpen(*request));
  CAIRN_CO_ASSIGN_OR_RETURN(std::vector<std::string> names,
                            format::SplitPath(request->path()));
  if (names.empty()) {
    co_return absl::InvalidArgumentError("the root cannot be a set");
  }
  const std::string name = std::move(names.back());
  names.pop_back();
  const absl::StatusOr<InodeId> parent =
      co_await names_->MakeDirectories(std::move(names));
  if (!parent.ok()) co_return parent.status();
  CAIRN_CO_RETURN_IF_ERROR(co_await GetMutableDirectory(txn, *parent));
  const absl::StatusOr<std::optional<store::DirectoryEntry>> taken =
      co_await GetDirent(txn, *parent, name);
  if (!taken.ok()) co_return taken.status();
  if (taken->has_value()) {
    co_return absl::AlreadyExistsError(absl::StrCat(
        request->path(), " is there already (a published set, or a file)"));
  }
  const std::string key = format::OpenSetKey(*parent, name);
  const absl::StatusOr<std::optional<store::OpenSet>> open =
      co_await txn->Get<store::OpenSet>(key);
  if (!open.ok()) co_return open.status();
  if (!open->has_value()) {
    co_return co_await MakeSet(txn, request, *parent, name);
  }
  const InodeId set((*open)->set());
  const absl::StatusOr<std::optional<store::CheckpointSet>> record =
      co_await txn->Get<store::CheckpointSet>(format::SetKey(set));
  if (!record.ok()) co_return record.status();
  if (!record->has_value()) co_return Conflict();
  if ((*record)->attempt() > request->attempt()) {
    CAIRN_SOMETIMES(true, "meta.set.older_attempt");
    co_return absl::AbortedError(
        absl::StrCat("attempt ", (*record)->attempt(), " of ", request->path(),
                     " is open; attempt ", request->attempt(), " is fenced"));
  }
  if ((*record)->attempt() == request->attempt()) {
    co_return co_await JoinSet(txn, request, set, **record);
  }
  CAIRN_SOMETIMES(true, "meta.set.attempt_fenced");
  FenceSet(txn, set, **record,
           absl::StrCat("attempt ", request->attempt(), " was opened"));
  co_return co_await MakeSet(txn, request, *parent, name);
}

io::Task<absl::StatusOr<wire::OpenSetResponse>> Sets::MakeSet(
    Txn* txn, const wire::OpenSetRequest* request, InodeId parent,
    std::string name) {
  CAIRN_CO_ASSIGN_OR_RETURN(const uint32_t pool, ChoosePool(request->pool()));
  const absl::StatusOr<uint64_t> id =
      co_await core_->ids.Next(CounterId::kInodeCounter);
  if (!id.ok()) co_return id.status();
  const InodeId set(*id);
  const uint64_t now = core_->env->WallNs();
  store::CheckpointSet record;
  record.set_set_id(request->set_id());
  record.set_attempt(request->attempt());
  record.set_world_size(request->world_size());
  record.set_pool(pool);
  record.set_state(static_cast<uint32_t>(SetState::kOpen));
  record.set_parent(parent.value);
  record.set_name(name);
  record.set_path(request->path());
  record.set_opened_wall_ns(now);
  txn->Put(format::SetKey(set), record);
  txn->Put(format::InodeKey(set), HiddenDirectory(set, parent, name, now));
  store::OpenSet open;
  open.set_set(set.value);
  txn->Put(format::OpenSetKey(parent, name), open);
  CAIRN_CO_RETURN_IF_ERROR(co_await Claim(txn, request, set));
  wire::OpenSetResponse response;
  response.set_set(set.value);
  response.set_pool(pool);
  co_return response;
}

io::Task<absl::StatusOr<wire::OpenSetResponse>> Sets::JoinSet(
    Txn* txn, const wire::OpenSetRequest* request, InodeId set,
    store::CheckpointSet record) {
  CAIRN_CO_RETURN_IF_ERROR(CheckSame(*request, record));
  CAIRN_CO_RETURN_IF_ERROR(co_await Claim(txn, request, set));
  wire::OpenSetResponse response;
  response.set_set(set.value);
  response.set_pool(record.pool());
  co_return response;
}

io::Task<absl::Status> Sets::Claim(Txn* txn,
                                   const wire::OpenSetRequest* request,
                                   InodeId set) {
  const SessionId session(request->id().session());
  const std::string key = format::RankKey(set, request->rank());
  const absl::StatusOr<std::optional<store::Rank>> claimed =
      co_await txn->Get<store::Rank>(key);
  if (!claimed.ok()) co_return claimed.status();
  store::Rank rank = claimed->value_or(store::Rank());
  if (rank.committed()) {
    co_return absl::AlreadyExistsError(absl::StrCat(
        "rank ", request->rank(), " of attempt ", request->attempt(), " of ",
        request->path(), " was committed by ", rank.client()));
  }
  if (rank.session() == session.value) co_return absl::OkStatus();
  if (sessions_->IsLive(SessionId(rank.session()))) {
    CAIRN_SOMETIMES(true, "meta.set.claimed_by_living");
    co_return absl::AlreadyExistsError(
        absl::StrCat("rank ", request->rank(), " of ", request->path(),
                     " is claimed by ", rank.client(), ", which is alive"));
  }
  CAIRN_SOMETIMES(rank.session() != 0, "meta.set.claim_taken_over");
  rank.set_session(session.value);
  rank.set_client(sessions_->ClientOf(session));
  if (rank.file() == 0) {
    const absl::StatusOr<uint64_t> file =
        co_await core_->ids.Next(CounterId::kInodeCounter);
    if (!file.ok()) co_return file.status();
    rank.set_file(*file);
  }
  txn->Put(key, rank);
  co_return absl::OkStatus();
}

void Sets::FenceSet(Txn* txn, InodeId set, store::CheckpointSet record,
                    std::string reason) {
  record.set_state(static_cast<uint32_t>(SetState::kFenced));
  record.set_failure(std::move(reason));
  txn->Put(format::SetKey(set), record);
  const InodeId parent(record.parent());
  txn->Delete(format::OpenSetKey(parent, record.name()));
  // The grace is for those who still ask what became of it.
  const uint64_t due = core_->clock.NowMs() + core_->options.orphan_grace_ms;
  store::Trash trash;
  trash.set_kind(static_cast<uint32_t>(format::TrashKind::kSet));
  txn->Put(format::TrashKey(due, set), trash);
  txn->OnCommit([this, set] { NoteEnded(set); });
}

}  // namespace cairn::server
