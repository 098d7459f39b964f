// RepairGuard: what keeps a repair from bringing back what is deleted
// meanwhile.
//
// A repair makes chunks again because files need them. When the last of those
// files is gone, metadata orders every target to delete the blob; once a target
// has said that it did, it must never have a chunk of it again. So a delete
// order is noted here first: chunks of its blobs are not stored from then on,
// and while one is being stored the order is not carried out.
//
// Threads: one loop.
#pragma once

#include <set>
#include <vector>

#include "format/base/ids.h"

namespace cairn::server {

class RepairGuard {
 public:
  // Before a chunk of the blob is stored. False: it was deleted meanwhile.
  bool BeginPut(format::BlobId blob) {
    if (deleted_.contains(blob)) return false;
    putting_.insert(blob);
    return true;
  }
  void EndPut(format::BlobId blob) { putting_.erase(putting_.find(blob)); }

  // False: a chunk of one of them is being stored now; order again later.
  bool NoteDeleted(const std::vector<format::BlobId>& blobs) {
    bool free = true;
    for (const format::BlobId blob : blobs) {
      deleted_.insert(blob);
      free = free && !putting_.contains(blob);
    }
    return free;
  }

 private:
  std::set<format::BlobId> deleted_;
  std::multiset<format::BlobId> putting_;
};

}  // namespace cairn::server
