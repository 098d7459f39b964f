#include "client/checkpoint/load_plan.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "format/base/status.h"
#include "format/path/names.h"

namespace cairn::client {

using format::TensorEntry;
using format::TensorPart;

namespace {

std::string ShapeText(const std::vector<uint64_t>& shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

absl::Status CheckMatches(const TensorEntry& entry,
                          const TensorLayout& layout) {
  const std::string name = format::EscapeForDisplay(entry.name);
  if (entry.dtype != layout.dtype) {
    return absl::InvalidArgumentError(absl::StrCat(
        "tensor '", name, "' was saved as ",
        AbslText(format::DtypeName(entry.dtype)), ", asked for as ",
        AbslText(format::DtypeName(layout.dtype)),
        "; loads never cast: use the saved type"));
  }
  if (entry.shape != layout.global_shape) {
    return absl::InvalidArgumentError(
        absl::StrCat("tensor '", name, "' was saved with the global shape ",
                     ShapeText(entry.shape), ", asked for with ",
                     ShapeText(layout.global_shape)));
  }
  return absl::OkStatus();
}

// Splits a run that is dense in the slice where the memory is not contiguous.
void AddRun(const TensorLayout& layout, uint8_t* data, uint64_t file_offset,
            uint64_t at, uint64_t length, std::vector<LoadRun>* runs) {
  while (length > 0) {
    const TensorLayout::Place place = layout.Find(at);
    const uint64_t take = std::min(place.contiguous, length);
    runs->push_back({file_offset, take, data + place.memory_offset});
    file_offset += take;
    at += take;
    length -= take;
  }
}

// Parts are sorted by offset, so copies of one slice are neighbours.
size_t CopiesFrom(const std::vector<TensorPart>& parts, size_t first) {
  size_t end = first + 1;
  while (end < parts.size() && parts[end].offset == parts[first].offset &&
         parts[end].shape == parts[first].shape) {
    ++end;
  }
  return end - first;
}

}  // namespace

absl::Status AddToPlan(const TensorEntry& entry, const TensorLayout& layout,
                       uint8_t* data, uint64_t reader_seed, LoadPlan* plan) {
  CAIRN_RETURN_IF_ERROR(CheckMatches(entry, layout));
  uint64_t covered = 0;
  for (size_t i = 0; i < entry.parts.size();) {
    const size_t copies = CopiesFrom(entry.parts, i);
    const TensorPart& part = entry.parts[i + reader_seed % copies];
    i += copies;
    const format::Slice from{part.offset, part.shape};
    CAIRN_ASSIGN_OR_RETURN(
        const std::vector<format::CopyRun> runs,
        format::IntersectRuns(entry.dtype, from, layout.slice));
    for (const format::CopyRun& run : runs) {
      AddRun(layout, data, part.file_offset + run.from_offset, run.to_offset,
             run.length, &(*plan)[part.rank]);
      covered += run.length;
    }
  }
  if (covered != layout.bytes) {
    return absl::DataLossError(absl::StrCat(
        "tensor '", format::EscapeForDisplay(entry.name), "': the set holds ",
        covered, " of the ", layout.bytes, " bytes of the slice"));
  }
  return absl::OkStatus();
}

void SortPlan(LoadPlan* plan) {
  for (auto& [rank, runs] : *plan) {
    std::sort(runs.begin(), runs.end(), [](const LoadRun& a, const LoadRun& b) {
      return a.file_offset < b.file_offset;
    });
  }
}

uint64_t PlanBytes(const LoadPlan& plan) {
  uint64_t bytes = 0;
  for (const auto& [rank, runs] : plan) {
    for (const LoadRun& run : runs) bytes += run.length;
  }
  return bytes;
}

}  // namespace cairn::client
