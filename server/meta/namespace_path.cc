// From paths to inodes and back.
#include <deque>

#include "format/path/errors.h"
#include "format/path/names.h"
#include "server/meta/namespace.h"

namespace cairn::server {

using format::InodeId;
using format::InodeType;

namespace {

// Symbolic links may hold "." and "..", which paths of requests may not.
std::vector<std::string> SplitLinkTarget(const std::string& target) {
  std::vector<std::string> parts;
  size_t begin = 0;
  while (begin <= target.size()) {
    size_t end = target.find('/', begin);
    if (end == std::string::npos) end = target.size();
    std::string part = target.substr(begin, end - begin);
    if (!part.empty() && part != ".") parts.push_back(std::move(part));
    begin = end + 1;
  }
  return parts;
}

}  // namespace

io::Task<absl::StatusOr<InodeId>> Namespace::Resolve(Txn* txn,
                                                     std::string path) {
  CAIRN_CO_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                            format::SplitPath(path));
  std::deque<std::string> left(names.begin(), names.end());
  InodeId at = format::kRootInode;
  uint32_t followed = 0;
  while (!left.empty()) {
    const std::string name = std::move(left.front());
    left.pop_front();
    const absl::StatusOr<store::Inode> directory =
        co_await GetDirectory(txn, at);
    if (!directory.ok()) co_return directory.status();
    if (name == "..") {
      if (at != format::kRootInode) at = InodeId(directory->parent());
      continue;
    }
    const absl::StatusOr<std::optional<store::DirectoryEntry>> entry =
        co_await GetDirent(txn, at, name);
    if (!entry.ok()) co_return entry.status();
    if (!entry->has_value()) {
      co_return Annotate(NoSuchName(name), format::EscapeForDisplay(path));
    }
    const InodeId next((*entry)->inode());
    if ((*entry)->type() != static_cast<uint32_t>(InodeType::kSymlink)) {
      at = next;
      continue;
    }
    if (++followed > kSymlinksFollowedMax) {
      co_return absl::InvalidArgumentError("too many symbolic links");
    }
    const absl::StatusOr<store::Inode> link = co_await GetInode(txn, next);
    if (absl::IsNotFound(link.status())) co_return Conflict();
    if (!link.ok()) co_return link.status();
    const std::vector<std::string> parts = SplitLinkTarget(link->symlink());
    left.insert(left.begin(), parts.begin(), parts.end());
    if (link->symlink().front() == '/') at = format::kRootInode;
  }
  co_return at;
}

io::Task<absl::StatusOr<std::string>> Namespace::PathOf(Txn* txn,
                                                        InodeId directory) {
  std::string path;
  for (uint32_t depth = 0; directory != format::kRootInode; ++depth) {
    if (depth > 2 * kDirectoryDepthMax) {
      co_return absl::DataLossError("directories form a loop");
    }
    const absl::StatusOr<std::optional<store::Inode>> record =
        co_await txn->Peek<store::Inode>(format::InodeKey(directory));
    if (!record.ok()) co_return record.status();
    if (!record->has_value()) co_return NoSuchInode(directory);
    path = absl::StrCat("/", (*record)->name(), path);
    directory = InodeId((*record)->parent());
  }
  co_return path.empty() ? std::string("/") : path;
}

}  // namespace cairn::server
