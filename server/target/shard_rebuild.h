// ShardRebuild: makes all chunks of one shard of a row for one store.
//
// Two walks over the lists of the sources: the first counts, the second makes
// what is missing, a few chunks at a time. The row was fenced before the order
// was given, so whatever is committed, or ever will be, is in the lists by now.
//
// Resuming: chunks that are there already and pass their checksums are skipped,
//           so a new ShardRebuild goes on where an old one ended.
// Ends:     kDone: every listed chunk is there and verified, but for those of
//           lost(). kFailed: a source, the store or memory let it down; chunks
//           that could be made were.
// Repair:   with a list of stripes it makes, in a store that has the shard
//           already, its chunks of those stripes where they are absent or
//           damaged, from what the sources have of them; no lists are walked.
// Threads:  one loop.
// Lifetime: Run() once, then Close() before destruction (checked).
#pragma once

#include <string>
#include <vector>

#include "format/wire/rebuild_state.h"
#include "io/env.h"
#include "server/target/chunk_maker.h"
#include "server/target/repair_guard.h"

namespace cairn::server {

// What all rebuilds of a process share, so that memory is bounded.
struct RebuildShare {
  RebuildShare(io::Executor* executor, uint64_t chunks_at_once)
      : chunks(executor, chunks_at_once), buffers(executor, 1) {}
  io::Semaphore chunks;   // One unit a chunk being made.
  io::Semaphore buffers;  // Who takes buffers: one at a time.
};

struct StripeName {
  format::BlobId blob;
  uint32_t stripe = 0;
  friend bool operator==(const StripeName&, const StripeName&) = default;
};

class ShardRebuild {
 public:
  // `repair` empty: all that the sources list.
  ShardRebuild(io::Env* env, ChunkStore* store, RebuildShare* share,
               ShardGoal goal, std::vector<wire::RebuildSource> sources,
               std::vector<StripeName> repair = {});

  // Until it is over; state() says how.
  io::Task<void> Run();
  // Ends Run() early: kFailed.
  void Stop();
  // After Run().
  io::Task<void> Close() { return sources_.Close(); }

  format::RebuildState state() const { return state_; }
  uint64_t lost_stripes() const { return lost_stripes_; }
  const ShardGoal& goal() const { return goal_; }
  const std::vector<StripeName>& repair() const { return repair_; }
  RepairGuard* guard() { return &guard_; }
  wire::RebuildShardResponse Report() const;

 private:
  io::Task<absl::Status> Count();
  io::Task<absl::Status> MakeAll(io::Gate* making);
  io::Task<absl::Status> RepairAll(io::Gate* making);
  // What the sources have of it; an error: one of them cannot say now.
  io::Task<absl::StatusOr<ListedStripe>> Look(StripeName name);
  io::Task<absl::Status> StartOne(ListedStripe stripe, io::Gate* making);
  void LogEnd() const;
  io::Task<void> MakeOne(ListedStripe stripe);
  void Note(const ListedStripe& stripe, const Made& made);

  io::Env* const env_;
  RebuildShare* const share_;
  const std::vector<StripeName> repair_;
  RepairGuard guard_;
  const ShardGoal goal_;
  Sources sources_;
  ChunkMaker maker_;
  io::CancelToken stopping_;
  format::RebuildState state_ = format::RebuildState::kRunning;
  absl::Status failure_;      // The first one.
  bool home_failed_ = false;  // It came from our own store.
  std::string away_;          // Why chunks could not be made now.
  uint64_t chunks_todo_ = 0;
  uint64_t bytes_todo_ = 0;
  uint64_t chunks_done_ = 0;
  uint64_t bytes_done_ = 0;
  uint64_t repaired_ = 0;
  uint64_t lost_stripes_ = 0;
  std::vector<wire::LostStripe> lost_;  // At most kLostStripesMax.
};

}  // namespace cairn::server
