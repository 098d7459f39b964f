// HighWaterMark: the newest sequence that the metadata store made durable, kept
// outside the store's directory. A store that ends before it has lost commits
// that were acknowledged (a truncated log, a lying disk, an old copy put back)
// and must not be served: it would free chunks that files still use.
//
// Use:        Open, then Check() the sequence that the store opened with, then
//             Advance() from the store's on_durable. When Check() refuses and
//             the operator accepts the loss, AcceptLoss().
// Durability: the mark runs a little behind the store (kMarkIntervalNs, and
//             one write): commits of the last moments before a crash are not
//             covered by it. Acknowledgements do not wait for it.
// Files:      mark.0 and mark.1 in the directory, written in turns, so that a
//             torn write leaves the other: docs/format/metadata-store.md.
// Threads:    one loop. Lifetime: env outlives it; Close() before destruction.
#pragma once

#include <array>
#include <memory>
#include <string>

#include "format/meta/mark.h"
#include "io/env.h"
#include "server/meta/kv/kv_engine.h"

namespace cairn::server {

class HighWaterMark {
 public:
  // The marks in `dir`, which must exist. `create`: a new cluster, make them.
  // kNotFound: there are none, and not `create`. kDataLoss: neither can be
  // read. kFailedPrecondition: they are another cluster's, or newer than this
  // program.
  static io::Task<absl::StatusOr<std::unique_ptr<HighWaterMark>>> Open(
      io::Env* env, std::string dir, format::ClusterId cluster, bool create);
  ~HighWaterMark();

  // May a store that ends at `recovered` be served? `targets_max`: the greatest
  // sequence that any target has been told of; 0 if none was.
  // kFailedPrecondition: no; the message says what is lost and how to go on.
  absl::Status Check(uint64_t recovered, uint64_t targets_max) const;

  // The operator's explicit "go on without what is lost". Moves `kv` past every
  // sequence that the lost commits can have had, and writes the loss into the
  // mark. OK: Check(kv->sequence(), targets_max) is OK, durably.
  // kFailedPrecondition: nothing is lost.
  io::Task<absl::Status> AcceptLoss(KvEngine* kv, uint64_t targets_max);

  // Everything up to `sequence` is durable in the store. Returns at once; the
  // newest sequence is written soon.
  void Advance(uint64_t sequence);

  // The newest mark that is on the disk.
  const format::Mark& mark() const { return written_; }
  // How the last write of the mark went. While it is not OK the store is not
  // protected; each Advance() tries again.
  const absl::Status& status() const { return status_; }

  // Writes the newest sequence given to Advance(), and stops.
  io::Task<absl::Status> Close();

 private:
  HighWaterMark(io::Env* env, std::string dir)
      : env_(env), dir_(std::move(dir)), one_write_(env, 1), gate_(env) {}

  io::Task<absl::Status> Load(format::ClusterId cluster, bool create);
  // kNotFound: no file, or an empty one, as a crash in Open() leaves it.
  io::Task<absl::StatusOr<format::Mark>> ReadSlot(size_t slot);
  io::Task<absl::Status> OpenSlots();
  // Writes `next` with the next generation, over the older of the two.
  io::Task<absl::Status> Write(format::Mark next);
  // Writes marks until none is due.
  io::Task<void> WriteDue();
  uint64_t Needed(uint64_t targets_max) const;
  std::string SlotPath(size_t slot) const;

  io::Env* const env_;
  const std::string dir_;
  std::array<std::unique_ptr<io::File>, 2> slots_;
  format::Mark written_;
  uint64_t due_ = 0;  // Newest sequence that a mark shall have.
  size_t next_slot_ = 0;
  bool writing_ = false;
  bool closed_ = false;
  absl::Status status_;
  io::CancelToken closing_;  // Cuts the pause between writes short.
  io::Semaphore one_write_;
  io::Gate gate_;
};

}  // namespace cairn::server
