#include "client/checkpoint/run_reader.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "client/core/limits.h"
#include "format/base/fault_points.h"

namespace cairn::client {

using format::Extent;
using io::Task;

namespace {

enum class Join { kNo, kDirect, kScatter };

// A few long runs in a row are one gather list; many short ones go through a
// buffer, which they must fit.
Join HowToJoin(const RangeRead& range, const LoadRun& run) {
  const uint64_t end = range.file_offset + range.length;
  const bool both_short =
      run.length < kGatherRunBytes &&
      (range.scatter || range.runs.back().length < kGatherRunBytes);
  if (!both_short) {
    return run.file_offset == end && !range.scatter ? Join::kDirect : Join::kNo;
  }
  // Several runs that are no scatter: one of them is long, and must stay so.
  if (!range.scatter && range.runs.size() > 1) return Join::kNo;
  const uint64_t joined = run.file_offset + run.length - range.file_offset;
  const bool near = run.file_offset >= end &&
                    run.file_offset - end < kScatterGapBytes &&
                    joined <= format::kChunkBytesMax;
  return near ? Join::kScatter : Join::kNo;
}

}  // namespace

std::vector<RangeRead> GroupRuns(const std::vector<LoadRun>& runs) {
  std::vector<RangeRead> ranges;
  for (const LoadRun& run : runs) {
    const Join join =
        ranges.empty() ? Join::kNo : HowToJoin(ranges.back(), run);
    if (join == Join::kNo) {
      ranges.push_back({run.file_offset, run.length, {run}, false});
      continue;
    }
    RangeRead& range = ranges.back();
    range.scatter = range.scatter || join == Join::kScatter;
    range.length = run.file_offset + run.length - range.file_offset;
    range.runs.push_back(run);
  }
  return ranges;
}

namespace {

// The extents of [offset, offset + length), each with its part of `to`.
absl::Status MapRange(const format::ExtentMap& extents, uint64_t offset,
                      uint64_t length, const MutableGather& to,
                      std::vector<ExtentRead>* reads) {
  uint64_t at = offset;
  GatherCursor<uint8_t> cursor(to);
  for (const Extent& extent : extents.Find(offset, length)) {
    if (extent.file_offset != at) break;
    ExtentRead read;
    read.extent = extent;
    cursor.Take(extent.length, UINT64_MAX, &read.to);
    reads->push_back(std::move(read));
    at = extent.file_end();
  }
  if (at == offset + length) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("the set's file has a hole at byte ",
                                          at, ", inside saved data"));
}

struct Scattered {
  Core* core;
  const format::ExtentMap* extents;
  const ReadOptions* options;
  absl::Status failure;
};

Task<void> ReadAndScatter(Scattered* shared, const RangeRead* range,
                          io::Buffer buffer) {
  MutableGather to(1, buffer.bytes().first(range->length));
  std::vector<ExtentRead> reads;
  absl::Status status =
      MapRange(*shared->extents, range->file_offset, range->length, to, &reads);
  ReadOptions options = *shared->options;
  if (status.ok()) {
    status = co_await ReadExtents(shared->core, std::move(reads),
                                  std::move(options));
  }
  if (!status.ok()) {
    if (shared->failure.ok()) shared->failure = std::move(status);
    co_return;
  }
  for (const LoadRun& run : range->runs) {
    std::memcpy(run.to,
                buffer.bytes().data() + (run.file_offset - range->file_offset),
                run.length);
  }
}

Task<absl::Status> ReadScattered(Core* core, const format::ExtentMap* extents,
                                 const std::vector<RangeRead>* ranges,
                                 const ReadOptions* options) {
  Scattered shared{core, extents, options, absl::OkStatus()};
  io::Gate gate(core->env());
  for (const RangeRead& range : *ranges) {
    if (!range.scatter || !shared.failure.ok()) continue;
    CAIRN_SOMETIMES(true, "client.load.scattered");
    io::Buffer buffer =
        co_await core->env()->pool()->Acquire(range.length, options->deadline);
    if (!buffer) {
      shared.failure = absl::DeadlineExceededError("no buffer in time");
      break;
    }
    gate.Spawn(ReadAndScatter(&shared, &range, std::move(buffer)));
    if (gate.in_flight() >= kStagingBuffersMax) co_await gate.Close();
  }
  co_await gate.Close();
  co_return shared.failure;
}

}  // namespace

Task<absl::Status> ReadRanges(Core* core, const format::ExtentMap* extents,
                              std::vector<RangeRead> ranges,
                              ReadOptions options) {
  std::vector<ExtentRead> direct;
  for (const RangeRead& range : ranges) {
    if (range.scatter) continue;
    MutableGather to;
    for (const LoadRun& run : range.runs) to.emplace_back(run.to, run.length);
    CAIRN_CO_RETURN_IF_ERROR(
        MapRange(*extents, range.file_offset, range.length, to, &direct));
  }
  const ReadOptions copy = options;
  CAIRN_CO_RETURN_IF_ERROR(
      co_await ReadExtents(core, std::move(direct), std::move(options)));
  co_return co_await ReadScattered(core, extents, &ranges, &copy);
}

}  // namespace cairn::client
