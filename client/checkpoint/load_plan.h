// What to read for a load: which bytes of which rank's file go where.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "absl/status/statusor.h"
#include "client/checkpoint/tensor_layout.h"
#include "format/checkpoint/manifest.h"

namespace cairn::client {

// A run of a rank file's bytes and the memory it belongs in.
struct LoadRun {
  uint64_t file_offset = 0;
  uint64_t length = 0;
  uint8_t* to = nullptr;
};

// By rank.
using LoadPlan = std::map<uint32_t, std::vector<LoadRun>>;

// Adds the runs that fill `layout` (memory at `data`) from `entry`. Where
// several ranks hold the same slice, `reader_seed` picks one, so that many
// readers spread over them.
// kInvalidArgument: dtype or global shape differ; a sub-byte cut.
// kDataLoss: the entry's parts do not cover the slice.
absl::Status AddToPlan(const format::TensorEntry& entry,
                       const TensorLayout& layout, uint8_t* data,
                       uint64_t reader_seed, LoadPlan* plan);

// Sorts each rank's runs by file offset.
void SortPlan(LoadPlan* plan);

uint64_t PlanBytes(const LoadPlan& plan);

}  // namespace cairn::client
