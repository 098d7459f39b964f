// File: an open file of the cluster.
//
// Consistency: close-to-open. What was written is visible to others after
//              Fsync() or Close(); Open() sees everything published before. A
//              File sees its own writes at once.
// Durability:  Fsync() and Close() return OK when all chunks (parity included)
//              are on stable storage and the extents are committed.
// Atomicity:   one Fsync() publishes all it covers in one metadata transaction
//              (or, beyond 100 extents, several, in file order).
// Threads:     calls may come from several threads; they are carried out one
//              after the other per File, except reads, which run in parallel.
// Memory:      large writes are sent straight from the caller's memory, which
//              may be reused when the call returns. Small ones are gathered in
//              a buffer of at most one stripe.
// Errors:      Cluster's, and: after a failed write, Fsync() and Close() return
//              its error too (sticky): no data is reported safe that is not.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/api/cluster.h"

namespace cairn::client {

class FileCore;  // client/file: not part of the interface.

class File {
 public:
  explicit File(std::unique_ptr<FileCore> core);
  // Drops what was not published, if Close() was not called.
  ~File();

  // Reads up to to.size() bytes at `offset`; returns how many: fewer only at
  // the end of the file, 0 past it. Holes read as zeros; lost data never does.
  absl::StatusOr<uint64_t> Pread(uint64_t offset, std::span<uint8_t> to);

  // Writes all of `from`. kPermissionDenied: not opened for writing.
  absl::Status Pwrite(uint64_t offset, std::span<const uint8_t> from);

  // Adds `from` at the end that the file has when it is published, after
  // everything others published before; appends never overwrite each other.
  // Durable and visible when it returns; the offset it got.
  absl::StatusOr<uint64_t> Append(std::span<const uint8_t> from);

  absl::Status Truncate(uint64_t size_bytes);  // Publishes at once.
  absl::Status Fsync();
  absl::Status Close();  // Fsync, and no more calls after it.

  uint64_t inode() const;
  absl::StatusOr<uint64_t> SizeBytes();  // Own unpublished writes included.

 private:
  std::unique_ptr<FileCore> core_;
};

}  // namespace cairn::client
