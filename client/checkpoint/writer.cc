// CheckpointWriter: blocking calls over rank_save.h. Contract:
// api/checkpoint.h.
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/api/checkpoint.h"
#include "client/checkpoint/rank_save.h"
#include "client/core/cluster_core.h"
#include "format/path/names.h"

namespace cairn::client {

using io::Task;

namespace {

class WriterImpl final : public CheckpointWriter {
 public:
  WriterImpl(ClusterCore* cluster, Options options, OpenedSet opened)
      : cluster_(cluster), options_(std::move(options)), opened_(opened) {}

  absl::Status AddTensor(TensorView tensor) override {
    return Add(MakeTensorItem(std::move(tensor)));
  }
  absl::Status AddBytes(std::string name, std::string bytes) override {
    return Add(MakeBytesItem(std::move(name), std::move(bytes)));
  }
  absl::Status WriteAndCommitRank() override;
  absl::Status WaitPublished() override;

 private:
  absl::Status Add(absl::StatusOr<RankItem> item);
  absl::Status At(absl::Status status) const {
    return Annotate(std::move(status),
                    absl::StrCat(format::EscapeForDisplay(options_.path),
                                 " rank ", options_.rank));
  }
  ClusterCore* const cluster_;
  const Options options_;
  const OpenedSet opened_;
  std::vector<RankItem> items_;
  bool written_ = false;
};

absl::Status WriterImpl::Add(absl::StatusOr<RankItem> item) {
  if (!item.ok()) return At(item.status());
  items_.push_back(*std::move(item));
  return absl::OkStatus();
}

absl::Status WriterImpl::WriteAndCommitRank() {
  if (written_) {
    return At(absl::FailedPreconditionError("written already: one use only"));
  }
  written_ = true;
  return At(cluster_->Run<absl::Status>([this](Core* core) {
    return SaveRank(RankSave{core, &options_, opened_, &items_});
  }));
}

absl::Status WriterImpl::WaitPublished() {
  return At(cluster_->Run<absl::Status>([this](Core* core) {
    return WaitSet(core, opened_.set, options_.attempt,
                   core->Deadline(options_.timeout_ms));
  }));
}

}  // namespace

absl::StatusOr<std::unique_ptr<CheckpointWriter>> CheckpointWriter::Open(
    Cluster* cluster, Options options) {
  CAIRN_RETURN_IF_ERROR(CheckWriterOptions(options));
  auto opened = cluster->core()->Run<absl::StatusOr<OpenedSet>>(
      [&](Core* core) { return OpenSet(core, options); });
  if (!opened.ok()) {
    return Annotate(opened.status(),
                    absl::StrCat(format::EscapeForDisplay(options.path),
                                 " rank ", options.rank));
  }
  return std::make_unique<WriterImpl>(cluster->core(), std::move(options),
                                      *opened);
}

}  // namespace cairn::client
