// SlabSet: the slab files of a target, where payload lies.
//
// Slabs are reserved whole when they are first needed and never shortened.
// Units:      bytes, multiples of format::kDiskAlignBytes (O_DIRECT).
// Threads:    one loop. Reads and writes may overlap, Grow() not with itself.
// Durability: OK from Grow() means on stable storage. OK from Write() does not:
//             the next SyncWritten() makes it so. A failed SyncWritten() means
//             that writes since the last good one may be lost: latch.
// Lifetime:   Close() before destruction (each file checks).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "format/target/chunk_record.h"
#include "io/env.h"

namespace cairn::server {

class SlabSet {
 public:
  SlabSet(io::Env* env, std::string dir, uint64_t slab_bytes,
          uint64_t capacity_bytes);

  // Opens the slab files that are there; absent and short ones are not errors
  // here: see state().
  io::Task<absl::Status> OpenExisting();

  enum class State { kAbsent, kShort, kWhole };
  uint32_t count() const { return static_cast<uint32_t>(slabs_.size()); }
  uint64_t size_bytes(uint32_t slab) const;  // The last may be smaller.
  State state(uint32_t slab) const { return slabs_.at(slab).state; }
  std::string Path(uint32_t slab) const;

  // Makes `slab`, which is not whole, whole. kResourceExhausted: the file
  // system has no room for it and the index's reserve.
  io::Task<absl::Status> Grow(uint32_t slab);

  // Makes durable the size of `slab`, which is whole, as if it had just grown;
  // the directory is for the caller to flush.
  io::Task<absl::Status> Harden(uint32_t slab);

  // Writes zeros all over a whole slab, so that later writes find written
  // space.
  io::Task<absl::Status> Prewrite(uint32_t slab);

  // `payload` fills the place. The slab is whole (checked). Visible, not yet
  // durable.
  io::Task<absl::Status> Write(format::ChunkPlace place,
                               format::ConstBytes payload);
  // Makes durable every Write() that finished before it was called.
  io::Task<absl::Status> SyncWritten();
  // Reads to.size() bytes from `offset_bytes` within the place. kDataLoss: the
  // device cannot read them, or they are missing.
  io::Task<absl::Status> Read(format::ChunkPlace place, uint64_t offset_bytes,
                              format::MutableBytes to);

  io::Task<absl::Status> Close();

 private:
  struct Slab {
    State state = State::kAbsent;
    std::unique_ptr<io::File> file;
    bool unsynced = false;  // Written since the last flush.
  };
  io::Task<absl::Status> OpenSlab(uint32_t slab, bool create);
  io::Task<absl::Status> CheckRoom(uint64_t size_bytes);

  io::Env* const env_;
  const std::string dir_;
  const uint64_t slab_bytes_;
  const uint64_t capacity_bytes_;
  std::vector<Slab> slabs_;
};

}  // namespace cairn::server
