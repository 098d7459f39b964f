// Publishing a complete set: merge the manifest parts, store the manifest, then
// make the set visible in one transaction. Each step may be repeated, so that
// publishing goes on after a crash between any two.
#include <algorithm>

#include "format/base/fault_points.h"
#include "server/meta/sets.h"
#include "spdlog/spdlog.h"

namespace cairn::server {

using format::CounterId;
using format::InodeId;
using format::KeyKind;
using format::SetState;

namespace {

KvWrite BytesPair(std::string key, std::string_view data) {
  store::Bytes bytes;
  bytes.set_data(std::string(data));
  std::string value = format::EncodeRecord(key, bytes);
  return {std::move(key), std::move(value)};
}

// The pairs of a manifest, in transactions of bounded size.
std::vector<std::vector<KvWrite>> ManifestPairs(
    InodeId set, const format::Manifest& manifest) {
  std::vector<std::vector<KvWrite>> groups;
  uint64_t bytes = kManifestTxnBytesMax;
  const auto add = [&groups, &bytes](KvWrite pair) {
    bytes += pair.key.size() + pair.value->size();
    if (bytes > kManifestTxnBytesMax ||
        groups.back().size() == kKeysErasedPerTxn) {
      groups.emplace_back();
      bytes = pair.key.size() + pair.value->size();
    }
    groups.back().push_back(std::move(pair));
  };
  for (uint32_t block = 0; block < manifest.blocks.size(); ++block) {
    add(BytesPair(format::ManifestBlockKey(set, block),
                  manifest.blocks[block]));
  }
  const std::string header = format::EncodeManifestHeader(manifest.header);
  for (uint32_t piece = 0; piece * kManifestPieceBytes < header.size();
       ++piece) {
    add(BytesPair(format::ManifestHeaderKey(set, piece),
                  std::string_view(header).substr(piece * kManifestPieceBytes,
                                                  kManifestPieceBytes)));
  }
  return groups;
}

// Too large to be stored or sent: said before anything is stored.
absl::Status CheckManifest(const format::Manifest& manifest) {
  const uint64_t header_bytes =
      format::EncodeManifestHeader(manifest.header).size();
  if (header_bytes > kManifestHeaderBytesMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("the manifest's index has ", header_bytes,
                     " bytes; at most ", kManifestHeaderBytesMax));
  }
  for (const std::string& block : manifest.blocks) {
    if (block.size() > kManifestTxnBytesMax) {
      return absl::InvalidArgumentError("a manifest block is too large");
    }
  }
  return absl::OkStatus();
}

}  // namespace

void Sets::StartPublish(InodeId set) {
  const auto place = live_.find(set.value);
  if (place == live_.end() || place->second->publishing) return;
  if (core_->stopping.cancelled()) return;  // The next start goes on.
  place->second->publishing = true;
  core_->gate.Spawn(PublishLoop(set));
}

io::Task<void> Sets::PublishLoop(InodeId set) {
  while (!core_->stopping.cancelled()) {
    const absl::Status status = co_await Publish(set);
    if (status.ok()) {
      NoteEnded(set);
      co_return;
    }
    CAIRN_SOMETIMES(true, "meta.set.publish_repeated");
    spdlog::warn("metadata: publishing set {}: {}; again soon", set.value,
                 StdText(status.message()));
    co_await io::SleepFor(core_->env, core_->options.tick_ns, &core_->stopping);
  }
}

