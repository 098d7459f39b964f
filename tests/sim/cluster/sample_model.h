// A model to save and load: tensors whose every byte follows from a seed, cut
// in several ways among any number of ranks; and tasks that save it as one rank
// and load it as one of others.
//
// Cuts: tensor 0, 3, 6... by rows, 1, 4, 7... by columns (strided in memory),
//       2, 5, 8... whole, on one rank. Each rank also saves opaque bytes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "client/api/checkpoint.h"
#include "client/core/core.h"
#include "io/task.h"

namespace cairn::sim {

struct SampleTensor {
  std::string name;
  client::Dtype dtype = client::Dtype::kF32;
  std::vector<uint64_t> shape;
  std::vector<uint8_t> bytes;  // The whole tensor, dense.
};

struct SampleModel {
  std::vector<SampleTensor> tensors;
  bool rows_only = false;  // Cut all by rows.
  uint64_t bytes() const;
};

// About `bytes` bytes in about a dozen tensors, an empty one and a scalar too.
SampleModel MakeSampleModel(uint64_t seed, uint64_t bytes);

// A rank's part of a tensor: dimension cut, first index and how many.
struct SampleCut {
  std::vector<uint64_t> offset;
  std::vector<uint64_t> shape;
  bool empty = false;  // Nothing for this rank.
};
SampleCut CutFor(const SampleModel& model, size_t tensor, uint32_t rank,
                 uint32_t ranks);

// Opens the set, writes the rank's part, commits and waits for the set.
// Errors as CheckpointWriter.
io::Task<absl::Status> SaveSample(client::Core* core,
                                  client::CheckpointWriter::Options options,
                                  const SampleModel* model);

// The same without waiting for other ranks.
io::Task<absl::Status> WriteSample(client::Core* core,
                                   client::CheckpointWriter::Options options,
                                   const SampleModel* model);

// Loads the part of rank `rank` of `ranks` and holds it against the model.
// kInternal: bytes came that are not the model's. Otherwise as
// CheckpointReader. The result: bytes of all slices asked for.
io::Task<absl::StatusOr<uint64_t>> LoadSample(client::Core* core,
                                              std::string path,
                                              const SampleModel* model,
                                              uint32_t rank, uint32_t ranks);

}  // namespace cairn::sim
