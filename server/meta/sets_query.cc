// Asking about sets: wait, list, get, manifest.
#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "format/base/fault_points.h"
#include "format/path/names.h"
#include "server/meta/sets.h"

namespace cairn::server {

using format::InodeId;
using format::KeyKind;
using format::SetState;

namespace {

// Cursors of ListSets: which of the two lists, and the last number seen in it.
constexpr char kPublishedCursor = 'p';
constexpr char kOpenCursor = 'o';

struct Cursor {
  char list = kPublishedCursor;
  uint64_t after = 0;
};

absl::StatusOr<Cursor> ParseCursor(const std::string& text) {
  if (text.empty()) return Cursor();
  Cursor cursor;
  cursor.list = text[0];
  if ((cursor.list != kPublishedCursor && cursor.list != kOpenCursor) ||
      !absl::SimpleAtoi(text.substr(1), &cursor.after)) {
    return absl::InvalidArgumentError("not a cursor of this list");
  }
  return cursor;
}

std::string FormatCursor(char list, uint64_t after) {
  return absl::StrCat(std::string(1, list), after);
}

// Sets looked at for one answer, matching or not.
constexpr uint32_t kSetsScannedPerAnswer = 4 * kSetsPerAnswerMax;

}  // namespace

io::Task<absl::StatusOr<store::CheckpointSet>> Sets::ReadSet(InodeId set) {
  Txn txn(core_->kv);
  const absl::StatusOr<std::optional<store::CheckpointSet>> record =
      co_await txn.Get<store::CheckpointSet>(format::SetKey(set));
  if (!record.ok()) co_return record.status();
  CAIRN_CO_RETURN_IF_ERROR(
      co_await core_->kv->AwaitDurable(txn.read_sequence()));
  if (!record->has_value()) {
    co_return absl::NotFoundError(
        absl::StrCat("set ", set.value, " does not exist (any more)"));
  }
  co_return **record;
}

io::Task<absl::StatusOr<wire::WaitSetResponse>> Sets::Wait(
    wire::WaitSetRequest request) {
  const io::Gate::Hold hold = core_->gate.Enter();
  const InodeId set(request.set());
  const io::TimeNs deadline =
      core_->env->NowNs() +
      std::min(request.wait_ms(), kWaitSetMsMax) * io::kMillisecond;
  while (true) {
    const absl::StatusOr<store::CheckpointSet> record = co_await ReadSet(set);
    if (!record.ok()) co_return record.status();
    if (record->attempt() != request.attempt()) {
      co_return absl::InvalidArgumentError(
          absl::StrCat("set ", set.value, " is attempt ", record->attempt()));
    }
    wire::WaitSetResponse response;
    response.set_state(record->state());
    response.set_world_size(record->world_size());
    response.set_failure(record->failure());
    response.set_committed_ranks(record->world_size());
    response.set_sequence(core_->kv->durable_sequence());
    if (record->state() == static_cast<uint32_t>(SetState::kPublished)) {
      co_return response;
    }
    response.set_committed_ranks(0);
    if (record->state() == static_cast<uint32_t>(SetState::kFenced)) {
      co_return response;
    }
    const absl::StatusOr<std::shared_ptr<Live>> live =
        co_await FindLive(set, record->world_size());
    if (!live.ok()) co_return live.status();
    const bool ended =
        record->state() != static_cast<uint32_t>(SetState::kOpen);
    if (!ended && !CAIRN_FAULT_POINT("meta.set.early_answer")) {
      const io::WaitResult woken =
          co_await (*live)->changed.Wait(deadline, &core_->stopping);
      if (woken == io::WaitResult::kWoken) continue;
    }
    response.set_committed_ranks((*live)->count);
    for (const uint32_t rank : MissingRanks(**live)) {
      response.add_missing_ranks(rank);
    }
    co_return response;
  }
}

io::Task<absl::StatusOr<wire::ListSetsResponse>> Sets::List(
    wire::ListSetsRequest request) {
  return ReadOp(core_, this, &Sets::ListIn, std::move(request));
}

io::Task<absl::StatusOr<wire::ListSetsResponse>> Sets::ListIn(
    Txn* txn, const wire::ListSetsRequest* request) {
  CAIRN_CO_ASSIGN_OR_RETURN(const Cursor cursor, ParseCursor(request->after()));
  const absl::StatusOr<InodeId> root =
      co_await names_->Resolve(txn, request->path());
  if (!root.ok()) co_return root.status();
  uint32_t limit = std::min(request->limit(), kSetsPerAnswerMax);
  if (limit == 0) limit = kSetsPerAnswerMax;
  wire::ListSetsResponse response;
  if (cursor.list == kPublishedCursor) {
    CAIRN_CO_RETURN_IF_ERROR(
        co_await ListPublished(txn, *root, cursor.after, limit, &response));
    if (!response.next().empty() || !request->unpublished()) {
      co_return response;
    }
    if (static_cast<uint32_t>(response.sets_size()) >= limit) {
      response.set_next(FormatCursor(kOpenCursor, 0));
      co_return response;
    }
    CAIRN_CO_RETURN_IF_ERROR(
        co_await ListOpen(txn, *root, 0, limit, &response));
    co_return response;
  }
  CAIRN_CO_RETURN_IF_ERROR(
      co_await ListOpen(txn, *root, cursor.after, limit, &response));
  co_return response;
}

io::Task<absl::Status> Sets::ListPublished(Txn* txn, InodeId root,
                                           uint64_t after, uint32_t limit,
                                           wire::ListSetsResponse* response) {
  const format::KeyRange all = format::RangeOf(KeyKind::kPublication, {});
  const absl::StatusOr<std::vector<KvPair>> page = co_await txn->Scan(
      format::PublicationKey(after + 1), all.end, kSetsScannedPerAnswer);
  if (!page.ok()) co_return page.status();
  uint64_t last = after;
  for (const KvPair& pair : *page) {
    if (static_cast<uint32_t>(response->sets_size()) == limit) {
      response->set_next(FormatCursor(kPublishedCursor, last));
      co_return absl::OkStatus();
    }
    CAIRN_CO_ASSIGN_OR_RETURN(const format::ParsedKey key,
                              format::ParseKey(pair.key));
    CAIRN_CO_ASSIGN_OR_RETURN(
        const store::Publication publication,
        format::DecodeRecord<store::Publication>(pair.key, pair.value));
    last = key.numbers[0];
    const InodeId set(publication.set());
    const absl::StatusOr<std::optional<store::CheckpointSet>> record =
        co_await txn->Peek<store::CheckpointSet>(format::SetKey(set));
    if (!record.ok()) co_return record.status();
    if (!record->has_value()) continue;  // Removed just now.
    const absl::StatusOr<Ancestry> way = co_await WalkUp(txn, set, root);
    if (!way.ok()) co_return way.status();
    if (!way->meets) continue;
    absl::StatusOr<wire::SetInfo> info = co_await MakeInfo(txn, set, **record);
    if (!info.ok()) co_return info.status();
    *response->add_sets() = *std::move(info);
  }
  if (page->size() == kSetsScannedPerAnswer) {
    response->set_next(FormatCursor(kPublishedCursor, last));
  }
  co_return absl::OkStatus();
}

io::Task<absl::Status> Sets::ListOpen(Txn* txn, InodeId root, uint64_t after,
                                      uint32_t limit,
                                      wire::ListSetsResponse* response) {
  const format::KeyRange all = format::RangeOf(KeyKind::kSet, {});
  const absl::StatusOr<std::vector<KvPair>> page = co_await txn->Scan(
      format::SetKey(InodeId(after + 1)), all.end, kSetsScannedPerAnswer);
  if (!page.ok()) co_return page.status();
  uint64_t last = after;
  for (const KvPair& pair : *page) {
    if (static_cast<uint32_t>(response->sets_size()) == limit) {
      response->set_next(FormatCursor(kOpenCursor, last));
      co_return absl::OkStatus();
    }
    CAIRN_CO_ASSIGN_OR_RETURN(const format::ParsedKey key,
                              format::ParseKey(pair.key));
    CAIRN_CO_ASSIGN_OR_RETURN(
        const store::CheckpointSet record,
        format::DecodeRecord<store::CheckpointSet>(pair.key, pair.value));
    last = key.numbers[0];
    if (record.state() != static_cast<uint32_t>(SetState::kOpen) &&
        record.state() != static_cast<uint32_t>(SetState::kFailed)) {
      continue;
    }
    const absl::StatusOr<Ancestry> way =
        co_await WalkUp(txn, InodeId(record.parent()), root);
    // Its directory was removed: it is below nothing.
    if (IsConflict(way.status())) continue;
    if (!way.ok()) co_return way.status();
    if (!way->meets) continue;
    absl::StatusOr<wire::SetInfo> info =
        co_await MakeInfo(txn, InodeId(last), record);
    if (!info.ok()) co_return info.status();
    *response->add_sets() = *std::move(info);
  }
  if (page->size() == kSetsScannedPerAnswer) {
    response->set_next(FormatCursor(kOpenCursor, last));
  }
  co_return absl::OkStatus();
}

io::Task<absl::StatusOr<wire::SetInfo>> Sets::MakeInfo(
    Txn* txn, InodeId set, store::CheckpointSet record) {
  const bool published =
      record.state() == static_cast<uint32_t>(SetState::kPublished);
  absl::StatusOr<std::string> path = co_await names_->PathOf(txn, set);
  if (!path.ok()) path = record.path();  // Being removed.
  wire::SetInfo info;
  info.set_path(*path);
  info.set_set_id(record.set_id());
  info.set_attempt(record.attempt());
  info.set_world_size(record.world_size());
  info.set_state(record.state());
  info.set_bytes(record.bytes());
  info.set_tensors(record.tensors());
  info.set_published_wall_ns(record.published_wall_ns());
  info.set_inode(set.value);
  info.set_pool(record.pool());
  info.set_committed_ranks(published ? record.world_size() : 0);
  if (record.state() != static_cast<uint32_t>(SetState::kOpen)) {
    co_return info;
  }
  const absl::StatusOr<std::shared_ptr<Live>> live =
      co_await FindLive(set, record.world_size());
  if (!live.ok()) co_return live.status();
  info.set_committed_ranks((*live)->count);
  for (const uint32_t rank : MissingRanks(**live)) {
    info.add_missing_ranks(rank);
  }
  co_return info;
}

io::Task<absl::StatusOr<wire::GetSetResponse>> Sets::Get(
    wire::GetSetRequest request) {
  return ReadOp(core_, this, &Sets::GetIn, std::move(request));
}

io::Task<absl::StatusOr<wire::GetSetResponse>> Sets::GetIn(
    Txn* txn, const wire::GetSetRequest* request) {
  const absl::StatusOr<InodeId> found =
      co_await names_->Resolve(txn, request->path());
  if (absl::IsNotFound(found.status())) {
    co_return co_await NoSet(txn, request->path());
  }
  if (!found.ok()) co_return found.status();
  const InodeId set = *found;
  const absl::StatusOr<std::optional<store::CheckpointSet>> record =
      co_await txn->Get<store::CheckpointSet>(format::SetKey(set));
  if (!record.ok()) co_return record.status();
  if (!record->has_value() ||
      (*record)->state() != static_cast<uint32_t>(SetState::kPublished)) {
    co_return absl::NotFoundError(
        absl::StrCat(request->path(), " is no checkpoint set"));
  }
  wire::GetSetResponse response;
  absl::StatusOr<wire::SetInfo> info = co_await MakeInfo(txn, set, **record);
  if (!info.ok()) co_return info.status();
  *response.mutable_set() = *std::move(info);
  for (uint32_t piece = 0; piece < (*record)->header_pieces(); ++piece) {
    const absl::StatusOr<std::optional<store::Bytes>> bytes =
        co_await txn->Peek<store::Bytes>(format::ManifestHeaderKey(set, piece));
    if (!bytes.ok()) co_return bytes.status();
    if (!bytes->has_value()) {
      co_return absl::DataLossError(
          absl::StrCat("the manifest of ", request->path(), " is incomplete"));
    }
    response.mutable_manifest_header()->append((*bytes)->data());
  }
  CAIRN_CO_RETURN_IF_ERROR(co_await AddFiles(txn, set, &response));
  co_return response;
}

// kNotFound, with what is known about an open set there.
io::Task<absl::Status> Sets::NoSet(Txn* txn, std::string path) {
  const absl::Status absent = absl::NotFoundError(
      absl::StrCat("no published checkpoint set at ", path));
  const absl::StatusOr<SetPlace> place = co_await FindPlace(txn, path);
  if (!place.ok()) co_return absent;
  const absl::StatusOr<std::optional<store::OpenSet>> open =
      co_await txn->Get<store::OpenSet>(
          format::OpenSetKey(place->parent, place->name));
  if (!open.ok() || !open->has_value()) co_return absent;
  const InodeId set((*open)->set());
  const absl::StatusOr<std::optional<store::CheckpointSet>> record =
      co_await txn->Get<store::CheckpointSet>(format::SetKey(set));
  if (!record.ok() || !record->has_value()) co_return absent;
  if ((*record)->state() == static_cast<uint32_t>(SetState::kFailed)) {
    co_return absl::NotFoundError(
        absl::StrCat(absent.message(), "; attempt ", (*record)->attempt(),
                     " failed: ", (*record)->failure()));
  }
  const absl::StatusOr<std::shared_ptr<Live>> live =
      co_await FindLive(set, (*record)->world_size());
  if (!live.ok()) co_return absent;
  co_return absl::NotFoundError(
      absl::StrCat(absent.message(), "; attempt ", (*record)->attempt(),
                   " is open with ", (*live)->count, " of ",
                   (*record)->world_size(), " ranks committed; missing: ",
                   absl::StrJoin(MissingRanks(**live), ", ")));
}

io::Task<absl::Status> Sets::AddFiles(Txn* txn, InodeId set,
                                      wire::GetSetResponse* response) {
  const format::KeyRange range = format::RangeOf(KeyKind::kDirent, {set.value});
  const absl::StatusOr<std::vector<KvPair>> page =
      co_await txn->Scan(range.begin, range.end, kSetFilesShown + 1);
  if (!page.ok()) co_return page.status();
  for (const KvPair& pair : *page) {
    if (static_cast<uint32_t>(response->files_size()) == kSetFilesShown) {
      response->set_more_files(true);
      co_return absl::OkStatus();
    }
    CAIRN_CO_ASSIGN_OR_RETURN(const format::ParsedKey key,
                              format::ParseKey(pair.key));
    CAIRN_CO_ASSIGN_OR_RETURN(
        const store::DirectoryEntry entry,
        format::DecodeRecord<store::DirectoryEntry>(pair.key, pair.value));
    const absl::StatusOr<std::optional<store::Inode>> record =
        co_await txn->Peek<store::Inode>(
            format::InodeKey(InodeId(entry.inode())));
    if (!record.ok()) co_return record.status();
    if (!record->has_value()) co_return Conflict();
    wire::RankFile* const file = response->add_files();
    file->set_name(key.name);
    file->set_size((*record)->size());
  }
  co_return absl::OkStatus();
}

io::Task<absl::StatusOr<wire::GetManifestResponse>> Sets::GetManifest(
    wire::GetManifestRequest request) {
  return ReadOp(core_, this, &Sets::GetManifestIn, std::move(request));
}

io::Task<absl::StatusOr<wire::GetManifestResponse>> Sets::GetManifestIn(
    Txn* txn, const wire::GetManifestRequest* request) {
  const InodeId set(request->inode());
  const absl::StatusOr<std::optional<store::CheckpointSet>> record =
      co_await txn->Get<store::CheckpointSet>(format::SetKey(set));
  if (!record.ok()) co_return record.status();
  if (!record->has_value() || (*record)->manifest_blocks() == 0) {
    co_return absl::NotFoundError(
        absl::StrCat("inode ", set.value, " is no published set with tensors"));
  }
  const uint64_t blocks = (*record)->manifest_blocks();
  const uint64_t end =
      std::min(blocks, uint64_t{request->first_block()} + request->count());
  wire::GetManifestResponse response;
  uint64_t bytes = 0;
  for (uint64_t block = request->first_block(); block < end; ++block) {
    const absl::StatusOr<std::optional<store::Bytes>> read =
        co_await txn->Peek<store::Bytes>(
            format::ManifestBlockKey(set, static_cast<uint32_t>(block)));
    if (!read.ok()) co_return read.status();
    if (!read->has_value()) {
      co_return absl::DataLossError(absl::StrCat(
          "manifest block ", block, " of set ", set.value, " is missing"));
    }
    bytes += (*read)->data().size();
    if (bytes > kManifestAnswerBytesMax && response.blocks_size() > 0) break;
    response.add_blocks((*read)->data());
  }
  co_return response;
}

}  // namespace cairn::server