io::Task<absl::Status> Sets::Publish(InodeId set) {
  const absl::StatusOr<store::CheckpointSet> record = co_await ReadSet(set);
  if (absl::IsNotFound(record.status())) co_return absl::OkStatus();
  if (!record.ok()) co_return record.status();
  if (record->state() != static_cast<uint32_t>(SetState::kOpen)) {
    co_return absl::OkStatus();
  }
  const uint32_t world_size = record->world_size();
  const absl::StatusOr<std::vector<std::string>> parts =
      co_await LoadParts(set, world_size);
  if (!parts.ok()) co_return parts.status();

  absl::StatusOr<format::Manifest> manifest = absl::UnknownError("not run");
  std::function<void()> merge = [world_size, in = &*parts, out = &manifest] {
    *out = format::MergeManifest(world_size, *in);
  };
  co_await core_->env->RunBlocking(std::move(merge));
  if (!manifest.ok()) {
    co_return co_await FailSet(set, std::string(manifest.status().message()));
  }
  const absl::Status checked = CheckManifest(*manifest);
  if (!checked.ok()) {
    co_return co_await FailSet(set, std::string(checked.message()));
  }
  if (CAIRN_FAULT_POINT("meta.set.published_late")) {
    co_await io::SleepFor(core_->env, kLatePublicationNs, &core_->stopping);
  }
  CAIRN_CO_RETURN_IF_ERROR(co_await StoreManifest(set, &*manifest));
  if (CAIRN_FAULT_POINT("meta.set.publish_interrupted")) {
    co_return absl::UnavailableError("interrupted after the manifest");
  }
  TxnBody body = [this, set, done = &*manifest](Txn* txn) {
    return PublishIn(txn, set, done);
  };
  co_return co_await RunTxn(core_, std::move(body));
}

io::Task<absl::StatusOr<std::vector<std::string>>> Sets::LoadParts(
    InodeId set, uint32_t world_size) {
  constexpr uint32_t kPage = 16;  // Of pieces: up to 4 MiB.
  std::vector<std::string> parts(world_size);
  format::KeyRange range =
      format::RangeOf(KeyKind::kManifestPiece, {set.value});
  while (true) {
    const absl::StatusOr<std::vector<KvPair>> page =
        co_await core_->kv->Scan(range.begin, range.end, kPage);
    if (!page.ok()) co_return page.status();
    for (const KvPair& pair : *page) {
      CAIRN_CO_ASSIGN_OR_RETURN(const format::ParsedKey key,
                                format::ParseKey(pair.key));
      CAIRN_CO_ASSIGN_OR_RETURN(
          const store::Bytes piece,
          format::DecodeRecord<store::Bytes>(pair.key, pair.value));
      const uint64_t rank = key.numbers[1];
      const uint64_t at = key.numbers[2] * kManifestPieceBytes;
      if (rank >= world_size) {
        co_return absl::DataLossError("a manifest part of no rank");
      }
      // A claim that was taken over may have left pieces behind the new end:
      // only full ones come before a next one.
      if (parts[rank].size() == at) parts[rank] += piece.data();
    }
    if (page->size() < kPage) co_return parts;
    range.begin = page->back().key + '\0';
  }
}

io::Task<absl::Status> Sets::StoreManifest(InodeId set,
                                           const format::Manifest* manifest) {
  std::vector<std::vector<KvWrite>> groups = ManifestPairs(set, *manifest);
  for (std::vector<KvWrite>& group : groups) {
    if (core_->stopping.cancelled()) {
      co_return absl::CancelledError("the metadata service is stopping");
    }
    CAIRN_CO_RETURN_IF_ERROR(co_await StorePairs(set, std::move(group)));
  }
  co_return absl::OkStatus();
}

io::Task<absl::Status> Sets::StorePairs(InodeId set,
                                        std::vector<KvWrite> pairs) {
  TxnBody body = [this, set, stored = &pairs](Txn* txn) {
    return StorePairsIn(txn, set, stored);
  };
  co_return co_await RunTxn(core_, std::move(body));
}

io::Task<absl::Status> Sets::StorePairsIn(Txn* txn, InodeId set,
                                          const std::vector<KvWrite>* pairs) {
  const absl::StatusOr<std::optional<store::CheckpointSet>> record =
      co_await txn->Get<store::CheckpointSet>(format::SetKey(set));
  if (!record.ok()) co_return record.status();
  if (!record->has_value() ||
      (*record)->state() != static_cast<uint32_t>(SetState::kOpen)) {
    CAIRN_SOMETIMES(true, "meta.set.fenced_while_publishing");
    co_return absl::OkStatus();  // Fenced; the last step will see it too.
  }
  for (const KvWrite& pair : *pairs) txn->PutRaw(pair.key, *pair.value);
  co_return absl::OkStatus();
}

io::Task<absl::Status> Sets::FailSet(InodeId set, std::string reason) {
  spdlog::warn("metadata: set {} cannot be published: {}", set.value, reason);
  TxnBody body = [this, set, reason](Txn* txn) {
    return FailIn(txn, set, reason);
  };
  co_return co_await RunTxn(core_, std::move(body));
}

