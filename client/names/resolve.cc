#include "client/names/resolve.h"

#include <deque>

#include "absl/strings/str_cat.h"
#include "format/base/inode_type.h"
#include "format/path/names.h"

namespace cairn::client {

using format::InodeType;
using format::Method;
using io::Task;
using io::TimeNs;
using wire::Attributes;

namespace {

InodeType TypeOf(const Attributes& attributes) {
  return static_cast<InodeType>(attributes.type());
}

Task<absl::StatusOr<Attributes>> GetAttributes(Core* core, uint64_t inode,
                                               TimeNs deadline) {
  wire::GetAttrRequest request;
  request.set_inode(inode);
  auto response = co_await core->Query<wire::GetAttrResponse>(
      Method::kGetAttr, request, deadline);
  if (!response.ok()) co_return response.status();
  co_return response->attributes();
}

Task<absl::StatusOr<Attributes>> LookupName(Core* core, uint64_t parent,
                                            std::string name, TimeNs deadline) {
  wire::LookupRequest request;
  request.set_parent(parent);
  request.set_name(name);
  auto response = co_await core->Query<wire::LookupResponse>(Method::kLookup,
                                                             request, deadline);
  if (!response.ok()) co_return response.status();
  co_return response->attributes();
}

// A walk in progress: components still to go, and the directories passed.
struct Walk {
  std::deque<std::string> todo;
  std::vector<uint64_t> directories{format::kRootInode.value};
  int symlinks = 0;
};

// Puts a symlink's target in front of what is left. Its ".." and "." are
// resolved here: names on the wire never are.
absl::Status EnterSymlink(const std::string& target, Walk* walk) {
  if (++walk->symlinks > kSymlinksMax) {
    return absl::InvalidArgumentError("too many levels of symbolic links");
  }
  if (!target.empty() && target[0] == '/') walk->directories.resize(1);
  std::vector<std::string> parts;
  for (size_t at = 0; at <= target.size();) {
    const size_t slash = std::min(target.find('/', at), target.size());
    if (slash > at) parts.push_back(target.substr(at, slash - at));
    at = slash + 1;
  }
  walk->todo.insert(walk->todo.begin(), parts.begin(), parts.end());
  return absl::OkStatus();
}

Task<absl::StatusOr<Attributes>> WalkDown(Core* core, Walk* walk,
                                          FollowLast follow, TimeNs deadline) {
  Attributes at;
  at.set_inode(walk->directories.back());
  bool known = false;  // Whether `at` has more than an inode number.
  while (!walk->todo.empty()) {
    const std::string name = walk->todo.front();
    walk->todo.pop_front();
    if (name == "." || name == "..") {
      if (name == ".." && walk->directories.size() > 1) {
        walk->directories.pop_back();
      }
      at.set_inode(walk->directories.back());
      known = false;
      continue;
    }
    absl::StatusOr<Attributes> next =
        co_await LookupName(core, walk->directories.back(), name, deadline);
    if (!next.ok()) {
      co_return Annotate(next.status(), format::EscapeForDisplay(name));
    }
    const bool last = walk->todo.empty();
    if (TypeOf(*next) == InodeType::kSymlink &&
        (!last || follow == FollowLast::kYes)) {
      CAIRN_CO_RETURN_IF_ERROR(EnterSymlink(next->symlink(), walk));
      at.set_inode(walk->directories.back());
      known = false;
      continue;
    }
    at = *std::move(next);
    known = true;
    if (TypeOf(at) == InodeType::kDirectory) {
      walk->directories.push_back(at.inode());
    } else if (!last) {
      co_return absl::FailedPreconditionError(
          absl::StrCat(format::EscapeForDisplay(name), ": not a directory"));
    }
  }
  if (known) co_return at;
  co_return co_await GetAttributes(core, at.inode(), deadline);
}

}  // namespace

Task<absl::StatusOr<Attributes>> Resolve(Core* core, std::string path,
                                         FollowLast follow, TimeNs deadline) {
  absl::StatusOr<std::vector<std::string>> parts = format::SplitPath(path);
  if (!parts.ok()) co_return parts.status();
  Walk walk;
  walk.todo.assign(parts->begin(), parts->end());
  absl::StatusOr<Attributes> found =
      co_await WalkDown(core, &walk, follow, deadline);
  if (!found.ok()) {
    co_return Annotate(found.status(), format::EscapeForDisplay(path));
  }
  co_return found;
}

Task<absl::StatusOr<std::optional<Attributes>>> FindPath(Core* core,
                                                         std::string path,
                                                         FollowLast follow,
                                                         TimeNs deadline) {
  absl::StatusOr<Attributes> found =
      co_await Resolve(core, std::move(path), follow, deadline);
  if (absl::IsNotFound(found.status())) co_return std::nullopt;
  if (!found.ok()) co_return found.status();
  co_return std::optional<Attributes>(*std::move(found));
}

Task<absl::StatusOr<ParentAndName>> ResolveParent(Core* core, std::string path,
                                                  TimeNs deadline) {
  absl::StatusOr<std::vector<std::string>> parts = format::SplitPath(path);
  if (!parts.ok()) co_return parts.status();
  if (parts->empty()) {
    co_return absl::InvalidArgumentError("/: the root cannot be used here");
  }
  ParentAndName result;
  result.name = std::move(parts->back());
  parts->pop_back();
  Walk walk;
  walk.todo.assign(parts->begin(), parts->end());
  absl::StatusOr<Attributes> parent =
      co_await WalkDown(core, &walk, FollowLast::kYes, deadline);
  if (!parent.ok()) {
    co_return Annotate(parent.status(), format::EscapeForDisplay(path));
  }
  if (TypeOf(*parent) != InodeType::kDirectory) {
    co_return absl::FailedPreconditionError(absl::StrCat(
        format::EscapeForDisplay(path), ": the parent is not a directory"));
  }
  result.parent = parent->inode();
  co_return result;
}

Stat ToStat(const Attributes& attributes) {
  Stat stat;
  stat.inode = attributes.inode();
  switch (TypeOf(attributes)) {
    case InodeType::kDirectory:
      stat.type = EntryType::kDirectory;
      break;
    case InodeType::kSymlink:
      stat.type = EntryType::kSymlink;
      break;
    case InodeType::kFile:
      stat.type = EntryType::kFile;
      break;
  }
  stat.mode = attributes.mode();
  stat.uid = attributes.uid();
  stat.gid = attributes.gid();
  stat.nlink = attributes.nlink();
  stat.size_bytes = attributes.size();
  stat.mtime_ns = attributes.mtime_ns();
  stat.ctime_ns = attributes.ctime_ns();
  stat.symlink = attributes.symlink();
  return stat;
}

}  // namespace cairn::client
