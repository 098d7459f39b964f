// Listing and removing checkpoint sets. Contracts: api/checkpoint.h.
#include "client/api/checkpoint.h"
#include "client/checkpoint/set_reader.h"
#include "client/core/cluster_core.h"
#include "format/path/names.h"
#include "format/wire/checkpoint.pb.h"

namespace cairn::client {

using format::Method;
using io::Task;

namespace {

Task<absl::StatusOr<std::vector<SetSummary>>> FetchSets(Core* core,
                                                        std::string path,
                                                        bool unpublished) {
  const io::TimeNs deadline = core->Deadline();
  std::vector<SetSummary> sets;
  std::string after;
  while (true) {
    wire::ListSetsRequest request;
    request.set_path(path);
    request.set_unpublished(unpublished);
    request.set_after(after);
    request.set_limit(kEntriesPerPage);
    auto page = co_await core->Query<wire::ListSetsResponse>(Method::kListSets,
                                                             request, deadline);
    if (!page.ok()) co_return page.status();
    for (const wire::SetInfo& info : page->sets()) {
      sets.push_back(ToSummary(info));
    }
    if (page->next().empty()) co_return sets;
    after = page->next();
  }
}

Task<absl::Status> RemoveSetOnLoop(Core* core, std::string path) {
  wire::RemoveSetRequest request;
  request.set_path(path);
  auto response = co_await core->Mutate<wire::RemoveSetResponse>(
      Method::kRemoveSet, std::move(request), core->Deadline());
  co_return response.status();
}

}  // namespace

absl::StatusOr<std::vector<SetSummary>> ListSets(Cluster* cluster,
                                                 const std::string& path,
                                                 bool unpublished) {
  auto sets = cluster->core()->Run<absl::StatusOr<std::vector<SetSummary>>>(
      [&](Core* core) { return FetchSets(core, path, unpublished); });
  if (!sets.ok()) {
    return Annotate(sets.status(), format::EscapeForDisplay(path));
  }
  return sets;
}

absl::Status RemoveSet(Cluster* cluster, const std::string& path) {
  return Annotate(cluster->core()->Run<absl::Status>(
                      [&](Core* core) { return RemoveSetOnLoop(core, path); }),
                  format::EscapeForDisplay(path));
}

}  // namespace cairn::client
