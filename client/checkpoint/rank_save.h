// One rank's side of a save, as tasks on the loop. What callers outside see of
// it is CheckpointWriter (api/checkpoint.h), which says what each error means.
//
//   absl::StatusOr<OpenedSet> opened = co_await OpenSet(core, options);
//   co_await SaveRank({core, &options, *opened, &items});   // Durable.
//   co_await WaitSet(core, opened->set, options.attempt, deadline);
//
// Threads:  loop only, except CheckWriterOptions() and the makers of items.
// Lifetime: options, items and the tensors' memory outlive the tasks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "client/api/checkpoint.h"
#include "client/checkpoint/rank_file.h"
#include "client/core/core.h"
#include "io/task.h"

namespace cairn::client {

struct OpenedSet {
  uint64_t set = 0;
  format::PoolId pool;
};

// Everything one rank writes.
struct RankSave {
  Core* core;
  const CheckpointWriter::Options* options;
  OpenedSet opened;
  const std::vector<RankItem>* items;
};

// kInvalidArgument: world size, rank or set id.
absl::Status CheckWriterOptions(const CheckpointWriter::Options& options);

// kInvalidArgument: shape, offset, strides or dtype do not fit.
absl::StatusOr<RankItem> MakeTensorItem(TensorView tensor);
absl::StatusOr<RankItem> MakeBytesItem(std::string name, std::string bytes);

// Claims the rank. Errors as CheckpointWriter::Open(), which checks the options
// first; kNotFound: no such pool.
io::Task<absl::StatusOr<OpenedSet>> OpenSet(Core* core,
                                            CheckpointWriter::Options options);

// Writes the rank's file and commits it; does not wait for other ranks.
// OK: durable. After an error nothing of it is in the set.
io::Task<absl::Status> SaveRank(RankSave save);

// OK: published. kDeadlineExceeded names the missing ranks. kAborted: fenced.
// kFailedPrecondition: the set can never be published.
io::Task<absl::Status> WaitSet(Core* core, uint64_t set, uint64_t attempt,
                               io::TimeNs deadline);

}  // namespace cairn::client
