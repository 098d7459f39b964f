#include "server/target/slab_set.h"

#include <utility>

#include <algorithm>
#include <cstdio>

#include "format/base/limits.h"
#include "format/base/status.h"
#include "server/target/limits.h"
#include "server/target/space_reserve.h"

namespace cairn::server {

using format::ChunkPlace;

SlabSet::SlabSet(io::Env* env, std::string dir, uint64_t slab_bytes,
                 uint64_t capacity_bytes)
    : env_(env),
      dir_(std::move(dir)),
      slab_bytes_(slab_bytes),
      capacity_bytes_(capacity_bytes),
      slabs_((capacity_bytes + slab_bytes - 1) / slab_bytes) {
  CAIRN_CHECK(!slabs_.empty());
}

uint64_t SlabSet::size_bytes(uint32_t slab) const {
  CAIRN_CHECK(slab < slabs_.size());
  return std::min(slab_bytes_, capacity_bytes_ - slab * slab_bytes_);
}

std::string SlabSet::Path(uint32_t slab) const {
  char name[32];
  std::snprintf(name, sizeof(name), "/slab-%06u", slab);
  return dir_ + name;
}

io::Task<absl::Status> SlabSet::OpenExisting() {
  for (uint32_t slab = 0; slab < count(); ++slab) {
    const absl::Status opened = co_await OpenSlab(slab, false);
    if (absl::IsNotFound(opened)) continue;
    CAIRN_CO_RETURN_IF_ERROR(opened);
    CAIRN_CO_ASSIGN_OR_RETURN(const uint64_t size,
                              co_await slabs_[slab].file->SizeBytes());
    slabs_[slab].state =
        size >= size_bytes(slab) ? State::kWhole : State::kShort;
  }
  co_return absl::OkStatus();
}

io::Task<absl::Status> SlabSet::OpenSlab(uint32_t slab, bool create) {
  io::OpenOptions options;
  options.write = true;
  options.direct = true;
  options.create = create;
  CAIRN_CO_ASSIGN_OR_RETURN(slabs_[slab].file,
                            co_await env_->OpenFile(Path(slab), options));
  co_return absl::OkStatus();
}

io::Task<absl::Status> SlabSet::CheckRoom(uint64_t size_bytes) {
  CAIRN_CO_ASSIGN_OR_RETURN(const io::DiskSpace space,
                            co_await env_->Space(dir_));
  const uint64_t reserve = IndexReserveBytes(space.total_bytes);
  if (space.free_bytes >= size_bytes + reserve) co_return absl::OkStatus();
  co_return absl::ResourceExhaustedError(
      absl::StrCat("the file system of ", dir_, " has ", space.free_bytes,
                   " bytes free: too few for a slab of ", size_bytes, " and ",
                   reserve, " kept for the index"));
}

io::Task<absl::Status> SlabSet::Grow(uint32_t slab) {
  CAIRN_CHECK(slabs_.at(slab).state != State::kWhole);
  const uint64_t wanted = size_bytes(slab);
  CAIRN_CO_RETURN_IF_ERROR(co_await CheckRoom(wanted));
  if (!slabs_[slab].file) {
    CAIRN_CO_RETURN_IF_ERROR(co_await OpenSlab(slab, true));
  }
  io::File* const file = slabs_[slab].file.get();
  CAIRN_CO_RETURN_IF_ERROR(co_await file->Allocate(wanted));
  CAIRN_CO_RETURN_IF_ERROR(co_await file->Sync());
  // Without this a crash could lose the name while the index has the chunk.
  CAIRN_CO_RETURN_IF_ERROR(co_await env_->SyncDirectory(dir_));
  slabs_[slab].state = State::kWhole;
  co_return absl::OkStatus();
}

io::Task<absl::Status> SlabSet::Harden(uint32_t slab) {
  CAIRN_CHECK(slabs_.at(slab).state == State::kWhole);
  io::File* const file = slabs_[slab].file.get();
  CAIRN_CO_ASSIGN_OR_RETURN(const uint64_t size, co_await file->SizeBytes());
  // Said again: what a failed flush forgot, a later one does not write.
  CAIRN_CO_RETURN_IF_ERROR(co_await file->Truncate(size));
  co_return co_await file->Sync();
}

io::Task<absl::Status> SlabSet::Prewrite(uint32_t slab) {
  CAIRN_CHECK(slabs_.at(slab).state == State::kWhole);
  const io::Buffer zeros =
      co_await env_->pool()->Acquire(format::kChunkBytesMax);
  std::fill(zeros.bytes().begin(), zeros.bytes().end(), uint8_t{0});
  io::File* const file = slabs_[slab].file.get();
  const uint64_t size = size_bytes(slab);
  for (uint64_t at = 0; at < size;) {
    const uint64_t length = std::min<uint64_t>(zeros.bytes().size(), size - at);
    CAIRN_CO_RETURN_IF_ERROR(
        co_await file->WriteAt(at, zeros.bytes().first(length)));
    at += length;
  }
  co_return co_await file->Sync();
}

io::Task<absl::Status> SlabSet::Write(ChunkPlace place,
                                      format::ConstBytes payload) {
  CAIRN_CHECK(payload.size() == place.allocated_bytes);
  CAIRN_CHECK(slabs_.at(place.slab).state == State::kWhole);
  absl::Status written = co_await slabs_[place.slab].file->WriteAt(
      place.offset_bytes, payload);
  if (written.ok()) {
    slabs_[place.slab].unsynced = true;
    co_return absl::OkStatus();
  }
  co_return Annotate(
      std::move(written),
      absl::StrCat("write of ", payload.size(), " bytes at ",
                   place.offset_bytes, " of ", Path(place.slab)));
}

io::Task<absl::Status> SlabSet::SyncWritten() {
  for (uint32_t slab = 0; slab < slabs_.size(); ++slab) {
    // Cleared first: a write that finishes during the flush needs the next.
    if (!std::exchange(slabs_[slab].unsynced, false)) continue;
    absl::Status synced = co_await slabs_[slab].file->Sync();
    if (!synced.ok()) {
      co_return Annotate(std::move(synced),
                         absl::StrCat("flush of ", Path(slab)));
    }
  }
  co_return absl::OkStatus();
}

io::Task<absl::Status> SlabSet::Read(ChunkPlace place, uint64_t offset_bytes,
                                     format::MutableBytes to) {
  CAIRN_CHECK(place.slab < slabs_.size());
  CAIRN_CHECK(offset_bytes + to.size() <= place.allocated_bytes);
  const uint64_t from = place.offset_bytes + offset_bytes;
  io::File* const file = slabs_[place.slab].file.get();
  if (!file) {
    co_return absl::DataLossError(
        absl::StrCat(Path(place.slab), " is missing"));
  }
  absl::Status read = co_await file->ReadAt(from, to);
  if (read.ok()) co_return absl::OkStatus();
  if (absl::IsOutOfRange(read)) {
    co_return absl::DataLossError(
        absl::StrCat(Path(place.slab), " ends before byte ", from + to.size()));
  }
  co_return Annotate(std::move(read),
                     absl::StrCat("read of ", to.size(), " bytes at ", from,
                                  " of ", Path(place.slab)));
}

io::Task<absl::Status> SlabSet::Close() {
  absl::Status status;
  for (Slab& slab : slabs_) {
    if (!slab.file) continue;
    const std::unique_ptr<io::File> file = std::move(slab.file);
    status.Update(co_await file->Close());
  }
  co_return status;
}

}  // namespace cairn::server
