// Carries out a load plan: reads runs of a rank's file into user memory.
//
// Long runs arrive straight in their place. Short ones (strided or column
// slices) that lie close together in the file are read as one range into a
// pool buffer and scattered from there: the bytes between them, less than
// kScatterGapBytes each, are read in vain.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "client/blob/blob_reader.h"
#include "client/checkpoint/load_plan.h"
#include "client/core/core.h"
#include "format/extent/extent_map.h"

namespace cairn::client {

// One read of a contiguous range of the file.
struct RangeRead {
  uint64_t file_offset = 0;
  uint64_t length = 0;
  std::vector<LoadRun> runs;  // Inside the range, sorted.
  bool scatter = false;       // Through a buffer; else `runs` fill it exactly.
};

// Groups sorted runs. No range is longer than kChunkBytesMax if it scatters.
std::vector<RangeRead> GroupRuns(const std::vector<LoadRun>& runs);

// Reads all ranges of one file, whose extents are `extents`.
// kDataLoss: the extents do not cover a range.
io::Task<absl::Status> ReadRanges(Core* core, const format::ExtentMap* extents,
                                  std::vector<RangeRead> ranges,
                                  ReadOptions options);

}  // namespace cairn::client
