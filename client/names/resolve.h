// From paths to inodes: walks components, follows symlinks.
#pragma once

#include <optional>
#include <string>

#include "client/core/core.h"
#include "format/base/ids.h"
#include "format/wire/meta.pb.h"
#include "io/task.h"

namespace cairn::client {

enum class FollowLast { kNo, kYes };

// kNotFound and kFailedPrecondition ("not a directory") name the component.
// kInvalidArgument: the path, or more than kSymlinksMax symlinks.
io::Task<absl::StatusOr<wire::Attributes>> Resolve(Core* core, std::string path,
                                                   FollowLast follow,
                                                   io::TimeNs deadline);

// As Resolve, but absence (of the last component or any before) is nullopt.
io::Task<absl::StatusOr<std::optional<wire::Attributes>>> FindPath(
    Core* core, std::string path, FollowLast follow, io::TimeNs deadline);

struct ParentAndName {
  uint64_t parent = 0;
  std::string name;
};
// Everything before the last component, which may be absent.
// kInvalidArgument: the path is "/".
io::Task<absl::StatusOr<ParentAndName>> ResolveParent(Core* core,
                                                      std::string path,
                                                      io::TimeNs deadline);

Stat ToStat(const wire::Attributes& attributes);

}  // namespace cairn::client
