// Operations on names, as tasks on the loop. Contracts: client/api/cluster.h.
#pragma once

#include <string>
#include <vector>

#include "client/core/core.h"
#include "client/names/resolve.h"
#include "format/base/inode_type.h"
#include "io/task.h"

namespace cairn::client {

struct CreateSpec {
  format::InodeType type;
  uint32_t mode = 0;
  std::string symlink;
  bool open_existing = false;
};

struct Created {
  wire::Attributes attributes;
  bool existed = false;
};

io::Task<absl::StatusOr<Created>> CreatePath(Core* core, std::string path,
                                             CreateSpec spec,
                                             io::TimeNs deadline);
// mkdir -p.
io::Task<absl::Status> MakeDirectories(Core* core, std::string path,
                                       uint32_t mode, io::TimeNs deadline);

struct Page {
  std::vector<DirectoryEntry> entries;
  bool more = false;
};
io::Task<absl::StatusOr<Page>> ListPage(Core* core, uint64_t inode,
                                        std::string after, io::TimeNs deadline);

io::Task<absl::Status> RenamePath(Core* core, std::string from, std::string to,
                                  bool no_replace, io::TimeNs deadline);
io::Task<absl::Status> UnlinkPath(Core* core, std::string path,
                                  io::TimeNs deadline);
io::Task<absl::Status> RemoveDirectoryPath(Core* core, std::string path,
                                           io::TimeNs deadline);
io::Task<absl::Status> LinkPath(Core* core, std::string from, std::string to,
                                io::TimeNs deadline);
// Applies the fields that `request` has, to the inode at `path`.
io::Task<absl::Status> SetAttributes(Core* core, std::string path,
                                     wire::SetAttrRequest request,
                                     io::TimeNs deadline);

}  // namespace cairn::client
