#include "client/checkpoint/set_load.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/checkpoint/load_plan.h"
#include "client/checkpoint/run_reader.h"
#include "format/base/fault_points.h"
#include "format/path/names.h"

namespace cairn::client {

using format::TensorEntry;
using io::Task;
using io::TimeNs;

TensorInfo ToInfo(const TensorEntry& entry) {
  TensorInfo info;
  info.name = entry.name;
  info.opaque = entry.kind == format::EntryKind::kOpaque;
  info.dtype = entry.dtype;
  info.shape = entry.shape;
  info.bytes = format::TensorBytes(entry.dtype, entry.shape).value_or(0);
  for (const format::TensorPart& part : entry.parts) {
    info.parts.push_back(
        {part.rank, part.offset, part.shape, part.length, part.xxh3});
  }
  return info;
}

uint64_t ViewBytes(std::span<const MutableTensorView> views) {
  uint64_t bytes = 0;
  for (const MutableTensorView& view : views) {
    const auto& shape = view.shape.empty() ? view.global_shape : view.shape;
    bytes += format::TensorBytes(view.dtype, shape).value_or(0);
  }
  return bytes;
}

namespace {

// A load in progress.
struct Load {
  Core* core;
  SetReader* set;
  LoadOptions options;
  absl::Status failure;
};

Task<absl::StatusOr<LoadPlan>> MakePlan(
    Load* load, std::span<const MutableTensorView> views) {
  // In order of name, so that each block of the manifest is fetched once.
  std::vector<const MutableTensorView*> sorted;
  for (const MutableTensorView& view : views) sorted.push_back(&view);
  std::stable_sort(
      sorted.begin(), sorted.end(),
      [](const auto* a, const auto* b) { return a->name < b->name; });
  LoadPlan plan;
  const uint64_t seed = load->core->env()->Random();
  for (const MutableTensorView* view : sorted) {
    ViewShape shape{view->name,           view->dtype, view->global_shape,
                    view->offset,         view->shape, view->strides,
                    view->data != nullptr};
    absl::StatusOr<TensorLayout> layout = MakeLayout(shape);
    if (!layout.ok()) co_return layout.status();
    absl::StatusOr<std::optional<TensorEntry>> entry =
        co_await load->set->FindEntry(view->name, load->options.deadline);
    if (!entry.ok()) co_return entry.status();
    if (!entry->has_value()) {
      co_return absl::NotFoundError(absl::StrCat(
          "no tensor '", format::EscapeForDisplay(view->name), "' in the set"));
    }
    CAIRN_CO_RETURN_IF_ERROR(AddToPlan(
        **entry, *layout, static_cast<uint8_t*>(view->data), seed, &plan));
  }
  SortPlan(&plan);
  co_return plan;
}

Task<void> LoadFile(Load* load, uint32_t rank,
                    const std::vector<LoadRun>* runs) {
  absl::StatusOr<const format::ExtentMap*> extents =
      co_await load->set->FileExtents(rank, load->options.deadline);
  absl::Status status = extents.status();
  if (status.ok()) {
    ReadOptions options;
    options.deadline = load->options.deadline;
    options.traffic_class = format::TrafficClass::kDatasetRead;
    options.progress = load->options.progress;
    status = co_await ReadRanges(load->core, *extents, GroupRuns(*runs),
                                 std::move(options));
  }
  if (!status.ok() && load->failure.ok()) {
    load->failure = Annotate(std::move(status), absl::StrCat("rank ", rank));
  }
}

}  // namespace

Task<absl::Status> LoadViews(Core* core, SetReader* set,
                             std::span<const MutableTensorView> views,
                             LoadOptions options) {
  Load load{core, set, std::move(options), absl::OkStatus()};
  absl::StatusOr<LoadPlan> plan = co_await MakePlan(&load, views);
  if (!plan.ok()) co_return plan.status();
  io::Gate gate(core->env());
  for (const auto& [rank, runs] : *plan) {
    if (!load.failure.ok()) break;
    gate.Spawn(LoadFile(&load, rank, &runs));
    if (gate.in_flight() >= kFilesInParallel ||
        CAIRN_FAULT_POINT("client.load.file_by_file")) {
      co_await gate.Close();
    }
  }
  co_await gate.Close();
  co_return load.failure;
}

Task<absl::StatusOr<std::optional<TensorInfo>>> FindInfo(SetReader* set,
                                                         std::string name,
                                                         TimeNs deadline) {
  absl::StatusOr<std::optional<TensorEntry>> entry =
      co_await set->FindEntry(std::move(name), deadline);
  if (!entry.ok()) co_return entry.status();
  if (!entry->has_value()) co_return std::nullopt;
  co_return std::optional<TensorInfo>(ToInfo(**entry));
}

}  // namespace cairn::client
