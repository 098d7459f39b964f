// Deleting everything in a simulated cluster, and what must be gone then: the
// end of a test that must not leak.
//
//   EXPECT_OK(cluster.Await(RemoveEverything(client->core())));
//   co_await client->Close();   // Nobody may hold what was removed open.
//   while (!Leftovers(&cluster, {}).empty() && there_is_time) ...
#pragma once

#include <set>
#include <string>
#include <vector>

#include "client/core/core.h"
#include "io/task.h"
#include "server/meta/options.h"
#include "tests/sim/cluster/sim_cluster.h"

namespace cairn::sim {

// All entries of a directory. Errors as ListPage().
io::Task<absl::StatusOr<std::vector<client::DirectoryEntry>>> ListAll(
    client::Core* core, uint64_t inode);

// Every set, published or not. Errors as RemoveSetAt(); one that went by
// itself meanwhile is none.
io::Task<absl::Status> RemoveAllSets(client::Core* core);

// Every file and directory. Errors as UnlinkPath() and RemoveDirectoryPath().
io::Task<absl::Status> RemoveAllFiles(client::Core* core);

// Both.
io::Task<absl::Status> RemoveEverything(client::Core* core);

// How long after that, at most, something may be left: all grace times one
// after the other, and room for retries.
io::TimeNs CleanupTime(const server::MetaOptions& meta);

// Metadata records that are still there, and chunks and bytes in use on
// targets, but for those on (or about) the `excused` targets; empty: nothing.
std::string Leftovers(SimCluster* cluster, const std::set<uint32_t>& excused);

}  // namespace cairn::sim
