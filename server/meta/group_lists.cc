#include "server/meta/group_lists.h"

#include <utility>

#include "format/base/status.h"
#include "server/meta/limits.h"

namespace cairn::server {

using format::BlobId;
using format::ChunkId;

GroupLists::GroupLists(TargetOrders* orders, format::PgId pg,
                       std::vector<format::TargetId> row)
    : orders_(orders), pg_(pg), row_(std::move(row)), cursors_(row_.size()) {}

absl::Status GroupLists::Take(const wire::ListChunksResponse& page,
                              uint32_t shard) {
  Cursor& cursor = cursors_[shard];
  // A target that turned back would keep us for ever.
  const bool stuck =
      !page.next().empty() &&
      (page.chunks().empty() || (cursor.started && page.next() <= cursor.next));
  cursor.page.clear();
  cursor.at = 0;
  ChunkId last;
  bool ascends = true;
  for (const wire::ChunkInfo& info : page.chunks()) {
    const ChunkId chunk{BlobId(info.chunk().blob()), info.chunk().stripe(),
                        info.chunk().shard()};
    ascends = ascends && last < chunk && chunk.blob.pool() == pg_.pool;
    last = chunk;
    if (chunk.shard != shard) continue;
    Item& item = cursor.page.emplace_back();
    item.blob = chunk.blob;
    item.stripe = chunk.stripe;
    item.chunk.chunk_bytes = info.chunk_bytes();
    item.chunk.stripe_bytes = info.stripe_bytes();
  }
  if (stuck || !ascends) {
    return absl::DataLossError(absl::StrCat("target ", row_[shard].value,
                                            " gives a list of ", ToString(pg_),
                                            " that cannot be"));
  }
  cursor.next = page.next();
  cursor.started = true;
  cursor.is_last = page.next().empty();
  return absl::OkStatus();
}

// Until the cursor stands on a chunk or at the end.
io::Task<absl::Status> GroupLists::Fill(uint32_t shard) {
  Cursor& cursor = cursors_[shard];
  while (cursor.at == cursor.page.size() && !cursor.is_last) {
    wire::ListChunksRequest request;
    request.set_target(row_[shard].value);
    request.set_pool(pg_.pool.value);
    request.set_pg(pg_.index);
    request.set_after(cursor.next);
    request.set_limit(kComparePage);
    const absl::StatusOr<wire::ListChunksResponse> page =
        co_await orders_->ListChunks(std::move(request));
    if (!page.ok()) co_return page.status();
    CAIRN_CO_RETURN_IF_ERROR(Take(*page, shard));
  }
  co_return absl::OkStatus();
}

io::Task<absl::StatusOr<std::optional<GroupStripe>>> GroupLists::Next() {
  std::optional<GroupStripe> first;
  for (uint32_t shard = 0; shard < cursors_.size(); ++shard) {
    CAIRN_CO_RETURN_IF_ERROR(co_await Fill(shard));
    const Cursor& cursor = cursors_[shard];
    if (cursor.at == cursor.page.size()) continue;
    const Item& item = cursor.page[cursor.at];
    if (first && std::pair(item.blob, item.stripe) >=
                     std::pair(first->blob, first->stripe)) {
      continue;
    }
    if (!first) first.emplace();
    first->blob = item.blob;
    first->stripe = item.stripe;
  }
  if (!first) co_return first;
  first->chunks.resize(cursors_.size());
  for (uint32_t shard = 0; shard < cursors_.size(); ++shard) {
    Cursor& cursor = cursors_[shard];
    if (cursor.at == cursor.page.size()) continue;
    const Item& item = cursor.page[cursor.at];
    if (item.blob != first->blob || item.stripe != first->stripe) continue;
    first->chunks[shard] = item.chunk;
    ++cursor.at;
  }
  co_return first;
}

}  // namespace cairn::server
