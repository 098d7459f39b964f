// Reed-Solomon over GF(2^8) by ISA-L: k data shards, m parity shards, any m of
// the k + m may be lost. The matrix is Cauchy, so every square submatrix is
// invertible; it is part of the format: docs/format.md#reed-solomon.
//
// Threads: a codec is immutable after construction and may be shared.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "format/base/bytes.h"
#include "format/base/limits.h"

namespace cairn::format {

class ReedSolomon {
 public:
  // 1 <= k <= kDataShardsMax, 0 <= m <= kParityShardsMax (checked).
  ReedSolomon(uint32_t data_shards, uint32_t parity_shards);

  // Computes parity[i] of data[j]. All of one length; data.size() == k and
  // parity.size() == m (checked). Shards may be fed in slices: the code works
  // byte position by byte position.
  void Encode(std::span<const uint8_t* const> data,
              std::span<uint8_t* const> parity, uint64_t length) const;

  // Adds the contribution of data shard `index` to the parities, for shards
  // that arrive one after the other; start with zeroed parities.
  void EncodeUpdate(uint32_t index, const uint8_t* data,
                    std::span<uint8_t* const> parity, uint64_t length) const;

  // Rebuilds the shards `wanted` from k present ones. `present[i]` is null for
  // shards that are not there; exactly the first k non-null ones are used.
  // out[i] receives wanted[i].
  // kDataLoss: fewer than k are present.
  absl::Status Decode(std::span<const uint8_t* const> present,
                      std::span<const uint32_t> wanted,
                      std::span<uint8_t* const> out, uint64_t length) const;

  uint32_t data_shards() const { return k_; }
  uint32_t parity_shards() const { return m_; }

 private:
  uint32_t k_;
  uint32_t m_;
  std::vector<uint8_t> matrix_;         // (k + m) x k.
  std::vector<uint8_t> encode_tables_;  // ISA-L's expanded parity rows.
};

}  // namespace cairn::format
