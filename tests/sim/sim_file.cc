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
  co_await io::SleepFor(env_, env_->disk()->Latency(to.size()));
  CAIRN_CO_RETURN_IF_ERROR(env_->CheckAlive());
  env_->world()->Note(Trace::kRead, env_->process(), offset, to.size());
  CAIRN_CO_RETURN_IF_ERROR(env_->disk()->NextFault(DiskOp::kRead, path_));
  co_return Annotate(env_->disk()->Read(inode_.get(), offset, to), path_);
}

absl::Status SimFile::Write(uint64_t offset, io::ConstBytes from,
                            uint64_t* change) {
  Disk* const disk = env_->disk();
  env_->world()->Note(Trace::kWrite, env_->process(), offset, from.size());
  const absl::Status fault = disk->NextFault(DiskOp::kWrite, path_);
  if (!fault.ok()) from = from.first(disk->PartOf(from.size()));
  const absl::StatusOr<uint64_t> written =
      disk->Write(inode_.get(), offset, from);
  CAIRN_RETURN_IF_ERROR(fault);
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
  const bool early = env_->disk()->FlipCoin();
  uint64_t change = 0;
  if (early) CAIRN_CO_RETURN_IF_ERROR(Write(offset, from, &change));
  co_await io::SleepFor(env_, env_->disk()->Latency(from.size()));
  CAIRN_CO_RETURN_IF_ERROR(env_->CheckAlive());
  if (!early) CAIRN_CO_RETURN_IF_ERROR(Write(offset, from, &change));
  if (options.durable) inode_->data.FlushOne(change);
  co_return absl::OkStatus();
}

io::Task<absl::Status> SimFile::Sync() {
  const InFlight in_flight(this);
  const uint64_t change = inode_->data.last_change();
  co_await io::SleepFor(env_, env_->disk()->SyncLatency());
  CAIRN_CO_RETURN_IF_ERROR(env_->CheckAlive());
  env_->world()->Note(Trace::kSync, env_->process(), inode_->number, change);
  const absl::Status fault = env_->disk()->NextFault(DiskOp::kSync, path_);
  if (!fault.ok()) {
    inode_->data.ForgetUnflushed();  // As a kernel that marks pages clean.
    co_return fault;
  }
  inode_->data.FlushUpTo(change);
  co_return absl::OkStatus();
}

io::Task<absl::StatusOr<uint64_t>> SimFile::SizeBytes() {
  const InFlight in_flight(this);
  co_await io::SleepFor(env_, env_->disk()->Latency(0));
  CAIRN_CO_RETURN_IF_ERROR(env_->CheckAlive());
  co_return inode_->data.size_bytes();
}

io::Task<absl::Status> SimFile::Allocate(uint64_t size_bytes) {
  const InFlight in_flight(this);
  co_await io::SleepFor(env_, env_->disk()->Latency(0));
  CAIRN_CO_RETURN_IF_ERROR(env_->CheckAlive());
  env_->world()->Note(Trace::kWrite, env_->process(), size_bytes, 0);
  co_return Annotate(env_->disk()->Reserve(inode_.get(), size_bytes), path_);
}

io::Task<absl::Status> SimFile::Truncate(uint64_t size_bytes) {
  const InFlight in_flight(this);
  co_await io::SleepFor(env_, env_->disk()->Latency(0));
  CAIRN_CO_RETURN_IF_ERROR(env_->CheckAlive());
  env_->world()->Note(Trace::kWrite, env_->process(), size_bytes, 1);
  inode_->data.Resize(size_bytes);
  co_return absl::OkStatus();
}

io::Task<absl::Status> SimFile::LockExclusive() {
  const InFlight in_flight(this);
  co_await io::SleepFor(env_, env_->disk()->Latency(0));
  CAIRN_CO_RETURN_IF_ERROR(env_->CheckAlive());
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
