// ChunkMaker: makes one missing chunk of a shard from the chunks that the
// sources have of its stripe, and puts it into the target's own store.
//
// Repairs:    a chunk that is there and damaged is replaced by what the others
//             give, if that is what it was once: its record has the digest.
//             Damaged bytes are never a source, its own included.
// Never made up: a chunk comes from a verified copy of itself, from a verified
//             copy of another shard (replicate), or is decoded from exactly k
//             verified shards. Whoever has too few says so.
// Durability: kMade means on stable storage, read back from the disk and
//             verified there.
// Memory:     buffers of the pool, taken together under `buffers`, so that
//             makers never wait for each other's: one for the chunk, and for
//             decoding a large one, or in small pools k small ones.
// Threads:    one loop; calls of Make() may overlap.
// Lifetime:   all that it is given outlives it.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "io/env.h"
#include "server/target/chunk_store.h"
#include "server/target/rebuild_sources.h"
#include "server/target/stripe_lister.h"

namespace cairn::server {

enum class Making {
  kNothing,  // The stripe has no bytes for this shard.
  kThere,    // It was there already, and passed its checksums.
  kMade,     // It was absent, or damaged (of a repair only).
  kLost,     // Too few good shards are left. Only a change elsewhere helps.
  kAway,     // Too few could be read now; more may be later.
};

struct Made {
  Making how = Making::kNothing;
  uint64_t bytes = 0;
  std::string reason;  // kLost, kAway.
};

class ChunkMaker {
 public:
  ChunkMaker(io::Env* env, ChunkStore* store, Sources* sources,
             const ShardGoal* goal, io::Semaphore* buffers);

  // How long the stripe is, as all who list it agree, and the shard's chunk.
  // kDataLoss: they do not agree, or say what cannot be.
  absl::StatusOr<uint64_t> ChunkBytesOf(const ListedStripe& stripe) const;

  // Errors are of the store or of memory: the whole task cannot go on.
  io::Task<absl::StatusOr<Made>> Make(ListedStripe stripe);

 private:
  struct Job;
  absl::StatusOr<uint64_t> StripeBytesOf(const ListedStripe& stripe) const;
  io::Task<absl::StatusOr<bool>> IsThere(Job* job);
  io::Task<absl::Status> ReadBack(const Job* job);
  io::Task<absl::Status> TakeBuffers(Job* job);
  io::Task<bool> TakeScratch(Job* job, io::TimeNs deadline);
  io::Task<absl::Status> Collect(Job* job);
  bool ChooseSources(Job* job) const;
  io::Task<bool> ReadChosen(Job* job);
  io::Task<void> ReadSlice(Job* job, uint32_t source, uint64_t offset,
                           format::MutableBytes to);
  io::Task<bool> Decode(Job* job);
  io::Task<absl::Status> Store(Job* job);
  io::Task<absl::Status> StoreGuarded(Job* job, ChunkRecord record,
                                      format::ConstBytes payload);

  io::Env* const env_;
  ChunkStore* const store_;
  Sources* const sources_;
  const ShardGoal* const goal_;
  io::Semaphore* const buffers_;
};

}  // namespace cairn::server
