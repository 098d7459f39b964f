#include "client/api/cluster.h"

#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "client/api/checkpoint.h"
#include "client/api/file.h"
#include "client/core/cluster_core.h"
#include "client/core/status_report.h"
#include "client/file/open.h"
#include "client/names/operations.h"
#include "format/path/names.h"

namespace cairn::client {

using format::InodeType;
using io::Task;

absl::StatusOr<std::string> Cluster::ResolveAddress(std::string address) {
  if (!address.empty()) return address;
  const char* const from_environment = std::getenv("CAIRN_CLUSTER");
  if (from_environment != nullptr && *from_environment != '\0') {
    return std::string(from_environment);
  }
  return absl::InvalidArgumentError(
      "no cluster given: set CAIRN_CLUSTER=HOST:PORT or pass --cluster");
}

absl::StatusOr<std::unique_ptr<Cluster>> Cluster::Connect(Options options) {
  CAIRN_ASSIGN_OR_RETURN(options.address,
                         ResolveAddress(std::move(options.address)));
  CAIRN_ASSIGN_OR_RETURN(std::unique_ptr<ClusterCore> core,
                         ClusterCore::Connect(std::move(options)));
  return std::unique_ptr<Cluster>(new Cluster(std::move(core)));
}

Cluster::Cluster(std::unique_ptr<ClusterCore> core) : core_(std::move(core)) {}
Cluster::~Cluster() = default;

absl::StatusOr<Stat> Cluster::GetStat(const std::string& path) {
  auto found = core_->Run<absl::StatusOr<wire::Attributes>>([&](Core* core) {
    return Resolve(core, path, FollowLast::kNo, core->Deadline());
  });
  if (!found.ok()) return found.status();
  return ToStat(*found);
}

absl::StatusOr<std::optional<Stat>> Cluster::Find(const std::string& path) {
  absl::StatusOr<Stat> stat = GetStat(path);
  if (absl::IsNotFound(stat.status())) return std::nullopt;
  if (!stat.ok()) return stat.status();
  return std::optional<Stat>(*std::move(stat));
}

absl::Status Cluster::List(
    const std::string& path,
    const std::function<bool(const DirectoryEntry&)>& visit) {
  auto directory =
      core_->Run<absl::StatusOr<wire::Attributes>>([&](Core* core) {
        return Resolve(core, path, FollowLast::kYes, core->Deadline());
      });
  if (!directory.ok()) return directory.status();
  if (directory->type() != static_cast<uint32_t>(InodeType::kDirectory)) {
    return absl::FailedPreconditionError(
        absl::StrCat(format::EscapeForDisplay(path), ": not a directory"));
  }
  const uint64_t inode = directory->inode();
  std::string after;
  while (true) {
    auto page = core_->Run<absl::StatusOr<Page>>([&](Core* core) {
      return ListPage(core, inode, after, core->Deadline());
    });
    if (!page.ok()) return page.status();
    for (const DirectoryEntry& entry : page->entries) {
      if (!visit(entry)) return absl::OkStatus();
    }
    if (!page->more || page->entries.empty()) return absl::OkStatus();
    after = page->entries.back().name;
  }
}

namespace {
Task<absl::Status> Discard(Task<absl::StatusOr<Created>> task) {
  absl::StatusOr<Created> created = co_await std::move(task);
  co_return created.status();
}
}  // namespace

absl::Status Cluster::MakeDirectory(const std::string& path, bool parents,
                                    uint32_t mode) {
  return core_->Run<absl::Status>([&](Core* core) {
    if (parents) return MakeDirectories(core, path, mode, core->Deadline());
    CreateSpec spec{InodeType::kDirectory, mode, "", false};
    return Discard(CreatePath(core, path, std::move(spec), core->Deadline()));
  });
}

absl::Status Cluster::Rename(const std::string& from, const std::string& to,
                             bool no_replace) {
  return core_->Run<absl::Status>([&](Core* core) {
    return RenamePath(core, from, to, no_replace, core->Deadline());
  });
}

absl::Status Cluster::Unlink(const std::string& path) {
  return core_->Run<absl::Status>(
      [&](Core* core) { return UnlinkPath(core, path, core->Deadline()); });
}

absl::Status Cluster::RemoveDirectory(const std::string& path) {
  return core_->Run<absl::Status>([&](Core* core) {
    return RemoveDirectoryPath(core, path, core->Deadline());
  });
}

absl::Status Cluster::RemoveAll(
    const std::string& path,
    const std::function<void(const std::string&)>& removed) {
  CAIRN_ASSIGN_OR_RETURN(const Stat stat, GetStat(path));
  if (stat.type != EntryType::kDirectory) {
    CAIRN_RETURN_IF_ERROR(Unlink(path));
    if (removed) removed(path);
    return absl::OkStatus();
  }
  // A set goes in one transaction; nobody ever sees half of it.
  absl::Status as_set = RemoveSet(this, path);
  if (as_set.ok()) {
    if (removed) removed(path);
    return as_set;
  }
  if (!absl::IsNotFound(as_set) && !absl::IsFailedPrecondition(as_set)) {
    return as_set;
  }
  std::vector<std::string> names;
  CAIRN_RETURN_IF_ERROR(List(path, [&](const DirectoryEntry& entry) {
    names.push_back(entry.name);
    return true;
  }));
  const std::string prefix = path == "/" ? path : path + "/";
  for (const std::string& name : names) {
    CAIRN_RETURN_IF_ERROR(RemoveAll(prefix + name, removed));
  }
  if (path == "/") return absl::OkStatus();
  CAIRN_RETURN_IF_ERROR(RemoveDirectory(path));
  if (removed) removed(path);
  return absl::OkStatus();
}

absl::Status Cluster::Symlink(const std::string& target,
                              const std::string& path) {
  return core_->Run<absl::Status>([&](Core* core) {
    CreateSpec spec{InodeType::kSymlink, 0777, target, false};
    return Discard(CreatePath(core, path, std::move(spec), core->Deadline()));
  });
}

absl::Status Cluster::Link(const std::string& from, const std::string& to) {
  return core_->Run<absl::Status>(
      [&](Core* core) { return LinkPath(core, from, to, core->Deadline()); });
}

absl::Status Cluster::SetMode(const std::string& path, uint32_t mode) {
  wire::SetAttrRequest request;
  request.set_mode(mode);
  return core_->Run<absl::Status>([&](Core* core) {
    return SetAttributes(core, path, request, core->Deadline());
  });
}

absl::Status Cluster::SetTimes(const std::string& path, uint64_t mtime_ns) {
  wire::SetAttrRequest request;
  request.set_mtime_ns(mtime_ns);
  return core_->Run<absl::Status>([&](Core* core) {
    return SetAttributes(core, path, request, core->Deadline());
  });
}

absl::StatusOr<std::unique_ptr<File>> Cluster::Open(const std::string& path,
                                                    OpenOptions options) {
  return OpenPath(core_.get(), path, options);
}

absl::StatusOr<ClusterStatus> Cluster::GetStatus() {
  return core_->Run<absl::StatusOr<ClusterStatus>>(
      [](Core* core) { return ReportStatus(core, core->Deadline()); });
}

namespace {
Task<RepairReport> CopyRepairs(Core* core) { co_return *core->repairs(); }
Task<IoCounters> CopyCounters(Core* core) { co_return *core->counters(); }
}  // namespace

RepairReport Cluster::repairs() const {
  return core_->Run<RepairReport>(CopyRepairs);
}

IoCounters Cluster::counters() const {
  return core_->Run<IoCounters>(CopyCounters);
}

}  // namespace cairn::client
