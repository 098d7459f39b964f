#include "tests/sim/cluster/shard_check.h"

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/file/extents.h"
#include "client/verify/stripe_check.h"
#include "tests/sim/cluster/cleanup.h"

namespace cairn::sim {

using io::Task;

namespace {

using StripeName = std::pair<format::BlobId, uint32_t>;

Task<absl::StatusOr<std::set<StripeName>>> StripesOf(client::Core* core,
                                                     uint64_t inode) {
  CAIRN_CO_ASSIGN_OR_RETURN(
      const format::ExtentMap extents,
      co_await client::FetchExtents(core, inode, core->Deadline()));
  std::set<StripeName> stripes;
  for (const format::Extent& extent : extents.All()) {
    const format::Pool* const pool = core->map()->FindPool(extent.blob.pool());
    CAIRN_CHECK(pool != nullptr);
    const uint64_t size = pool->stripe_bytes();
    const uint64_t last = (extent.blob_offset + extent.length - 1) / size;
    for (uint64_t s = extent.blob_offset / size; s <= last; ++s) {
      stripes.emplace(extent.blob, static_cast<uint32_t>(s));
    }
  }
  co_return stripes;
}

Task<absl::Status> CheckShardsOf(client::Core* core, std::string path,
                                 uint64_t inode) {
  const auto stripes = co_await StripesOf(core, inode);
  if (!stripes.ok()) co_return Annotate(stripes.status(), path);
  for (const auto& [blob, stripe] : *stripes) {
    const client::StripeReport report =
        co_await client::CheckStripe(core, blob, stripe, core->Deadline());
    if (report.problems.empty()) continue;
    co_return absl::DataLossError(
        absl::StrCat(path, ": ", report.problems.front()));
  }
  co_return absl::OkStatus();
}

// `path` ends with a slash.
Task<absl::Status> CheckShardsIn(client::Core* core, std::string path,
                                 uint64_t inode) {
  const auto entries = co_await ListAll(core, inode);
  if (!entries.ok()) co_return Annotate(entries.status(), path);
  for (const client::DirectoryEntry& entry : *entries) {
    const std::string name = path + entry.name;
    const uint64_t below = entry.stat.inode;
    absl::Status status;
    if (entry.stat.type == client::EntryType::kDirectory) {
      status = co_await CheckShardsIn(core, name + "/", below);
    } else {
      status = co_await CheckShardsOf(core, name, below);
    }
    CAIRN_CO_RETURN_IF_ERROR(status);
  }
  co_return absl::OkStatus();
}

}  // namespace

Task<absl::Status> CheckEveryShard(client::Core* core) {
  co_return co_await CheckShardsIn(core, "/", format::kRootInode.value);
}

}  // namespace cairn::sim
