// An open file of a simulated process.
#pragma once

#include <memory>
#include <string>

#include "io/env.h"
#include "tests/sim/disk.h"
#include "tests/sim/sim_env.h"

namespace cairn::sim {

class SimFile final : public io::File {
 public:
  SimFile(SimEnv* env, InodePtr inode, std::string path,
          io::OpenOptions options);
  ~SimFile() override;

  io::Task<absl::Status> ReadAt(uint64_t offset, io::MutableBytes to) override;
  io::Task<absl::Status> WriteAt(uint64_t offset, io::ConstBytes from,
                                 io::WriteOptions options) override;
  io::Task<absl::Status> Sync() override;
  io::Task<absl::StatusOr<uint64_t>> SizeBytes() override;
  io::Task<absl::Status> Allocate(uint64_t size_bytes) override;
  io::Task<absl::Status> Truncate(uint64_t size_bytes) override;
  io::Task<absl::Status> LockExclusive() override;
  io::Task<absl::Status> Close() override;

 private:
  class InFlight;
  absl::Status CheckAligned(uint64_t offset, const void* memory,
                            uint64_t size_bytes) const;
  absl::Status Write(uint64_t offset, io::ConstBytes from, uint64_t* change);

  SimEnv* const env_;
  const InodePtr inode_;
  const std::string path_;
  const io::OpenOptions options_;
  uint64_t in_flight_ = 0;
  bool closed_ = false;
};

}  // namespace cairn::sim
