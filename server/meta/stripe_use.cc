#include "server/meta/stripe_use.h"

#include <algorithm>
#include <vector>

#include "format/extent/stripe.h"
#include "server/meta/extent_store.h"

namespace cairn::server {

using format::BlobId;
using format::InodeId;
using format::KeyKind;

namespace {

constexpr uint32_t kExtentsPage = 1024;

struct BlobRange {
  BlobId blob;
  uint64_t begin = 0;
  uint64_t end = 0;
};

bool Covers(const format::Extent& extent, const BlobRange& range) {
  return extent.blob == range.blob && extent.blob_offset < range.end &&
         extent.blob_offset + extent.length > range.begin;
}

io::Task<absl::StatusOr<bool>> InodeUses(Core* core, InodeId inode,
                                         BlobRange range) {
  uint64_t offset = 0;
  while (true) {
    Txn txn(core->kv);
    const absl::StatusOr<std::vector<format::Extent>> extents =
        co_await LoadExtents(&txn, inode, offset, kFileBytesMax - offset,
                             kExtentsPage);
    if (!extents.ok()) co_return extents.status();
    for (const format::Extent& extent : *extents) {
      if (Covers(extent, range)) co_return true;
    }
    if (extents->size() < kExtentsPage) co_return false;
    const format::Extent& last = extents->back();
    offset = last.file_offset + last.length;
  }
}

}  // namespace

io::Task<absl::StatusOr<bool>> StripeIsInUse(Core* core, BlobId blob,
                                             uint32_t stripe) {
  const auto map = core->map.map();
  const format::Pool* const pool = map->FindPool(blob.pool());
  if (pool == nullptr) co_return false;
  BlobRange range;
  range.blob = blob;
  range.begin = format::StripeStart(*pool, stripe);
  range.end = range.begin + pool->stripe_bytes();
  const format::KeyRange keys =
      format::RangeOf(KeyKind::kReference, {blob.value});
  const absl::StatusOr<std::vector<KvPair>> references =
      co_await core->kv->Scan(keys.begin, keys.end, kInodesOfBlobMax);
  if (!references.ok()) co_return references.status();
  if (references->size() == kInodesOfBlobMax) co_return true;
  for (const KvPair& pair : *references) {
    CAIRN_CO_ASSIGN_OR_RETURN(const format::ParsedKey key,
                              format::ParseKey(pair.key));
    const absl::StatusOr<bool> uses =
        co_await InodeUses(core, InodeId(key.numbers[1]), range);
    if (!uses.ok() || *uses) co_return uses;
  }
  co_return false;
}

}  // namespace cairn::server
