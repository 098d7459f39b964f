// Makes the parity shards of a stripe that lies scattered in user memory.
#pragma once

#include <span>
#include <vector>

#include "client/blob/gather.h"
#include "format/cluster/cluster_map.h"

namespace cairn::client {

// `shards`: the k data shards as gather lists (shorter ones count as padded
// with zeros). `parity[i]` receives parity_bytes bytes, which is the length of
// the longest data shard. Walks in columns that stay in L2.
void EncodeParity(const format::Scheme& scheme,
                  const std::vector<ConstGather>& shards,
                  std::span<uint8_t* const> parity, uint64_t parity_bytes);

}  // namespace cairn::client
