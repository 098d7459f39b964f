// Stripe arithmetic: from blob offsets to chunks and back. Pure integers.
//
// A blob's offset space is cut into stripes of k * chunk_size bytes. Inside a
// stripe, data shard j holds the bytes [j * chunk_size, (j+1) * chunk_size), so
// a range is found without knowing how long the stripe is; a short stripe (the
// last of a flush) has short or empty shards. Parity shards are as long as the
// longest data shard; shorter data shards count as zero-padded.
// docs/format.md#stripe.
#pragma once

#include <cstdint>
#include <vector>

#include "format/base/ids.h"
#include "format/cluster/cluster_map.h"

namespace cairn::format {

// A run of bytes inside one data chunk.
struct ChunkRange {
  ChunkId chunk;
  uint64_t offset = 0;        // In the chunk.
  uint64_t length = 0;
  uint64_t range_offset = 0;  // In the range that was asked for.
  friend bool operator==(const ChunkRange&, const ChunkRange&) = default;
};

// No blob reaches this offset: where the last allowed stripe ends. Decoders of
// extents check it, because ChunksOfRange() takes its caller's word.
inline uint64_t BlobBytesMax(const Pool& pool) {
  return uint64_t{kStripesPerBlobMax} * pool.stripe_bytes();
}

// The chunk ranges that hold [offset, offset + length) of `blob`, in order;
// none for length 0. offset + length <= BlobBytesMax(pool) (checked).
std::vector<ChunkRange> ChunksOfRange(const Pool& pool, BlobId blob,
                                      uint64_t offset, uint64_t length);

// Bytes that shard `shard` stores of a stripe with `stripe_bytes` user bytes
// (1 to k * chunk_size, checked). 0: the stripe has no bytes for this shard,
// and the chunk need not exist.
uint64_t ShardBytes(const Pool& pool, uint32_t shard, uint64_t stripe_bytes);

inline uint64_t StripeStart(const Pool& pool, uint32_t stripe) {
  return uint64_t{stripe} * pool.stripe_bytes();
}

}  // namespace cairn::format
