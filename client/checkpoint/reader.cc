// CheckpointReader: loading from a set. Contract: api/checkpoint.h.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/api/checkpoint.h"
#include "client/checkpoint/load_plan.h"
#include "client/checkpoint/run_reader.h"
#include "client/checkpoint/set_reader.h"
#include "client/core/cluster_core.h"
#include "format/path/names.h"

namespace cairn::client {

using format::TensorEntry;
using io::Task;
using io::TimeNs;

namespace {

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

// A load in progress.
struct Load {
  Core* core;
  SetReader* set;
  TimeNs deadline;
  ReadOptions options;
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
        co_await load->set->FindEntry(view->name, load->deadline);
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
      co_await load->set->FileExtents(rank, load->deadline);
  absl::Status status = extents.status();
  if (status.ok()) {
    ReadOptions options = load->options;
    status = co_await ReadRanges(load->core, *extents, GroupRuns(*runs),
                                 std::move(options));
  }
  if (!status.ok() && load->failure.ok()) {
    load->failure = Annotate(std::move(status), absl::StrCat("rank ", rank));
  }
}

Task<absl::Status> LoadViews(Load load,
                             std::span<const MutableTensorView> views) {
  absl::StatusOr<LoadPlan> plan = co_await MakePlan(&load, views);
  if (!plan.ok()) co_return plan.status();
  io::Gate gate(load.core->env());
  for (const auto& [rank, runs] : *plan) {
    if (!load.failure.ok()) break;
    gate.Spawn(LoadFile(&load, rank, &runs));
    if (gate.in_flight() >= kFilesInParallel) co_await gate.Close();
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

using Entries = std::shared_ptr<const std::vector<TensorEntry>>;
using OpenResult = absl::StatusOr<std::unique_ptr<SetReader>>;

Task<bool> DestroyOnLoop(std::unique_ptr<SetReader>* set) {
  set->reset();
  co_return true;
}

class ReaderImpl final : public CheckpointReader {
 public:
  ReaderImpl(ClusterCore* cluster, Options options,
             std::unique_ptr<SetReader> set)
      : cluster_(cluster), options_(std::move(options)), set_(std::move(set)) {}
  ~ReaderImpl() override {
    cluster_->Run<bool>([this](Core*) { return DestroyOnLoop(&set_); });
  }

  const SetSummary& summary() const override { return set_->summary(); }
  absl::Status ForEachTensor(
      const std::function<bool(const TensorInfo&)>& visit) override;
  absl::StatusOr<std::optional<TensorInfo>> FindTensor(
      const std::string& name) override;
  absl::Status Load(std::span<const MutableTensorView> views) override;
  absl::StatusOr<std::string> LoadBytes(const std::string& name) override;

 private:
  absl::Status At(absl::Status status) const {
    return Annotate(std::move(status), format::EscapeForDisplay(options_.path));
  }
  ClusterCore* const cluster_;
  const Options options_;
  std::unique_ptr<SetReader> set_;
};

absl::Status ReaderImpl::ForEachTensor(
    const std::function<bool(const TensorInfo&)>& visit) {
  const auto blocks = set_->header().block_first_names.size();
  for (uint32_t block = 0; block < blocks; ++block) {
    auto entries = cluster_->Run<absl::StatusOr<Entries>>([&](Core* core) {
      return set_->Block(block, core->Deadline(options_.timeout_ms));
    });
    if (!entries.ok()) return At(entries.status());
    for (const TensorEntry& entry : **entries) {
      if (!visit(ToInfo(entry))) return absl::OkStatus();
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::optional<TensorInfo>> ReaderImpl::FindTensor(
    const std::string& name) {
  auto found =
      cluster_->Run<absl::StatusOr<std::optional<TensorInfo>>>([&](Core* core) {
        return FindInfo(set_.get(), name, core->Deadline(options_.timeout_ms));
      });
  if (!found.ok()) return At(found.status());
  return found;
}

absl::Status ReaderImpl::Load(std::span<const MutableTensorView> views) {
  uint64_t done = 0;
  uint64_t total = 0;
  for (const MutableTensorView& view : views) {
    const auto& shape = view.shape.empty() ? view.global_shape : view.shape;
    total += format::TensorBytes(view.dtype, shape).value_or(0);
  }
  return At(cluster_->Run<absl::Status>([&](Core* core) {
    client::Load load{core,
                      set_.get(),
                      core->Deadline(options_.timeout_ms),
                      {},
                      absl::OkStatus()};
    load.options.deadline = load.deadline;
    load.options.traffic_class = format::TrafficClass::kDatasetRead;
    if (options_.progress) {
      load.options.progress = [&](uint64_t bytes) {
        done += bytes;
        options_.progress(done, total);
      };
    }
    return LoadViews(std::move(load), views);
  }));
}

absl::StatusOr<std::string> ReaderImpl::LoadBytes(const std::string& name) {
  CAIRN_ASSIGN_OR_RETURN(const std::optional<TensorInfo> info,
                         FindTensor(name));
  if (!info.has_value()) {
    return At(absl::NotFoundError(absl::StrCat(
        "no entry '", format::EscapeForDisplay(name), "' in the set")));
  }
  std::string bytes(info->bytes, '\0');
  MutableTensorView view;
  view.name = name;
  view.dtype = info->dtype;
  view.global_shape = info->shape;
  view.data = bytes.data();
  CAIRN_RETURN_IF_ERROR(Load({&view, 1}));
  return bytes;
}

}  // namespace

absl::StatusOr<std::unique_ptr<CheckpointReader>> CheckpointReader::Open(
    Cluster* cluster, Options options) {
  OpenResult set = cluster->core()->Run<OpenResult>([&](Core* core) {
    return SetReader::Open(core, options.path,
                           core->Deadline(options.timeout_ms));
  });
  if (!set.ok()) {
    return Annotate(set.status(), format::EscapeForDisplay(options.path));
  }
  return std::make_unique<ReaderImpl>(cluster->core(), std::move(options),
                                      *std::move(set));
}

}  // namespace cairn::client
