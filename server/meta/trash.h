// The trash: takes apart what was unlinked, removed or fenced, once its grace
// time is over, in small transactions that may stop anywhere and go on later.
//
// Threads: one loop.
#pragma once

#include "absl/status/status.h"
#include "server/meta/extent_store.h"
#include "server/meta/inodes.h"

namespace cairn::server {

class Trash {
 public:
  explicit Trash(Core* core) : core_(core) {}

  // Works off what is due, every tick, until core->stopping.
  io::Task<void> Loop();
  // One pass over what is due now. True: there may be more.
  io::Task<absl::StatusOr<bool>> Pass();

 private:
  io::Task<absl::Status> Empty(std::string key, format::InodeId inode,
                               format::TrashKind kind);
  io::Task<absl::Status> EmptyFile(format::InodeId inode);
  io::Task<absl::Status> EmptySet(format::InodeId set);
  io::Task<absl::Status> EmptySetParts(format::InodeId set);
  // Files of ranks that claimed but did not commit have extents, no inode.
  io::Task<absl::Status> EmptyClaims(format::InodeId set);
  io::Task<absl::Status> EmptySetFiles(format::InodeId set);
  io::Task<absl::Status> ForgetSet(Txn* txn, format::InodeId set);
  io::Task<absl::Status> DropPage(Txn* txn, format::InodeId inode, bool* more);
  io::Task<absl::Status> DropExtents(format::InodeId inode);

  Core* const core_;
};

}  // namespace cairn::server
