#include "client/names/operations.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "format/path/names.h"

namespace cairn::client {

using format::InodeType;
using format::Method;
using io::Task;
using io::TimeNs;

namespace {
absl::Status At(const std::string& path, const absl::Status& status) {
  return Annotate(status, format::EscapeForDisplay(path));
}

template <typename Request, typename Response>
Task<absl::Status> RemoveName(Core* core, Method method, std::string path,
                              TimeNs deadline) {
  absl::StatusOr<ParentAndName> where =
      co_await ResolveParent(core, path, deadline);
  if (!where.ok()) co_return where.status();
  Request request;
  request.set_parent(where->parent);
  request.set_name(where->name);
  auto response =
      co_await core->Mutate<Response>(method, std::move(request), deadline);
  co_return At(path, response.status());
}
}  // namespace

Task<absl::StatusOr<Created>> CreatePath(Core* core, std::string path,
                                         CreateSpec spec, TimeNs deadline) {
  absl::StatusOr<ParentAndName> where =
      co_await ResolveParent(core, path, deadline);
  if (!where.ok()) co_return where.status();
  wire::CreateRequest request;
  request.set_parent(where->parent);
  request.set_name(where->name);
  request.set_type(static_cast<uint32_t>(spec.type));
  request.set_mode(spec.mode);
  request.set_uid(core->options().uid.value_or(0));
  request.set_gid(core->options().gid.value_or(0));
  request.set_symlink(spec.symlink);
  request.set_open_existing(spec.open_existing);
  auto response = co_await core->Mutate<wire::CreateResponse>(
      Method::kCreate, std::move(request), deadline);
  if (!response.ok()) co_return At(path, response.status());
  Created created;
  created.attributes = response->attributes();
  created.existed = response->existed();
  co_return created;
}

Task<absl::Status> MakeDirectories(Core* core, std::string path, uint32_t mode,
                                   TimeNs deadline) {
  absl::StatusOr<std::vector<std::string>> parts = format::SplitPath(path);
  if (!parts.ok()) co_return parts.status();
  std::string prefix;
  for (const std::string& part : *parts) {
    absl::StrAppend(&prefix, "/", part);
    CreateSpec spec{InodeType::kDirectory, mode, "", false};
    absl::StatusOr<Created> created =
        co_await CreatePath(core, prefix, std::move(spec), deadline);
    if (created.ok()) continue;
    if (!absl::IsAlreadyExists(created.status())) co_return created.status();
    absl::StatusOr<wire::Attributes> there =
        co_await Resolve(core, prefix, FollowLast::kYes, deadline);
    if (!there.ok()) co_return there.status();
    if (there->type() != static_cast<uint32_t>(InodeType::kDirectory)) {
      co_return At(prefix,
                   absl::AlreadyExistsError("exists and is not a directory"));
    }
  }
  co_return absl::OkStatus();
}

Task<absl::StatusOr<Page>> ListPage(Core* core, uint64_t inode,
                                    std::string after, TimeNs deadline) {
  wire::ReadDirRequest request;
  request.set_inode(inode);
  request.set_after(after);
  request.set_limit(kEntriesPerPage);
  request.set_attributes(true);
  auto response = co_await core->Query<wire::ReadDirResponse>(
      Method::kReadDir, std::move(request), deadline);
  if (!response.ok()) co_return response.status();
  Page page;
  page.more = response->more();
  for (const wire::DirectoryEntry& entry : response->entries()) {
    // A server's names reach terminals and file systems: check them.
    absl::Status valid = format::ValidateName(entry.name());
    if (!valid.ok()) {
      co_return absl::DataLossError(absl::StrCat(
          "the server listed an impossible name: ", valid.message()));
    }
    page.entries.push_back({entry.name(), ToStat(entry.attributes())});
  }
  co_return page;
}

Task<absl::Status> RenamePath(Core* core, std::string from, std::string to,
                              bool no_replace, TimeNs deadline) {
  absl::StatusOr<ParentAndName> source =
      co_await ResolveParent(core, from, deadline);
  if (!source.ok()) co_return source.status();
  absl::StatusOr<ParentAndName> target =
      co_await ResolveParent(core, to, deadline);
  if (!target.ok()) co_return target.status();
  wire::RenameRequest request;
  request.set_from_parent(source->parent);
  request.set_from_name(source->name);
  request.set_to_parent(target->parent);
  request.set_to_name(target->name);
  request.set_no_replace(no_replace);
  auto response = co_await core->Mutate<wire::RenameResponse>(
      Method::kRename, std::move(request), deadline);
  co_return At(absl::StrCat(from, " -> ", to), response.status());
}

Task<absl::Status> UnlinkPath(Core* core, std::string path, TimeNs deadline) {
  return RemoveName<wire::UnlinkRequest, wire::UnlinkResponse>(
      core, Method::kUnlink, std::move(path), deadline);
}

Task<absl::Status> RemoveDirectoryPath(Core* core, std::string path,
                                       TimeNs deadline) {
  return RemoveName<wire::RmdirRequest, wire::RmdirResponse>(
      core, Method::kRmdir, std::move(path), deadline);
}

Task<absl::Status> LinkPath(Core* core, std::string from, std::string to,
                            TimeNs deadline) {
  absl::StatusOr<wire::Attributes> source =
      co_await Resolve(core, from, FollowLast::kNo, deadline);
  if (!source.ok()) co_return source.status();
  absl::StatusOr<ParentAndName> target =
      co_await ResolveParent(core, to, deadline);
  if (!target.ok()) co_return target.status();
  wire::LinkRequest request;
  request.set_inode(source->inode());
  request.set_parent(target->parent);
  request.set_name(target->name);
  auto response = co_await core->Mutate<wire::LinkResponse>(
      Method::kLink, std::move(request), deadline);
  co_return At(to, response.status());
}

Task<absl::Status> SetAttributes(Core* core, std::string path,
                                 wire::SetAttrRequest request,
                                 TimeNs deadline) {
  absl::StatusOr<wire::Attributes> found =
      co_await Resolve(core, path, FollowLast::kNo, deadline);
  if (!found.ok()) co_return found.status();
  request.set_inode(found->inode());
  auto response = co_await core->Mutate<wire::SetAttrResponse>(
      Method::kSetAttr, std::move(request), deadline);
  co_return At(path, response.status());
}

}  // namespace cairn::client
