#include "format/extent/stripe.h"

#include <algorithm>

#include "format/base/status.h"

namespace cairn::format {

std::vector<ChunkRange> ChunksOfRange(const Pool& pool, BlobId blob,
                                      uint64_t offset, uint64_t length) {
  CAIRN_CHECK(pool.stripe_bytes() > 0);
  CAIRN_CHECK(offset <= BlobBytesMax(pool));
  CAIRN_CHECK(length <= BlobBytesMax(pool) - offset);
  std::vector<ChunkRange> ranges;
  if (length == 0) return ranges;
  const uint64_t chunk_first = offset / pool.chunk_size;
  const uint64_t chunk_last = (offset + length - 1) / pool.chunk_size;
  ranges.reserve(chunk_last - chunk_first + 1);
  const uint64_t end = offset + length;
  for (uint64_t at = offset; at < end;) {
    const uint64_t chunk = at / pool.chunk_size;  // Data chunks of the blob.
    ChunkRange range;
    range.chunk.blob = blob;
    range.chunk.stripe = static_cast<uint32_t>(chunk / pool.scheme.data_shards);
    range.chunk.shard = static_cast<uint32_t>(chunk % pool.scheme.data_shards);
    range.offset = at % pool.chunk_size;
    range.length = std::min(pool.chunk_size - range.offset, end - at);
    range.range_offset = at - offset;
    at += range.length;
    ranges.push_back(range);
  }
  return ranges;
}

uint64_t ShardBytes(const Pool& pool, uint32_t shard, uint64_t stripe_bytes) {
  CAIRN_CHECK(shard < pool.scheme.shards());
  CAIRN_CHECK(stripe_bytes >= 1 && stripe_bytes <= pool.stripe_bytes());
  const uint64_t chunk_size = pool.chunk_size;
  // Data shard 0 is never shorter than another: parity is as long as it.
  const bool is_data = shard < pool.scheme.data_shards;
  const uint64_t start = is_data ? shard * chunk_size : 0;
  if (start >= stripe_bytes) return 0;
  return std::min(chunk_size, stripe_bytes - start);
}

}  // namespace cairn::format
