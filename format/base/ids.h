// Strong types for every identity in Cairn (design: "Words").
//
// An id is a plain value: compare it, order it, print it with ToString().
// Zero is never a valid blob, inode, session or target.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace cairn::format {

template <typename Tag, typename Rep>
struct StrongId {
  Rep value = 0;
  constexpr StrongId() = default;
  constexpr explicit StrongId(Rep v) : value(v) {}
  friend constexpr auto operator<=>(StrongId, StrongId) = default;
  template <typename H>
  friend H AbslHashValue(H h, StrongId id) {
    return H::combine(std::move(h), id.value);
  }
};

using PoolId = StrongId<struct PoolTag, uint16_t>;
using TargetId = StrongId<struct TargetTag, uint32_t>;
using InodeId = StrongId<struct InodeTag, uint64_t>;
using SessionId = StrongId<struct SessionTag, uint64_t>;
using Epoch = StrongId<struct EpochTag, uint64_t>;  // Cluster map version.

inline constexpr InodeId kRootInode{1};

// 128 random bits made by `cairnd init`; printed as 32 hex digits.
struct ClusterId {
  std::array<uint8_t, 16> bytes{};
  friend auto operator<=>(const ClusterId&, const ClusterId&) = default;
};
std::string ToString(const ClusterId& id);
// kInvalidArgument: not 32 hex digits.
absl::StatusOr<ClusterId> ParseClusterId(std::string_view hex);

// Pool in the top 16 bits, sequence in the low 48; never reused.
struct BlobId {
  uint64_t value = 0;
  constexpr BlobId() = default;
  constexpr explicit BlobId(uint64_t v) : value(v) {}
  static constexpr BlobId Make(PoolId pool, uint64_t sequence) {
    return BlobId((static_cast<uint64_t>(pool.value) << 48) |
                  (sequence & 0xffff'ffff'ffffULL));
  }
  constexpr PoolId pool() const {
    return PoolId(static_cast<uint16_t>(value >> 48));
  }
  constexpr uint64_t sequence() const { return value & 0xffff'ffff'ffffULL; }
  friend constexpr auto operator<=>(BlobId, BlobId) = default;
  template <typename H>
  friend H AbslHashValue(H h, BlobId id) {
    return H::combine(std::move(h), id.value);
  }
};

// A placement group: its pool, and its row in the pool's PG table.
struct PgId {
  PoolId pool;
  uint32_t index = 0;
  friend constexpr auto operator<=>(const PgId&, const PgId&) = default;
  template <typename H>
  friend H AbslHashValue(H h, PgId id) {
    return H::combine(std::move(h), id.pool, id.index);
  }
};

// One chunk: shard `shard` of stripe `stripe` of a blob. Shards 0..k-1 are
// data, k..k+m-1 parity (or copies).
struct ChunkId {
  BlobId blob;
  uint32_t stripe = 0;
  uint32_t shard = 0;
  friend constexpr auto operator<=>(const ChunkId&, const ChunkId&) = default;
  template <typename H>
  friend H AbslHashValue(H h, ChunkId id) {
    return H::combine(std::move(h), id.blob, id.stripe, id.shard);
  }
};

std::string ToString(BlobId id);   // "blob 1:42"
std::string ToString(PgId id);     // "pg 1.7"
std::string ToString(ChunkId id);  // "chunk 1:42/3/0" (pool:seq/stripe/shard)

// One round of a fixed 64-bit mixer (SplitMix64's finalizer): the same on every
// machine and compiler, for placement and seeds. Not for hash tables whose keys
// an attacker chooses.
constexpr uint64_t Mix64(uint64_t x) {
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9ULL;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

}  // namespace cairn::format
