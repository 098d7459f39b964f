// FormatTarget() and ReadTargetIdentity() of chunk_store.h.
#include <algorithm>
#include <memory>

#include "format/base/status.h"
#include "format/target/chunk_record.h"
#include "format/target/superblock.h"
#include "server/target/chunk_index.h"
#include "server/target/chunk_store.h"
#include "server/target/slab_set.h"
#include "server/target/space_reserve.h"
#include "server/target/superblock_file.h"

namespace cairn::server {
namespace {

std::string ParentOf(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

// A crash must not take the directory away from under its chunks.
io::Task<absl::Status> MakeDurableDirectory(io::Env* env, std::string dir) {
  CAIRN_CO_RETURN_IF_ERROR(co_await env->MakeDirectory(dir));
  co_return co_await env->SyncDirectory(ParentOf(dir));
}

// Makes `dir` if it is absent; otherwise it must be an empty directory.
io::Task<absl::Status> PrepareDirectory(io::Env* env, std::string dir) {
  CAIRN_CO_ASSIGN_OR_RETURN(const std::optional<io::FileInfo> info,
                            co_await env->Stat(dir));
  if (!info) co_return co_await MakeDurableDirectory(env, dir);
  if (!info->is_directory) {
    co_return absl::InvalidArgumentError(
        absl::StrCat(dir, " is not a directory"));
  }
  CAIRN_CO_ASSIGN_OR_RETURN(std::vector<std::string> names,
                            co_await env->ListDirectory(dir));
  if (std::find(names.begin(), names.end(), kSuperblockFileName) !=
      names.end()) {
    co_return absl::AlreadyExistsError(
        absl::StrCat(dir,
                     " is a target already; nothing was changed. Empty it by "
                     "hand if its chunks may be lost"));
  }
  for (const std::string& name : names) {
    if (name == "lost+found") continue;  // Of an empty file system.
    co_return absl::AlreadyExistsError(absl::StrCat(
        dir, " has other files (", name,
        "), or a format of it was cut short; nothing was changed. Give an "
        "empty directory"));
  }
  co_return absl::OkStatus();
}

io::Task<absl::StatusOr<uint64_t>> CapacityOfDisk(io::Env* env,
                                                  std::string dir) {
  CAIRN_CO_ASSIGN_OR_RETURN(const io::DiskSpace space,
                            co_await env->Space(dir));
  const uint64_t reserve = IndexReserveBytes(space.total_bytes);
  if (space.free_bytes < reserve + format::kChunkBytesMax) {
    co_return absl::ResourceExhaustedError(
        absl::StrCat("the file system of ", dir, " has only ", space.free_bytes,
                     " bytes free"));
  }
  const uint64_t usable = space.free_bytes - reserve;
  co_return usable - usable % format::kDiskAlignBytes;
}

io::Task<absl::Status> MakeIndex(io::Env* env, format::IndexKind kind,
                                 std::string dir) {
  CAIRN_CO_ASSIGN_OR_RETURN(const std::unique_ptr<ChunkIndex> index,
                            co_await CreateIndex(env, kind, dir + "/index"));
  format::IndexOp state;
  state.key = format::kStoreStateKey;
  state.value = format::EncodeStoreState(format::StoreState());
  std::vector<format::IndexOp> ops;
  ops.push_back(std::move(state));
  absl::Status status = co_await index->Commit(std::move(ops));
  status.Update(co_await index->Close());
  co_return status;
}

io::Task<absl::Status> MakeLockFile(io::Env* env, std::string dir) {
  io::OpenOptions options;
  options.write = true;
  options.create = true;
  CAIRN_CO_ASSIGN_OR_RETURN(const std::unique_ptr<io::File> lock,
                            co_await env->OpenFile(dir + "/LOCK", options));
  co_return co_await lock->Close();
}

io::Task<absl::Status> PrewriteSlabs(io::Env* env, std::string dir,
                                     format::Superblock superblock) {
  SlabSet slabs(env, dir, superblock.slab_bytes, superblock.capacity_bytes);
  absl::Status status;
  for (uint32_t slab = 0; slab < slabs.count() && status.ok(); ++slab) {
    status = co_await slabs.Grow(slab);
    if (status.ok()) status = co_await slabs.Prewrite(slab);
  }
  status.Update(co_await slabs.Close());
  co_return status;
}

format::Superblock MakeSuperblock(const FormatOptions& options,
                                  uint64_t capacity_bytes, uint64_t wall_ns) {
  format::Superblock superblock;
  superblock.cluster_id = options.identity.cluster_id;
  superblock.target_id = options.identity.target_id;
  superblock.index_kind = options.index_kind;
  superblock.disk_generation = options.identity.disk_generation;
  superblock.slab_bytes = options.slab_bytes;
  superblock.capacity_bytes = capacity_bytes;
  superblock.format_wall_ns = wall_ns;
  superblock.generation = 1;
  return superblock;
}

}  // namespace

io::Task<absl::Status> FormatTarget(io::Env* env, std::string dir,
                                    FormatOptions options) {
  // Check what was asked for before anything is touched.
  const uint64_t asked = options.capacity_bytes != 0 ? options.capacity_bytes
                                                     : format::kChunkBytesMax;
  CAIRN_CO_RETURN_IF_ERROR(
      format::ValidateSuperblock(MakeSuperblock(options, asked, 0)));
  CAIRN_CO_RETURN_IF_ERROR(co_await PrepareDirectory(env, dir));
  uint64_t capacity = options.capacity_bytes;
  if (capacity == 0) {
    CAIRN_CO_ASSIGN_OR_RETURN(capacity, co_await CapacityOfDisk(env, dir));
  }
  const format::Superblock superblock =
      MakeSuperblock(options, capacity, env->WallNs());
  CAIRN_CO_RETURN_IF_ERROR(format::ValidateSuperblock(superblock));
  CAIRN_CO_RETURN_IF_ERROR(co_await MakeIndex(env, superblock.index_kind, dir));
  CAIRN_CO_RETURN_IF_ERROR(co_await MakeLockFile(env, dir));
  if (options.prewrite) {
    CAIRN_CO_RETURN_IF_ERROR(co_await PrewriteSlabs(env, dir, superblock));
  }
  // Last: what has no superblock is not a target.
  co_return co_await WriteSuperblock(env, dir, superblock);
}

io::Task<absl::StatusOr<TargetIdentity>> ReadTargetIdentity(io::Env* env,
                                                            std::string dir) {
  CAIRN_CO_ASSIGN_OR_RETURN(const format::DecodedSuperblock decoded,
                            co_await ReadSuperblock(env, std::move(dir)));
  TargetIdentity identity;
  identity.cluster_id = decoded.superblock.cluster_id;
  identity.target_id = decoded.superblock.target_id;
  identity.disk_generation = decoded.superblock.disk_generation;
  identity.admission = decoded.superblock.admission;
  co_return identity;
}

}  // namespace cairn::server
