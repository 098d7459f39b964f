// Scrubber: reads again, block by block, all that a store has, so that damage
// is found while there is something left to repair from.
//
// A pass reads every chunk that was there when it began, newest first: in a few
// sweeps over the store's table, by age. When it is over, and the time for the
// next has not come, what was put since is read every now and then. The place
// is not kept over a restart: a new process begins a new pass.
//
// What it finds: the store remembers chunks with damage (ChunkStore::Damaged),
//           as it does for any other reader; the metadata service asks for them
//           and orders repairs. Nothing is ever written or erased here.
// Pace:     at most bytes_per_s, never in bursts to catch up; and in the lowest
//           class at the disk, one block at a time.
// Rests:    while the store has failed or its disk hangs. At most one operation
//           is under way, so a disk that hangs piles nothing up.
// Threads:  one loop.
// Lifetime: Stop() and stopped(), or Close(), before destruction (checked);
//           `store` outlives that.
#pragma once

#include <cstdint>
#include <string>

#include "format/wire/target.pb.h"
#include "io/env.h"
#include "server/target/chunk_store.h"

namespace cairn::server {

struct ScrubOptions {
  uint64_t bytes_per_s = 0;  // 0: off.
  // A server that starts has others waiting for it.
  io::TimeNs start_after_ns = 60 * io::kSecond;
  // From the beginning of one pass to that of the next, at least.
  io::TimeNs pass_ns = 14 * 86'400 * io::kSecond;
  // How often new chunks are read between two passes.
  io::TimeNs fresh_ns = 3600 * io::kSecond;
};

class Scrubber {
 public:
  Scrubber(io::Env* env, ChunkStore* store, ScrubOptions options);
  Scrubber(const Scrubber&) = delete;
  Scrubber& operator=(const Scrubber&) = delete;

  void Start();  // Once.
  void Stop() { stopping_.Cancel(); }
  bool stopped() const { return gate_.in_flight() == 0; }
  io::Task<void> Close();

  // Counts; those that the store keeps are not filled in.
  wire::ScrubProgress Report() const;

 private:
  // Chunks put in [from, to), in nanoseconds of the wall clock.
  struct Band {
    uint64_t from = 0;
    uint64_t to = 0;
  };
  io::Task<void> Loop();
  io::Task<void> Pass();
  io::Task<void> AwaitNextPass(io::TimeNs next);
  io::Task<void> Sweep(Band band);
  io::Task<void> Check(ChunkStore::WalkedChunk chunk);
  // kDataLoss: damaged; every block was looked at all the same.
  io::Task<absl::Status> ReadAll(ChunkStore::WalkedChunk chunk);
  io::Task<void> AwaitWell();
  io::Task<void> Pause(io::TimeNs time);

  io::Env* const env_;
  ChunkStore* const store_;
  const ScrubOptions options_;
  io::CancelToken stopping_;
  io::TimeNs next_read_ = 0;
  bool in_pass_ = false;
  uint64_t swept_to_wall_ns_ = 0;  // Chunks put before were read, in some pass.
  uint64_t pass_bytes_ = 0;
  uint64_t passes_ = 0;
  io::TimeNs pass_ended_ = 0;
  uint64_t verified_chunks_ = 0;
  uint64_t verified_bytes_ = 0;
  uint64_t skipped_ = 0;
  io::Gate gate_;
};

}  // namespace cairn::server
