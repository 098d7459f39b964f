// CheckpointReader: blocking calls over set_load.h. Contract: api/checkpoint.h.
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/api/checkpoint.h"
#include "client/checkpoint/set_load.h"
#include "client/checkpoint/set_reader.h"
#include "client/core/cluster_core.h"
#include "format/path/names.h"

namespace cairn::client {

using format::TensorEntry;
using io::Task;

namespace {

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
  const uint64_t total = ViewBytes(views);
  return At(cluster_->Run<absl::Status>([&](Core* core) {
    LoadOptions load;
    load.deadline = core->Deadline(options_.timeout_ms);
    if (options_.progress) {
      load.progress = [&](uint64_t bytes) {
        done += bytes;
        options_.progress(done, total);
      };
    }
    return LoadViews(core, set_.get(), views, std::move(load));
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
