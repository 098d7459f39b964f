#include "server/meta/extent_store.h"

#include <algorithm>
#include <set>

#include "format/base/fault_points.h"

namespace cairn::server {

using format::BlobId;
using format::Extent;
using format::InodeId;
using format::KeyKind;

namespace {

constexpr uint64_t kOpsForExtents = kKvOpsMax - kTxnOpsReserved;

absl::StatusOr<Extent> DecodeExtent(const KvPair& pair) {
  CAIRN_ASSIGN_OR_RETURN(const format::ParsedKey key,
                         format::ParseKey(pair.key));
  CAIRN_ASSIGN_OR_RETURN(
      const store::Extent record,
      format::DecodeRecord<store::Extent>(pair.key, pair.value));
  const uint64_t file_end = key.numbers[1];
  if (record.length() == 0 || record.length() > file_end) {
    return absl::DataLossError("an extent record has an impossible length");
  }
  Extent extent;
  extent.file_offset = file_end - record.length();
  extent.length = record.length();
  extent.blob = BlobId(record.blob());
  extent.blob_offset = record.blob_offset();
  return extent;
}

using Extents = std::map<uint64_t, Extent>;  // By file end.

void Insert(const Extent& extent, Extents* map) {
  const bool added = map->emplace(extent.file_end(), extent).second;
  CAIRN_CHECK(added);
}

// What is left of `old` in front of and behind [begin, end).
void KeepOutside(const Extent& old, uint64_t begin, uint64_t end,
                 Extents* map) {
  CAIRN_SOMETIMES(old.file_offset < begin && old.file_end() > end,
                  "meta.extents.cut_in_the_middle");
  if (old.file_offset < begin) {
    Extent left = old;
    left.length = begin - old.file_offset;
    Insert(left, map);
  }
  if (old.file_end() > end) {
    Extent right = old;
    right.file_offset = end;
    right.length = old.file_end() - end;
    right.blob_offset += end - old.file_offset;
    Insert(right, map);
  }
}

void Overlay(Extent extent, Extents* map) {
  auto place = map->upper_bound(extent.file_offset);
  while (place != map->end() && place->second.file_offset < extent.file_end()) {
    const Extent old = place->second;
    map->erase(place);
    KeepOutside(old, extent.file_offset, extent.file_end(), map);
    place = map->upper_bound(std::max(extent.file_offset, old.file_end() - 1));
    if (old.file_end() >= extent.file_end()) break;
  }
  const auto before = map->find(extent.file_offset);
  if (before != map->end() && format::Continues(before->second, extent)) {
    CAIRN_SOMETIMES(true, "meta.extents.joined");
    const uint64_t joined = before->second.length;
    extent.file_offset -= joined;
    extent.blob_offset -= joined;
    extent.length += joined;
    map->erase(before);
  }
  const auto after = map->upper_bound(extent.file_end());
  if (after != map->end() && format::Continues(extent, after->second)) {
    extent.length += after->second.length;
    map->erase(after);
  }
  Insert(extent, map);
}

}  // namespace

io::Task<absl::StatusOr<std::vector<Extent>>> LoadExtents(
    Txn* txn, InodeId inode, uint64_t offset, uint64_t length, uint32_t limit) {
  // Keys are ends: the first one of interest ends at `offset` or later.
  format::KeyRange range = format::RangeOf(KeyKind::kExtent, {inode.value});
  range.begin = format::ExtentKey(inode, offset);
  const absl::StatusOr<std::vector<KvPair>> pairs =
      co_await txn->Scan(range.begin, range.end, limit);
  if (!pairs.ok()) co_return pairs.status();
  std::vector<Extent> extents;
  for (const KvPair& pair : *pairs) {
    CAIRN_CO_ASSIGN_OR_RETURN(const Extent extent, DecodeExtent(pair));
    if (extent.file_offset > offset && extent.file_offset - offset > length) {
      break;
    }
    extents.push_back(extent);
  }
  co_return extents;
}

io::Task<absl::StatusOr<uint64_t>> ExtentUpdate::Write(Txn* txn,
                                                       Extent extent) {
  CAIRN_CHECK(extent.length > 0);
  // Two at least: the first may only touch.
  const uint32_t most =
      CAIRN_FAULT_POINT("meta.extents.page_of_two") ? 2 : kExtentsFreedPerTxn;
  const absl::StatusOr<std::vector<Extent>> loaded = co_await LoadExtents(
      txn, inode_, extent.file_offset, extent.length, most);
  if (!loaded.ok()) co_return loaded.status();
  if (loaded->size() == most) {
    // Perhaps there are more: go as far as we have seen.
    const uint64_t seen = loaded->back().file_end();
    if (seen <= extent.file_offset) co_return uint64_t{0};
    extent.length = std::min(extent.length, seen - extent.file_offset);
  }
  Extents before = before_;
  Extents after = after_;
  for (const Extent& old : *loaded) {
    if (before_.contains(old.file_end())) continue;
    before_[old.file_end()] = old;
    Insert(old, &after_);
  }
  Overlay(extent, &after_);
  if (OpsNeeded() > kOpsForExtents) {
    before_ = std::move(before);
    after_ = std::move(after);
    co_return uint64_t{0};
  }
  co_return extent.length;
}

io::Task<absl::StatusOr<bool>> ExtentUpdate::Trim(Txn* txn, uint64_t size) {
  CAIRN_CHECK(!changes());
  const uint32_t most =
      CAIRN_FAULT_POINT("meta.trim.page_of_two") ? 2 : kExtentsFreedPerTxn;
  const absl::StatusOr<std::vector<Extent>> loaded =
      co_await LoadExtents(txn, inode_, size, ~uint64_t{0} - size, most);
  if (!loaded.ok()) co_return loaded.status();
  for (const Extent& old : *loaded) {
    if (old.file_end() <= size) continue;  // Only touches.
    before_[old.file_end()] = old;
    if (old.file_offset >= size) continue;
    CAIRN_SOMETIMES(true, "meta.trim.cut_inside");
    Extent left = old;
    left.length = size - old.file_offset;
    Insert(left, &after_);
  }
  CAIRN_SOMETIMES(loaded->size() == most, "meta.trim.in_pages");
  co_return loaded->size() == most;
}

std::map<BlobId, int64_t> ExtentUpdate::ReferenceDeltas() const {
  std::map<BlobId, int64_t> deltas;
  for (const auto& [end, extent] : before_) --deltas[extent.blob];
  for (const auto& [end, extent] : after_) ++deltas[extent.blob];
  std::erase_if(deltas, [](const auto& item) { return item.second == 0; });
  return deltas;
}

std::vector<Extent> ExtentUpdate::FreshExtents() const {
  std::vector<Extent> fresh;
  for (const auto& [end, extent] : after_) {
    const auto old = before_.find(end);
    if (old == before_.end() || !(old->second == extent)) {
      fresh.push_back(extent);
    }
  }
  return fresh;
}

uint64_t ExtentUpdate::OpsNeeded() const {
  uint64_t ops = 0;
  for (const auto& [end, extent] : before_) ops += !after_.contains(end);
  std::set<BlobId> looked_up;
  for (const Extent& extent : FreshExtents()) {
    ++ops;
    looked_up.insert(extent.blob);
  }
  for (const auto& [blob, delta] : ReferenceDeltas()) ops += delta < 0 ? 5 : 2;
  return ops + looked_up.size();
}

void PutGarbage(Txn* txn, BlobId blob, store::Blob record, uint64_t due_ms) {
  record.set_free_after_ms(due_ms);
  txn->Put(format::BlobKey(blob), record);
  txn->Put(format::GarbageKey(due_ms, blob), store::Garbage());
}

namespace {

// One that has no record has been freed.
io::Task<absl::Status> Release(Txn* txn, BlobId blob, uint64_t due_ms) {
  absl::StatusOr<std::optional<store::Blob>> record =
      co_await txn->Get<store::Blob>(format::BlobKey(blob));
  if (!record.ok()) co_return record.status();
  if (record->has_value()) PutGarbage(txn, blob, **record, due_ms);
  co_return absl::OkStatus();
}

}  // namespace

io::Task<absl::Status> ExtentUpdate::Finish(Txn* txn) {
  for (const auto& [end, extent] : before_) {
    allocated_delta_ -= static_cast<int64_t>(extent.length);
    if (!after_.contains(end)) txn->Delete(format::ExtentKey(inode_, end));
  }
  for (const auto& [end, extent] : after_) {
    allocated_delta_ += static_cast<int64_t>(extent.length);
  }
  for (const Extent& extent : FreshExtents()) {
    store::Extent record;
    record.set_length(extent.length);
    record.set_blob(extent.blob.value);
    record.set_blob_offset(extent.blob_offset);
    txn->Put(format::ExtentKey(inode_, extent.file_end()), record);
  }
  const uint64_t due = core_->clock.NowMs() + core_->options.orphan_grace_ms;
  for (const auto& [blob, delta] : ReferenceDeltas()) {
    const std::string key = format::ReferenceKey(blob, inode_);
    const absl::StatusOr<std::optional<store::Reference>> read =
        co_await txn->Get<store::Reference>(key);
    if (!read.ok()) co_return read.status();
    store::Reference record = read->value_or(store::Reference());
    const int64_t count = static_cast<int64_t>(record.extents()) + delta;
    if (count < 0) {
      co_return absl::DataLossError(
          absl::StrCat("references of ", format::ToString(blob), " in inode ",
                       inode_.value, " do not match its extents"));
    }
    if (count == 0) {
      txn->Delete(key);
      CAIRN_CO_RETURN_IF_ERROR(co_await Release(txn, blob, due));
      CAIRN_SOMETIMES(true, "meta.extents.blob_released");
      continue;
    }
    record.set_extents(static_cast<uint64_t>(count));
    txn->Put(key, record);
  }
  co_return absl::OkStatus();
}

}  // namespace cairn::server
