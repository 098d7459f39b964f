#include "format/extent/extent_map.h"

#include <algorithm>
#include <iterator>
#include <limits>

#include "format/base/status.h"

namespace cairn::format {
namespace {

bool Overflows(uint64_t offset, uint64_t length) {
  return length > std::numeric_limits<uint64_t>::max() - offset;
}

// The part of `extent` inside [begin, end); they overlap.
Extent Clip(const Extent& extent, uint64_t begin, uint64_t end) {
  const uint64_t from = std::max(extent.file_offset, begin);
  const uint64_t to = std::min(extent.file_end(), end);
  CAIRN_CHECK(from < to);
  return {from, to - from, extent.blob,
          extent.blob_offset + (from - extent.file_offset)};
}

// Adds `next` behind the others; joins it to the last one if it continues it.
void AppendMerged(const Extent& next, std::vector<Extent>* extents) {
  if (!extents->empty() && Continues(extents->back(), next)) {
    extents->back().length += next.length;
  } else {
    extents->push_back(next);
  }
}

// Records on both sides are no change. Both are sorted by file offset.
void DropUnchanged(ExtentMap::Change* change) {
  std::vector<Extent> same;
  for (const Extent& extent : change->removed) {
    if (std::find(change->added.begin(), change->added.end(), extent) !=
        change->added.end()) {
      same.push_back(extent);
    }
  }
  const auto is_same = [&same](const Extent& extent) {
    return std::find(same.begin(), same.end(), extent) != same.end();
  };
  std::erase_if(change->removed, is_same);
  std::erase_if(change->added, is_same);
}

}  // namespace

bool Continues(const Extent& a, const Extent& b) {
  return a.file_end() == b.file_offset && a.blob == b.blob &&
         a.blob_offset + a.length == b.blob_offset;
}

ExtentMap::Change ExtentMap::Write(const Extent& extent) {
  CAIRN_CHECK(extent.length > 0);
  CAIRN_CHECK(!Overflows(extent.file_offset, extent.length));
  CAIRN_CHECK(!Overflows(extent.blob_offset, extent.length));
  const uint64_t begin = extent.file_offset;
  const uint64_t end = extent.file_end();

  // [first, last): what overlaps `extent`, and the neighbours that touch it and
  // may continue it or be continued by it.
  auto first = extents_.lower_bound(begin);
  if (first != extents_.begin() &&
      std::prev(first)->second.file_end() >= begin) {
    --first;
  }
  const auto last = extents_.upper_bound(end);
  Change change;
  for (auto it = first; it != last; ++it) change.removed.push_back(it->second);

  if (!change.removed.empty() && change.removed.front().file_offset < begin) {
    change.added.push_back(Clip(change.removed.front(), 0, begin));
  }
  AppendMerged(extent, &change.added);
  if (!change.removed.empty() && change.removed.back().file_end() > end) {
    AppendMerged(
        Clip(change.removed.back(), end, std::numeric_limits<uint64_t>::max()),
        &change.added);
  }
  extents_.erase(first, last);
  for (const Extent& added : change.added) {
    extents_.emplace(added.file_offset, added);
  }
  DropUnchanged(&change);
  return change;
}

ExtentMap::Change ExtentMap::Truncate(uint64_t size) {
  Change change;
  auto first = extents_.lower_bound(size);
  if (first != extents_.begin() && std::prev(first)->second.file_end() > size) {
    --first;
  }
  for (auto it = first; it != extents_.end(); ++it) {
    change.removed.push_back(it->second);
  }
  extents_.erase(first, extents_.end());
  if (!change.removed.empty() && change.removed.front().file_offset < size) {
    change.added.push_back(Clip(change.removed.front(), 0, size));
    extents_.emplace(change.added[0].file_offset, change.added[0]);
  }
  return change;
}

std::vector<Extent> ExtentMap::Find(uint64_t offset, uint64_t length) const {
  std::vector<Extent> found;
  const uint64_t end = Overflows(offset, length)
                           ? std::numeric_limits<uint64_t>::max()
                           : offset + length;
  if (offset == end) return found;
  auto it = extents_.lower_bound(offset);
  if (it != extents_.begin() && std::prev(it)->second.file_end() > offset) {
    --it;
  }
  for (; it != extents_.end() && it->first < end; ++it) {
    found.push_back(Clip(it->second, offset, end));
  }
  return found;
}

std::vector<Extent> ExtentMap::All() const {
  std::vector<Extent> all;
  all.reserve(extents_.size());
  for (const auto& [offset, extent] : extents_) all.push_back(extent);
  return all;
}

uint64_t ExtentMap::end() const {
  return extents_.empty() ? 0 : extents_.rbegin()->second.file_end();
}

}  // namespace cairn::format
