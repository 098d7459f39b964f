// ExtentMap: which ranges of a file are which ranges of blobs.
//
// Invariants: sorted by file offset, no two overlap, none is empty, and
// neighbours that continue each other (file offset, same blob, blob offset) are
// one extent. A gap is a hole and reads as zeros.
//
// Cost: a change is O(log n) and one step for each record that it removes.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "format/base/ids.h"

namespace cairn::format {

struct Extent {
  uint64_t file_offset = 0;
  uint64_t length = 0;
  BlobId blob;
  uint64_t blob_offset = 0;
  uint64_t file_end() const { return file_offset + length; }
  friend bool operator==(const Extent&, const Extent&) = default;
};

// True if `b` starts where `a` ends, in the file and in the blob.
bool Continues(const Extent& a, const Extent& b);

class ExtentMap {
 public:
  // What a change did to the stored records, for a transaction to repeat:
  // delete `removed` first, then put `added`, for a new record may have the
  // file offset of an old one. Both are sorted by file offset and have nothing
  // in common.
  struct Change {
    std::vector<Extent> removed;  // Records that were there before.
    std::vector<Extent> added;    // Records that are there now.
  };

  // Overwrites [extent.file_offset, extent.file_end()); merges.
  // extent.length > 0 and no overflow (checked).
  Change Write(const Extent& extent);
  // Cuts away everything from `size` on.
  Change Truncate(uint64_t size);

  // Extents that overlap [offset, offset + length), clipped to it.
  std::vector<Extent> Find(uint64_t offset, uint64_t length) const;
  std::vector<Extent> All() const;
  uint64_t end() const;  // Where the last extent ends; 0 if there is none.
  bool empty() const { return extents_.empty(); }
  uint64_t count() const { return extents_.size(); }

 private:
  std::map<uint64_t, Extent> extents_;  // By file offset.
};

}  // namespace cairn::format
