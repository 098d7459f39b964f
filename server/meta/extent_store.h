// Extents of files inside transactions: records, reference counts of blobs,
// and blobs that lose their last reference.
//
// Guard: every change of a file's extents goes with an expectation on its inode
//        (or, for files of an unpublished set, on the rank's claim), so extent
//        records are read without expectations of their own.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "absl/status/statusor.h"
#include "format/extent/extent_map.h"
#include "server/meta/core.h"

namespace cairn::server {

// Extents that overlap or touch [offset, offset + length), in file order, at
// most `limit`; those at the edges are not clipped.
io::Task<absl::StatusOr<std::vector<format::Extent>>> LoadExtents(
    Txn* txn, format::InodeId inode, uint64_t offset, uint64_t length,
    uint32_t limit);

// A blob that nobody refers to (or owns) any more: comes up for deletion at
// `due_ms`, and stays until then whatever older entries say, which find the
// time in its record.
void PutGarbage(Txn* txn, format::BlobId blob, store::Blob record,
                uint64_t due_ms);

// Collects changes of one file's extents, then writes them with the references
// of the blobs.
class ExtentUpdate {
 public:
  ExtentUpdate(Core* core, format::InodeId inode)
      : core_(core), inode_(inode) {}

  // Overwrites a range. Returns how many bytes of `extent`, from its start, go
  // into this transaction: less than all if it would take too many operations
  // (the rest belongs into the next); 0: none fits any more.
  io::Task<absl::StatusOr<uint64_t>> Write(Txn* txn, format::Extent extent);
  // Cuts away what lies beyond `size`, up to kExtentsFreedPerTxn records.
  // True: there is more. Nothing else may be in this update.
  io::Task<absl::StatusOr<bool>> Trim(Txn* txn, uint64_t size);

  // Puts everything into the transaction; call once.
  // kDataLoss: references do not match the extents.
  io::Task<absl::Status> Finish(Txn* txn);

  // Records that Finish() will write.
  std::vector<format::Extent> FreshExtents() const;

  // By how much the sum of the extents' lengths changes.
  int64_t allocated_delta() const { return allocated_delta_; }
  bool changes() const { return !before_.empty() || !after_.empty(); }

 private:
  uint64_t OpsNeeded() const;
  std::map<format::BlobId, int64_t> ReferenceDeltas() const;

  Core* const core_;
  const format::InodeId inode_;
  // Records that were loaded and those that will be, by file end.
  std::map<uint64_t, format::Extent> before_;
  std::map<uint64_t, format::Extent> after_;
  int64_t allocated_delta_ = 0;
};

}  // namespace cairn::server
