#include "tests/sim/campaign/metadata_copy.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace cairn::sim {

using io::Task;

namespace {

constexpr char kDirectory[] = "/cluster";  // As sim_cluster.cc.

Disk* MetaDisk(const Context& context) {
  return context.world()->disk(context.cluster->meta_node());
}

InodePtr OpenMark(const Context& context, const std::string& path) {
  io::OpenOptions options;
  options.write = true;
  absl::StatusOr<InodePtr> file = MetaDisk(context)->Open(path, options);
  CAIRN_CHECK(file.ok());
  return *std::move(file);
}

}  // namespace

MetadataCopy::MetadataCopy(Context* context)
    : context_(context),
      store_(*context->cluster->meta_disk()),
      marks_(ReadMarks()) {}

MetadataCopy::Files MetadataCopy::ReadMarks() const {
  Files files;
  Disk* const disk = MetaDisk(*context_);
  const auto names = disk->List(kDirectory);
  CAIRN_CHECK(names.ok());
  for (const std::string& name : *names) {
    const std::string path = absl::StrCat(kDirectory, "/", name);
    const auto info = disk->Stat(path);
    CAIRN_CHECK(info.ok() && info->has_value());
    std::vector<uint8_t> bytes((*info)->size_bytes);
    const InodePtr file = OpenMark(*context_, path);
    CAIRN_CHECK(disk->Read(file.get(), 0, bytes).ok());
    files[path] = std::move(bytes);
  }
  return files;
}

void MetadataCopy::PutMarksBack() const {
  for (const auto& [path, bytes] : marks_) {
    const InodePtr file = OpenMark(*context_, path);
    CAIRN_CHECK(MetaDisk(*context_)->Write(file.get(), 0, bytes).ok());
  }
}

Task<void> MetadataCopy::CheckRefused() {
  SimCluster* const cluster = context_->cluster;
  cluster->KillMeta();
  CAIRN_CHECK(cluster->meta_disk()->sequence > store_.sequence);
  *cluster->meta_disk() = store_;
  KillTargets();  // Nobody else knows of a newer one.
  const bool refused = co_await CheckStart("its own mark");
  if (!refused) co_return;
  const bool started = co_await StartTargets();
  if (!started) co_return;
  PutMarksBack();
  (void)co_await CheckStart("the targets' marks");
}

void MetadataCopy::KillTargets() {
  SimCluster* const cluster = context_->cluster;
  const ClusterOptions& options = cluster->options();
  for (uint32_t t = 1; t <= options.targets; t += options.targets_per_node) {
    cluster->KillTarget(t);
  }
}

Task<bool> MetadataCopy::StartTargets() {
  SimCluster* const cluster = context_->cluster;
  const ClusterOptions& options = cluster->options();
  for (uint32_t t = 1; t <= options.targets; t += options.targets_per_node) {
    const absl::Status started = co_await cluster->StartTarget(t);
    if (started.ok()) continue;
    context_->judge->Violation(absl::StrCat(
        "target ", t, " does not start again: ", started.ToString()));
    co_return false;
  }
  co_return true;
}

// `with`: what should reveal that the copy is old.
Task<bool> MetadataCopy::CheckStart(std::string with) {
  const absl::Status started = co_await context_->cluster->StartMeta();
  if (absl::IsFailedPrecondition(started)) co_return true;
  context_->judge->Violation(
      absl::StrCat("metadata was put back from an old copy; in spite of ", with,
                   " its start says: ", started.ToString()));
  co_return false;
}

}  // namespace cairn::sim
