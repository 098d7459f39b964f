#include "server/target/allocator.h"

#include "format/base/fault_points.h"
#include "format/base/limits.h"
#include "format/base/status.h"

namespace cairn::server {

using format::ChunkPlace;

void ExtentAllocator::AddSlab(uint32_t slab, uint64_t size_bytes) {
  CAIRN_CHECK(size_bytes > 0 && size_bytes % format::kDiskAlignBytes == 0);
  CAIRN_CHECK(slabs_.emplace(slab, size_bytes).second);
  total_bytes_ += size_bytes;
  free_bytes_ += size_bytes;
  Insert({slab, 0}, size_bytes);
}

absl::Status ExtentAllocator::Reserve(const ChunkPlace& place) {
  const Spot spot{place.slab, place.offset_bytes};
  auto extent = free_.upper_bound(spot);
  if (extent != free_.begin()) --extent;
  const bool is_inside =
      extent != free_.end() && extent->first <= spot &&
      extent->first.first == place.slab &&
      spot.second - extent->first.second < extent->second &&
      place.allocated_bytes <=
          extent->second - (spot.second - extent->first.second);
  if (!is_inside || place.allocated_bytes == 0) {
    return absl::DataLossError(
        absl::StrCat("two records claim ", place.allocated_bytes,
                     " bytes at offset ", place.offset_bytes, " of slab ",
                     place.slab, ", or it has no such place"));
  }
  Carve(extent, spot, place.allocated_bytes);
  return absl::OkStatus();
}

std::optional<ChunkPlace> ExtentAllocator::Allocate(uint32_t size_bytes) {
  CAIRN_CHECK(size_bytes > 0 && size_bytes % format::kDiskAlignBytes == 0);
  auto fit = by_length_.lower_bound({size_bytes, 0, 0});
  if (fit == by_length_.end()) return std::nullopt;
  if (CAIRN_FAULT_POINT("target.space.largest_piece")) {
    fit = std::prev(by_length_.end());
  }
  const Spot spot{std::get<1>(*fit), std::get<2>(*fit)};
  const auto extent = free_.find(spot);
  CAIRN_SOMETIMES(std::next(extent) != free_.end() &&
                      std::next(extent)->first.first == spot.first,
                  "target.space.hole_filled");
  Carve(extent, spot, size_bytes);
  return ChunkPlace{spot.first, spot.second, size_bytes};
}

void ExtentAllocator::Free(const ChunkPlace& place) {
  const auto pinned = pinned_.find({place.slab, place.offset_bytes});
  if (pinned == pinned_.end()) {
    Give(place);
    return;
  }
  CAIRN_CHECK(!pinned->second.free_at_end);
  pinned->second.free_at_end = true;
}

bool ExtentAllocator::IsUnused(uint32_t slab) const {
  const auto extent = free_.find({slab, 0});
  return extent != free_.end() && extent->second == slabs_.at(slab);
}

void ExtentAllocator::Pin(const ChunkPlace& place) {
  ++pinned_[{place.slab, place.offset_bytes}].count;
}

void ExtentAllocator::Unpin(const ChunkPlace& place) {
  const auto pinned = pinned_.find({place.slab, place.offset_bytes});
  CAIRN_CHECK(pinned != pinned_.end());
  if (--pinned->second.count > 0) return;
  const bool free_now = pinned->second.free_at_end;
  pinned_.erase(pinned);
  if (free_now) Give(place);
}

uint64_t ExtentAllocator::largest_free_bytes() const {
  return by_length_.empty() ? 0 : std::get<0>(*by_length_.rbegin());
}

void ExtentAllocator::Insert(Spot spot, uint64_t length) {
  free_.emplace(spot, length);
  by_length_.emplace(length, spot.first, spot.second);
}

void ExtentAllocator::Erase(Extents::iterator extent) {
  by_length_.erase({extent->second, extent->first.first, extent->first.second});
  free_.erase(extent);
}

void ExtentAllocator::Carve(Extents::iterator extent, Spot spot,
                            uint64_t length) {
  CAIRN_CHECK(extent != free_.end());
  const Spot start = extent->first;
  const uint64_t before = spot.second - start.second;
  const uint64_t after = extent->second - before - length;
  Erase(extent);
  if (before > 0) Insert(start, before);
  if (after > 0) Insert({spot.first, spot.second + length}, after);
  free_bytes_ -= length;
}

void ExtentAllocator::Give(const ChunkPlace& place) {
  const auto slab = slabs_.find(place.slab);
  CAIRN_CHECK(slab != slabs_.end());
  Spot spot{place.slab, place.offset_bytes};
  uint64_t length = place.allocated_bytes;
  CAIRN_CHECK(length > 0 && spot.second + length <= slab->second);
  auto next = free_.lower_bound(spot);
  if (next != free_.end() && next->first.first == spot.first) {
    CAIRN_CHECK(spot.second + length <= next->first.second);
    if (spot.second + length == next->first.second) {
      length += next->second;
      const auto merged = next++;
      Erase(merged);
    }
  }
  if (next != free_.begin()) {
    const auto previous = std::prev(next);
    if (previous->first.first == spot.first) {
      const uint64_t end = previous->first.second + previous->second;
      CAIRN_CHECK(end <= spot.second);
      if (end == spot.second) {
        spot = previous->first;
        length += previous->second;
        Erase(previous);
      }
    }
  }
  Insert(spot, length);
  free_bytes_ += place.allocated_bytes;
}

}  // namespace cairn::server