io::Task<absl::Status> Sets::FailIn(Txn* txn, InodeId set, std::string reason) {
  absl::StatusOr<std::optional<store::CheckpointSet>> record =
      co_await txn->Get<store::CheckpointSet>(format::SetKey(set));
  if (!record.ok()) co_return record.status();
  if (!record->has_value() ||
      (*record)->state() != static_cast<uint32_t>(SetState::kOpen)) {
    co_return absl::OkStatus();
  }
  (*record)->set_state(static_cast<uint32_t>(SetState::kFailed));
  (*record)->set_failure(reason);
  txn->Put(format::SetKey(set), **record);
  // Until then it answers why it failed.
  store::Trash trash;
  trash.set_kind(static_cast<uint32_t>(format::TrashKind::kSet));
  const uint64_t due = core_->clock.NowMs() + core_->options.trash_grace_ms;
  txn->Put(format::TrashKey(due, set), trash);
  co_return absl::OkStatus();
}

io::Task<absl::Status> Sets::PublishIn(Txn* txn, InodeId set,
                                       const format::Manifest* manifest) {
  absl::StatusOr<std::optional<store::CheckpointSet>> read =
      co_await txn->Get<store::CheckpointSet>(format::SetKey(set));
  if (!read.ok()) co_return read.status();
  if (!read->has_value() ||
      (*read)->state() != static_cast<uint32_t>(SetState::kOpen)) {
    co_return absl::OkStatus();
  }
  store::CheckpointSet& record = **read;
  const InodeId parent(record.parent());
  const absl::StatusOr<store::Inode> directory =
      co_await GetDirectory(txn, parent);
  if (absl::IsNotFound(directory.status())) {
    co_return co_await FailIn(txn, set, "its directory was removed meanwhile");
  }
  if (!directory.ok()) co_return directory.status();
  const absl::StatusOr<std::optional<store::DirectoryEntry>> taken =
      co_await GetDirent(txn, parent, record.name());
  if (!taken.ok()) co_return taken.status();
  if (taken->has_value()) {
    co_return co_await FailIn(txn, set, "its path was taken meanwhile");
  }
  absl::StatusOr<store::Inode> inode = co_await GetInode(txn, set);
  if (!inode.ok()) co_return inode.status();

  const std::string counter_key =
      format::CounterKey(CounterId::kPublicationCounter);
  const absl::StatusOr<std::optional<store::Counter>> counter =
      co_await txn->Get<store::Counter>(counter_key);
  if (!counter.ok()) co_return counter.status();
  store::Counter next;
  next.set_next(counter->value_or(store::Counter()).next() + 1);
  txn->Put(counter_key, next);

  const uint64_t now = core_->env->WallNs();
  const uint64_t header_bytes =
      format::EncodeManifestHeader(manifest->header).size();
  record.set_state(static_cast<uint32_t>(SetState::kPublished));
  record.set_published_wall_ns(now);
  record.set_publication(next.next());
  record.set_bytes(manifest->header.file_bytes);
  record.set_tensors(manifest->header.tensors);
  record.set_manifest_blocks(static_cast<uint32_t>(manifest->blocks.size()));
  record.set_header_pieces(static_cast<uint32_t>(
      (header_bytes + kManifestPieceBytes - 1) / kManifestPieceBytes));
  txn->Put(format::SetKey(set), record);
  store::Publication publication;
  publication.set_set(set.value);
  txn->Put(format::PublicationKey(next.next()), publication);
  inode->set_mtime_ns(now);
  inode->set_ctime_ns(now);
  txn->Put(format::InodeKey(set), *inode);
  store::DirectoryEntry entry;
  entry.set_inode(set.value);
  entry.set_type(inode->type());
  txn->Put(format::DirentKey(parent, record.name()), entry);
  txn->Delete(format::OpenSetKey(parent, record.name()));
  TouchDirectory(txn, parent, now);
  store::Trash parts;
  parts.set_kind(static_cast<uint32_t>(format::TrashKind::kSetParts));
  txn->Put(format::TrashKey(core_->clock.NowMs(), set), parts);
  co_return absl::OkStatus();
}

}  // namespace cairn::server
