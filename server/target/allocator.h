// ExtentAllocator: which bytes of which slab are free.
//
// Kept in memory only: at open every place that the index claims is reserved,
// and what nobody claims is free. Best fit, lowest place first, so that space
// which was written before is used again before the untouched end of the
// newest slab (fresh space is half as fast).
//
// Units:   bytes, multiples of format::kDiskAlignBytes (checked).
// Pins:    a place that is being read is pinned; Free() of it takes effect when
//          the last pin is gone, so its bytes are never handed out under a
//          reader.
// Threads: one loop.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "absl/status/status.h"
#include "format/target/chunk_record.h"

namespace cairn::server {

class ExtentAllocator {
 public:
  // A slab not added before (checked); all of it is free.
  void AddSlab(uint32_t slab, uint64_t size_bytes);

  // Claims a place that the index names. kDataLoss: it is not wholly free (two
  // records overlap), or not wholly inside a slab.
  absl::Status Reserve(const format::ChunkPlace& place);

  // Whether nothing of an added slab is in use.
  bool IsUnused(uint32_t slab) const;

  // nullopt: no free extent is that long; the caller may add a slab.
  std::optional<format::ChunkPlace> Allocate(uint32_t size_bytes);

  // `place` is wholly in use (checked as far as its neighbours show).
  void Free(const format::ChunkPlace& place);

  void Pin(const format::ChunkPlace& place);
  void Unpin(const format::ChunkPlace& place);

  uint64_t total_bytes() const { return total_bytes_; }
  uint64_t free_bytes() const { return free_bytes_; }
  // Also what is freed but still pinned.
  uint64_t used_bytes() const { return total_bytes_ - free_bytes_; }
  uint64_t largest_free_bytes() const;

 private:
  using Spot = std::pair<uint32_t, uint64_t>;  // Slab, offset.
  struct Pinned {
    uint64_t count = 0;
    bool free_at_end = false;
  };
  using Extents = std::map<Spot, uint64_t>;

  void Insert(Spot spot, uint64_t length);
  void Erase(Extents::iterator extent);
  void Give(const format::ChunkPlace& place);
  // Takes [spot, spot + length) out of the free extent that holds it.
  void Carve(Extents::iterator extent, Spot spot, uint64_t length);

  std::map<uint32_t, uint64_t> slabs_;
  Extents free_;  // Never adjacent to each other.
  std::set<std::tuple<uint64_t, uint32_t, uint64_t>> by_length_;
  std::map<Spot, Pinned> pinned_;
  uint64_t total_bytes_ = 0;
  uint64_t free_bytes_ = 0;
};

}  // namespace cairn::server
