#include "tests/sim/cluster/cleanup.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "client/checkpoint/sets.h"
#include "client/names/operations.h"
#include "format/meta/keys.h"

namespace cairn::sim {

using format::KeyKind;
using io::Task;

Task<absl::Status> RemoveAllSets(client::Core* core) {
  auto sets = co_await client::FetchSets(core, "/", true, core->Deadline());
  if (!sets.ok()) co_return sets.status();
  for (const client::SetSummary& set : *sets) {
    const absl::Status removed =
        co_await client::RemoveSetAt(core, set.path, core->Deadline());
    // A failed attempt may go by itself meanwhile.
    if (!removed.ok() && !absl::IsNotFound(removed)) {
      co_return Annotate(removed, set.path);
    }
  }
  co_return absl::OkStatus();
}

Task<absl::StatusOr<std::vector<client::DirectoryEntry>>> ListAll(
    client::Core* core, uint64_t inode) {
  std::vector<client::DirectoryEntry> all;
  while (true) {
    std::string after = all.empty() ? std::string() : all.back().name;
    auto page = co_await client::ListPage(core, inode, std::move(after),
                                          core->Deadline());
    if (!page.ok()) co_return page.status();
    for (client::DirectoryEntry& entry : page->entries) {
      all.push_back(std::move(entry));
    }
    if (!page->more) co_return all;
  }
}

namespace {

// rm -r of what is in the directory; `path` ends with a slash.
Task<absl::Status> RemoveIn(client::Core* core, std::string path,
                            uint64_t inode) {
  const auto entries = co_await ListAll(core, inode);
  if (!entries.ok()) co_return entries.status();
  for (const client::DirectoryEntry& entry : *entries) {
    const std::string name = path + entry.name;
    if (entry.stat.type != client::EntryType::kDirectory) {
      CAIRN_CO_RETURN_IF_ERROR(
          co_await client::UnlinkPath(core, name, core->Deadline()));
      continue;
    }
    CAIRN_CO_RETURN_IF_ERROR(
        co_await RemoveIn(core, name + "/", entry.stat.inode));
    CAIRN_CO_RETURN_IF_ERROR(
        co_await client::RemoveDirectoryPath(core, name, core->Deadline()));
  }
  co_return absl::OkStatus();
}

std::string LeftoverRecords(const server::ModelKvDisk& disk,
                            const std::set<uint32_t>& excused) {
  std::string text;
  uint64_t count = 0;
  for (const auto& [key, value] : disk.pairs) {
    const absl::StatusOr<format::ParsedKey> parsed = format::ParseKey(key);
    if (!parsed.ok()) return "a key that does not parse";
    switch (parsed->kind) {
      case KeyKind::kMap:
      case KeyKind::kCounter:
      case KeyKind::kMember:
      case KeyKind::kQuarantine:
        continue;
      case KeyKind::kInode:
      case KeyKind::kDirectoryTime:
        if (parsed->numbers[0] == format::kRootInode.value) continue;
        break;
      case KeyKind::kChore:  // For when the target is back.
        if (excused.contains(static_cast<uint32_t>(parsed->numbers[0]))) {
          continue;
        }
        break;
      default:
        break;
    }
    if (++count > 8) continue;
    absl::StrAppend(&text, " ", std::string(1, static_cast<char>(parsed->kind)),
                    ":", parsed->numbers[0], "/", parsed->numbers[1]);
  }
  return count == 0 ? text : absl::StrCat(count, " records left:", text);
}

std::string LeftoverChunks(SimCluster* cluster,
                           const std::set<uint32_t>& excused) {
  std::string text;
  for (uint32_t t = 1; t <= cluster->options().targets; ++t) {
    if (excused.contains(t)) continue;
    server::ChunkStore* const store = cluster->store(t);
    if (store == nullptr) return absl::StrCat("target ", t, " is down");
    const server::StoreStats stats = store->stats();
    if (stats.chunks == 0 && stats.used_bytes == 0) continue;
    absl::StrAppend(&text, " target ", t, " has ", stats.chunks, " chunks, ",
                    stats.used_bytes, " bytes in use");
  }
  return text;
}

}  // namespace

Task<absl::Status> RemoveAllFiles(client::Core* core) {
  co_return co_await RemoveIn(core, "/", format::kRootInode.value);
}

Task<absl::Status> RemoveEverything(client::Core* core) {
  CAIRN_CO_RETURN_IF_ERROR(co_await RemoveAllSets(core));
  co_return co_await RemoveAllFiles(core);
}

io::TimeNs CleanupTime(const server::MetaOptions& meta) {
  return 2 * meta.lease_ns + 100 * meta.tick_ns + 60 * io::kSecond +
         (meta.trash_grace_ms + 2 * meta.orphan_grace_ms +
          3 * meta.garbage_retry_ms) *
             io::kMillisecond;
}

std::string Leftovers(SimCluster* cluster, const std::set<uint32_t>& excused) {
  return LeftoverRecords(*cluster->meta_disk(), excused) +
         LeftoverChunks(cluster, excused);
}

}  // namespace cairn::sim
