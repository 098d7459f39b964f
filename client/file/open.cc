#include "client/file/open.h"

#include "absl/strings/str_cat.h"
#include "client/file/file_core.h"
#include "client/names/operations.h"
#include "format/path/names.h"

namespace cairn::client {

using format::InodeType;
using io::Task;

namespace {

Task<absl::StatusOr<wire::Attributes>> FindOrCreate(Core* core,
                                                    std::string path,
                                                    OpenOptions options,
                                                    io::TimeNs deadline) {
  if (!options.create) {
    co_return co_await Resolve(core, path, FollowLast::kYes, deadline);
  }
  if (!options.exclusive) {
    absl::StatusOr<std::optional<wire::Attributes>> found =
        co_await FindPath(core, path, FollowLast::kYes, deadline);
    if (!found.ok()) co_return found.status();
    if (found->has_value()) co_return **found;
  }
  CreateSpec spec{InodeType::kFile, options.mode, "", !options.exclusive};
  absl::StatusOr<Created> created =
      co_await CreatePath(core, path, std::move(spec), deadline);
  if (!created.ok()) co_return created.status();
  co_return created->attributes;
}

}  // namespace

Task<absl::StatusOr<std::unique_ptr<OpenFile>>> OpenOnLoop(
    Core* core, std::string path, OpenOptions options) {
  if (options.truncate && !options.write) {
    co_return absl::InvalidArgumentError("truncate needs write");
  }
  const io::TimeNs deadline = core->Deadline();
  absl::StatusOr<wire::Attributes> found =
      co_await FindOrCreate(core, path, options, deadline);
  if (!found.ok()) co_return found.status();
  if (found->type() != static_cast<uint32_t>(InodeType::kFile)) {
    co_return absl::FailedPreconditionError(
        absl::StrCat(format::EscapeForDisplay(path), ": is a directory"));
  }
  auto file = std::make_unique<OpenFile>(core, *found, options.write);
  if (options.truncate && options.write && found->size() > 0) {
    absl::Status truncated = co_await file->Truncate(0);
    if (!truncated.ok()) co_return truncated;
  }
  co_return file;
}

absl::StatusOr<std::unique_ptr<File>> OpenPath(ClusterCore* cluster,
                                               const std::string& path,
                                               OpenOptions options) {
  auto opened = cluster->Run<absl::StatusOr<std::unique_ptr<OpenFile>>>(
      [&](Core* core) { return OpenOnLoop(core, path, options); });
  if (!opened.ok()) return opened.status();
  return std::make_unique<File>(
      std::make_unique<FileCore>(cluster, path, *std::move(opened)));
}

}  // namespace cairn::client
