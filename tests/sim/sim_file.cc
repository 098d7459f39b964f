#include "tests/sim/sim_file.h"

#include <utility>

namespace cairn::sim {

class SimFile::InFlight {
 public:
  explicit InFlight(SimFile* file) : file_(file) {
    CAIRN_CHECK(!file->closed_);
    ++file->in_flight_;
  }
  InFlight(const InFlight&) = delete;
  InFlight& operator=(const InFlight&) = delete;
  ~InFlight() { --file_->in_flight_; }

 private:
  SimFile* const file_;
};

SimFile::SimFile(SimEnv* env, InodePtr inode, std::string path,
                 io::OpenOptions options)
    : env_(env),
      inode_(std::move(inode)),
      path_(std::move(path)),
      options_(options) {}

SimFile::~SimFile() {
  CAIRN_CHECK(in_flight_ == 0);
  CAIRN_CHECK(closed_);
}

absl::Status SimFile::CheckAligned(uint64_t offset, const void* memory,
                                   uint64_t size_bytes) const {
  if (!options_.direct) return absl::OkStatus();
  const uint64_t address = reinterpret_cast<uintptr_t>(memory);
  if ((offset | address | size_bytes) % format::kDiskAlignBytes == 0) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      path_, ": O_DIRECT needs offset, memory and size aligned to ",
      format::kDiskAlignBytes, ", not offset ", offset, ", size ", size_bytes));
}

io::Task<absl::Status> SimFile::ReadAt(uint64_t offset, io::MutableBytes to) {
  const InFlight in_flight(this);
  CAIRN_CO_RETURN_IF_ERROR(CheckAligned(offset, to.data(), to.size()));
  CAIRN_CO_RETURN_IF_ERROR(
      co_await env_->PassDiskTime(env_->disk()->Latency(to.size())));
  env_->world()->Note(Trace::kRead, env_->process(), offset, to.size());
  co_return Annotate(env_->disk()->FaultyRead(inode_.get(), path_, offset, to),
                     path_);
}

absl::Status SimFile::Write(uint64_t offset, io::ConstBytes from,
                            uint64_t* change) {
  Disk* const disk = env_->disk();
  env_->world()->Note(Trace::kWrite, env_->process(), offset, from.size());
  const absl::StatusOr<uint64_t> written =
      disk->FaultyWrite(inode_.get(), path_, offset, from);
  if (!written.ok()) return Annotate(written.status(), path_);
  *change = *written;
  return absl::OkStatus();
}

io::Task<absl::Status> SimFile::WriteAt(uint64_t offset, io::ConstBytes from,
                                        io::WriteOptions options) {
  const InFlight in_flight(this);
  CAIRN_CO_RETURN_IF_ERROR(CheckAligned(offset, from.data(), from.size()));
  if (!options_.write) {
    co_return absl::InternalError(absl::StrCat(path_, ": EBADF"));
  }
  if (from.size() > UINT64_MAX / 2 - offset) {
    co_return absl::InvalidArgumentError(absl::StrCat(path_, ": EINVAL"));
  }
  CAIRN_CO_RETURN_IF_ERROR(env_->CheckAlive());
  // The device takes the bytes early or late: a crash in between finds both.
  const bool early = env_->disk()->FlipCoin() && !env_->disk()->hung();
  uint64_t change = 0;
  if (early) CAIRN_CO_RETURN_IF_ERROR(Write(offset, from, &change));
  CAIRN_CO_RETURN_IF_ERROR(
      co_await env_->PassDiskTime(env_->disk()->Latency(from.size())));
  if (!early) CAIRN_CO_RETURN_IF_ERROR(Write(offset, from, &change));
  if (!options.durable) co_return absl::OkStatus();
  co_return Annotate(env_->disk()->FaultyFlush(inode_.get(), path_, change),
                     path_);
}

io::Task<absl::Status> SimFile::Sync() {
  const InFlight in_flight(this);
  const uint64_t change = inode_->data.last_change();
  CAIRN_CO_RETURN_IF_ERROR(
      co_await env_->PassDiskTime(env_->disk()->SyncLatency()));
  env_->world()->Note(Trace::kSync, env_->process(), inode_->number, change);
  co_return Annotate(env_->disk()->FaultySync(inode_.get(), path_, change),
                     path_);
}

io::Task<absl::StatusOr<uint64_t>> SimFile::SizeBytes() {
  const InFlight in_flight(this);
  CAIRN_CO_RETURN_IF_ERROR(
      co_await env_->PassDiskTime(env_->disk()->Latency(0)));
  co_return inode_->data.size_bytes();
}

io::Task<absl::Status> SimFile::Allocate(uint64_t size_bytes) {
  const InFlight in_flight(this);
  CAIRN_CO_RETURN_IF_ERROR(
      co_await env_->PassDiskTime(env_->disk()->Latency(0)));
  env_->world()->Note(Trace::kWrite, env_->process(), size_bytes, 0);
  co_return Annotate(env_->disk()->Reserve(inode_.get(), size_bytes), path_);
}

io::Task<absl::Status> SimFile::Truncate(uint64_t size_bytes) {
  const InFlight in_flight(this);
  CAIRN_CO_RETURN_IF_ERROR(
      co_await env_->PassDiskTime(env_->disk()->Latency(0)));
  env_->world()->Note(Trace::kWrite, env_->process(), size_bytes, 1);
  inode_->data.Resize(size_bytes);
  co_return absl::OkStatus();
}

io::Task<absl::Status> SimFile::LockExclusive() {
  const InFlight in_flight(this);
  CAIRN_CO_RETURN_IF_ERROR(
      co_await env_->PassDiskTime(env_->disk()->Latency(0)));
  if (!env_->disk()->Lock(inode_.get(), env_->process(), this)) {
    co_return absl::FailedPreconditionError(
        absl::StrCat(path_, ": locked by another process"));
  }
  co_return absl::OkStatus();
}

io::Task<absl::Status> SimFile::Close() {
  CAIRN_CHECK(!closed_ && in_flight_ == 0);
  closed_ = true;
  if (env_->alive()) env_->disk()->Unlock(inode_.get(), this);
  co_await io::SleepFor(env_, env_->disk()->Latency(0));
  co_return absl::OkStatus();
}

}  // namespace cairn::sim
