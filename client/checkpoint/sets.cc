#include "client/checkpoint/sets.h"

#include "client/checkpoint/set_reader.h"
#include "client/core/cluster_core.h"
#include "format/path/names.h"
#include "format/wire/checkpoint.pb.h"

namespace cairn::client {

using format::Method;
using io::Task;

Task<absl::StatusOr<std::vector<SetSummary>>> FetchSets(Core* core,
                                                        std::string path,
                                                        bool unpublished,
                                                        io::TimeNs deadline) {
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

Task<absl::Status> RemoveSetAt(Core* core, std::string path,
                               io::TimeNs deadline) {
  wire::RemoveSetRequest request;
  request.set_path(path);
  auto response = co_await core->Mutate<wire::RemoveSetResponse>(
      Method::kRemoveSet, std::move(request), deadline);
  co_return response.status();
}

absl::StatusOr<std::vector<SetSummary>> ListSets(Cluster* cluster,
                                                 const std::string& path,
                                                 bool unpublished) {
  auto sets = cluster->core()->Run<absl::StatusOr<std::vector<SetSummary>>>(
      [&](Core* core) {
        return FetchSets(core, path, unpublished, core->Deadline());
      });
  if (!sets.ok()) {
    return Annotate(sets.status(), format::EscapeForDisplay(path));
  }
  return sets;
}

absl::Status RemoveSet(Cluster* cluster, const std::string& path) {
  return Annotate(cluster->core()->Run<absl::Status>([&](Core* core) {
    return RemoveSetAt(core, path, core->Deadline());
  }),
                  format::EscapeForDisplay(path));
}

}  // namespace cairn::client
