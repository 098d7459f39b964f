#include "client/blob/parity.h"

#include <algorithm>

#include "client/core/limits.h"
#include "format/base/status.h"
#include "format/erasure/reed_solomon.h"

namespace cairn::client {

namespace {
alignas(64) constexpr uint8_t kZeros[kEncodeColumnBytes] = {};
}  // namespace

void EncodeParity(const format::Scheme& scheme,
                  const std::vector<ConstGather>& shards,
                  std::span<uint8_t* const> parity, uint64_t parity_bytes) {
  CAIRN_CHECK(shards.size() == scheme.data_shards);
  CAIRN_CHECK(parity.size() == scheme.parity_shards);
  const format::ReedSolomon code(scheme.data_shards, scheme.parity_shards);
  std::vector<GatherCursor<const uint8_t>> cursors;
  for (const ConstGather& shard : shards) cursors.emplace_back(shard);
  std::vector<const uint8_t*> data(shards.size());
  std::vector<uint8_t*> out(parity.begin(), parity.end());
  for (uint64_t done = 0; done < parity_bytes;) {
    // The longest column in which every shard is one span.
    uint64_t column = std::min(kEncodeColumnBytes, parity_bytes - done);
    for (const auto& cursor : cursors) {
      if (!cursor.done()) {
        column = std::min<uint64_t>(column, cursor.current().size());
      }
    }
    for (uint64_t i = 0; i < cursors.size(); ++i) {
      data[i] = cursors[i].done() ? kZeros : cursors[i].current().data();
    }
    code.Encode(data, out, column);
    for (auto& cursor : cursors) {
      if (!cursor.done()) cursor.Advance(column);
    }
    for (uint8_t*& shard : out) shard += column;
    done += column;
  }
}

}  // namespace cairn::client
