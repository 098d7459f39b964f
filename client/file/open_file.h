// OpenFile: an open file on the loop. Contract: client/api/file.h.
//
// Threads:  loop only. Mutations are serialised by a turn; reads run beside
//           each other and wait only for unwritten data they need.
// Lifetime: Finish() before destruction (checked): waits for stripes in flight.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "client/blob/blob_writer.h"
#include "client/core/core.h"
#include "format/extent/extent_map.h"
#include "format/wire/meta.pb.h"
#include "io/task.h"

namespace cairn::client {

class OpenFile {
 public:
  OpenFile(Core* core, wire::Attributes attributes, bool writable);

  io::Task<absl::StatusOr<uint64_t>> Pread(uint64_t offset,
                                           std::span<uint8_t> to);
  io::Task<absl::Status> Pwrite(uint64_t offset, std::span<const uint8_t> from);
  io::Task<absl::StatusOr<uint64_t>> Append(std::span<const uint8_t> from);
  io::Task<absl::Status> Truncate(uint64_t size_bytes);
  io::Task<absl::Status> Fsync();
  // Waits for what is in flight; publishes nothing.
  io::Task<void> Finish();

  uint64_t inode() const { return attributes_.inode(); }
  uint64_t size_bytes() const;

 private:
  // All of these run with the turn held.
  io::Task<absl::Status> WriteThrough(uint64_t offset,
                                      std::span<const uint8_t> from,
                                      io::TimeNs deadline);
  io::Task<absl::Status> WriteLarge(uint64_t offset,
                                    std::span<const uint8_t> from,
                                    io::TimeNs deadline);
  io::Task<absl::Status> FlushBuffer(io::TimeNs deadline);
  io::Task<absl::Status> DrainAll(io::TimeNs deadline);
  io::Task<absl::Status> Publish(io::TimeNs deadline);
  io::Task<absl::Status> CommitAll(io::TimeNs deadline);
  io::Task<absl::StatusOr<uint64_t>> CommitAppend(io::TimeNs deadline);
  io::Task<bool> NewMap(Backoff* backoff, io::TimeNs deadline);
  io::Task<absl::Status> CommitSome(std::span<const format::Extent> extents,
                                    uint64_t size_at_least,
                                    io::TimeNs deadline);
  io::Task<absl::Status> LoadExtents(io::TimeNs deadline);
  absl::Status Sticky(absl::Status status);
  void MakeWriter();

  Core* const core_;
  wire::Attributes attributes_;
  const bool writable_;
  io::Semaphore turn_;
  std::unique_ptr<BlobWriter> writer_;  // Made by the first write.
  // Small writes that continue each other, at most a stripe.
  std::string buffer_;
  uint64_t buffer_offset_ = 0;
  uint64_t local_size_ = 0;  // Size with everything written here.
  bool dirty_ = false;       // Something is not published.
  bool extents_loaded_ = false;
  format::ExtentMap extents_;  // Published ones, once loaded.
  absl::Status failure_;       // First failed write: sticky.
};

}  // namespace cairn::client
