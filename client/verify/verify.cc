// Verify(): every checksum of everything below a path. Contract:
// api/checkpoint.h.
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/api/checkpoint.h"
#include "client/core/cluster_core.h"
#include "client/file/extents.h"
#include "client/verify/stripe_check.h"
#include "format/path/names.h"

namespace cairn::client {

using io::Task;
using StripeName = std::pair<uint64_t, uint32_t>;  // Blob, stripe.

namespace {

// One file's check, on the loop.
struct FileCheck {
  Core* core;
  std::string path;
  VerifyReport* report;
  bool lost = false;
};

std::set<StripeName> StripesOf(const Core& core,
                               const format::ExtentMap& extents) {
  std::set<StripeName> stripes;
  const auto map = core.map();
  for (const format::Extent& extent : extents.All()) {
    const format::Pool* pool = map->FindPool(extent.blob.pool());
    const uint64_t size =
        pool == nullptr ? extent.length : pool->stripe_bytes();
    const uint64_t last = (extent.blob_offset + extent.length - 1) / size;
    for (uint64_t s = extent.blob_offset / size; s <= last; ++s) {
      stripes.emplace(extent.blob.value, static_cast<uint32_t>(s));
    }
  }
  return stripes;
}

Task<void> CheckOne(FileCheck* check, StripeName name) {
  const StripeReport stripe =
      co_await CheckStripe(check->core, format::BlobId(name.first), name.second,
                           check->core->Deadline());
  VerifyReport* const report = check->report;
  report->chunks += stripe.chunks;
  report->bytes += stripe.bytes;
  report->bad_chunks += stripe.problems.size();
  for (const std::string& problem : stripe.problems) {
    report->problems.push_back(
        absl::StrCat(format::EscapeForDisplay(check->path), ": ", problem));
  }
  check->lost = check->lost || stripe.lost;
}

Task<absl::Status> CheckFile(FileCheck check, uint64_t inode) {
  absl::StatusOr<format::ExtentMap> extents =
      co_await FetchExtents(check.core, inode, check.core->Deadline());
  if (!extents.ok()) co_return Annotate(extents.status(), check.path);
  io::Gate gate(check.core->env());
  for (const StripeName& stripe : StripesOf(*check.core, *extents)) {
    gate.Spawn(CheckOne(&check, stripe));
    if (gate.in_flight() >= kStripesVerifiedAtOnce) co_await gate.Close();
  }
  co_await gate.Close();
  ++check.report->files;
  if (check.lost) {
    check.report->lost.push_back(format::EscapeForDisplay(check.path));
  }
  co_return absl::OkStatus();
}

struct Walker {
  Cluster* cluster;
  const std::function<void(uint64_t)>* progress;
  VerifyReport report;
};

absl::Status Visit(Walker* walker, const std::string& path, const Stat& stat) {
  if (stat.type == EntryType::kFile) {
    CAIRN_RETURN_IF_ERROR(
        walker->cluster->core()->Run<absl::Status>([&](Core* core) {
          return CheckFile(FileCheck{core, path, &walker->report}, stat.inode);
        }));
    if (*walker->progress) (*walker->progress)(walker->report.bytes);
    return absl::OkStatus();
  }
  if (stat.type != EntryType::kDirectory) return absl::OkStatus();
  std::vector<DirectoryEntry> entries;
  CAIRN_RETURN_IF_ERROR(
      walker->cluster->List(path, [&](const DirectoryEntry& entry) {
        entries.push_back(entry);
        return true;
      }));
  for (const DirectoryEntry& entry : entries) {
    const std::string below =
        absl::StrCat(path == "/" ? std::string() : path, "/", entry.name);
    CAIRN_RETURN_IF_ERROR(Visit(walker, below, entry.stat));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<VerifyReport> Verify(
    Cluster* cluster, const std::string& path,
    const std::function<void(uint64_t bytes_done)>& progress) {
  CAIRN_ASSIGN_OR_RETURN(const Stat stat, cluster->GetStat(path));
  Walker walker{cluster, &progress, {}};
  CAIRN_RETURN_IF_ERROR(Visit(&walker, path, stat));
  absl::StatusOr<std::vector<SetSummary>> sets = ListSets(cluster, path, false);
  if (sets.ok()) walker.report.sets = sets->size();
  return std::move(walker.report);
}

}  // namespace cairn::client
