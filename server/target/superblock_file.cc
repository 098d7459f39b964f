#include "server/target/superblock_file.h"

#include <algorithm>
#include <memory>

#include "format/base/status.h"

namespace cairn::server {
namespace {

// Reads copy by copy, so that one bad sector costs one copy.
io::Task<absl::StatusOr<std::string>> ReadCopies(io::File* file) {
  CAIRN_CO_ASSIGN_OR_RETURN(const uint64_t size, co_await file->SizeBytes());
  std::string bytes(std::min(size, format::kSuperblockFileBytes), '\0');
  for (uint64_t at = 0; at < bytes.size(); at += format::kSuperblockBytes) {
    const uint64_t length =
        std::min<uint64_t>(format::kSuperblockBytes, bytes.size() - at);
    const format::MutableBytes to{reinterpret_cast<uint8_t*>(bytes.data()) + at,
                                  length};
    const absl::Status read = co_await file->ReadAt(at, to);
    if (!read.ok()) std::fill(to.begin(), to.end(), uint8_t{0});
  }
  co_return bytes;
}

io::Task<absl::Status> WriteNewFile(io::Env* env, std::string path,
                                    std::string bytes) {
  io::OpenOptions options;
  options.write = true;
  options.create = true;
  options.truncate = true;
  CAIRN_CO_ASSIGN_OR_RETURN(const std::unique_ptr<io::File> file,
                            co_await env->OpenFile(path, options));
  absl::Status status = co_await file->WriteAt(0, format::AsBytes(bytes));
  if (status.ok()) status = co_await file->Sync();
  absl::Status closed = co_await file->Close();
  co_return status.ok() ? closed : status;
}

}  // namespace

io::Task<absl::StatusOr<format::DecodedSuperblock>> ReadSuperblock(
    io::Env* env, std::string dir) {
  const std::string path = absl::StrCat(dir, "/", kSuperblockFileName);
  const io::OpenOptions options;
  absl::StatusOr<std::unique_ptr<io::File>> file =
      co_await env->OpenFile(path, options);
  if (absl::IsNotFound(file.status())) {
    co_return absl::NotFoundError(absl::StrCat(
        dir,
        " is not a target: it has no superblock. Format it first, or "
        "mount the disk that belongs here"));
  }
  CAIRN_CO_RETURN_IF_ERROR(file);
  absl::StatusOr<std::string> bytes = co_await ReadCopies(file->get());
  const absl::Status closed = co_await (*file)->Close();
  CAIRN_CO_RETURN_IF_ERROR(bytes);
  CAIRN_CO_RETURN_IF_ERROR(closed);
  auto decoded = format::DecodeSuperblock(format::AsBytes(*bytes));
  if (!decoded.ok()) co_return Annotate(decoded.status(), path);
  co_return decoded;
}

io::Task<absl::Status> WriteSuperblock(io::Env* env, std::string dir,
                                       format::Superblock superblock) {
  const std::string path = absl::StrCat(dir, "/", kSuperblockFileName);
  const std::string fresh = path + ".new";
  CAIRN_CO_RETURN_IF_ERROR(
      co_await WriteNewFile(env, fresh, format::EncodeSuperblock(superblock)));
  CAIRN_CO_RETURN_IF_ERROR(co_await env->Rename(fresh, path));
  co_return co_await env->SyncDirectory(dir);
}

}  // namespace cairn::server
