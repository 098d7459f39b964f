// Which chunks of a file or set are missing or bad, read one by one.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/core/core.h"
#include "client/file/extents.h"
#include "client/names/resolve.h"
#include "client/verify/stripe_check.h"

namespace cairn::client {

// The problems of every chunk of every stripe of the file.
inline io::Task<std::vector<std::string>> ProblemsOfFile(Core* core,
                                                         uint64_t inode) {
  std::vector<std::string> problems;
  const io::TimeNs deadline = core->Deadline();
  const absl::StatusOr<format::ExtentMap> extents =
      co_await FetchExtents(core, inode, deadline, nullptr);
  if (!extents.ok()) {
    problems.push_back(extents.status().ToString());
    co_return problems;
  }
  const format::Pool pool = core->map()->pools.begin()->second;
  for (const format::Extent& extent : extents->All()) {
    const uint64_t end = extent.blob_offset + extent.length - 1;
    for (uint64_t stripe = extent.blob_offset / pool.stripe_bytes();
         stripe <= end / pool.stripe_bytes(); ++stripe) {
      const StripeReport report = co_await CheckStripe(
          core, extent.blob, static_cast<uint32_t>(stripe), deadline);
      problems.insert(problems.end(), report.problems.begin(),
                      report.problems.end());
    }
  }
  co_return problems;
}

inline io::Task<std::vector<std::string>> ProblemsOf(Core* core,
                                                     std::string path) {
  const absl::StatusOr<wire::Attributes> found =
      co_await Resolve(core, path, FollowLast::kNo, core->Deadline());
  if (!found.ok()) {
    std::vector<std::string> problems(1, found.status().ToString());
    co_return problems;
  }
  co_return co_await ProblemsOfFile(core, found->inode());
}

// Of all ranks' files of a published set.
inline io::Task<std::vector<std::string>> ProblemsOfSet(Core* core,
                                                        std::string set,
                                                        uint32_t ranks) {
  std::vector<std::string> all;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    const std::vector<std::string> problems = co_await ProblemsOf(
        core, absl::StrCat(set, "/rank-0000", rank, ".safetensors"));
    all.insert(all.end(), problems.begin(), problems.end());
  }
  co_return all;
}

}  // namespace cairn::client
