// Scenarios in which a server starts after a crash.
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/checkpoint/rank_save.h"
#include "client/checkpoint/sets.h"
#include "client/names/operations.h"
#include "format/target/chunk_record.h"
#include "format/target/index_log.h"
#include "tests/sim/crash_points/client_tasks.h"
#include "tests/sim/crash_points/scenarios.h"

namespace cairn::sim {

using format::IndexOp;
using io::Task;

namespace {

constexpr uint32_t kTarget = 1;

// The index log of a target that is down, behind its back.
class LogFile {
 public:
  LogFile(Disk* disk, const std::string& path) {
    const auto file = disk->Open(path, io::OpenOptions());
    CAIRN_CHECK(file.ok());
    inode_ = *file;
    std::vector<uint8_t> bytes(inode_->data.size_bytes());
    CAIRN_CHECK(disk->Read(inode_.get(), 0, bytes).ok());
    format::ConstBytes left = bytes;
    for (auto frame = format::DecodeIndexFrame(left); frame.ok();
         frame = format::DecodeIndexFrame(left)) {
      for (const IndexOp& op : frame->ops) {
        if (op.key == format::kStoreStateKey) state_ = op;
      }
      sequence_ = frame->sequence;
      end_ += frame->size_bytes;
      left = left.subspan(frame->size_bytes);
      if (left.empty()) break;
    }
  }

  // Says again what the store last said of itself.
  void AppendFrame() {
    const std::string frame = format::EncodeIndexFrame(++sequence_, {state_});
    inode_->data.Write(end_, format::AsBytes(frame));
    end_ += frame.size();
  }
  // Some sectors of a frame of several blocks; not the last one.
  void AppendTorn() {
    IndexOp op;
    op.key = "torn";
    op.value.assign(format::kIndexValueBytesMax, 't');
    const std::string frame =
        format::EncodeIndexFrame(sequence_ + 1, {op, op, op});
    const auto bytes = format::AsBytes(frame);
    CAIRN_CHECK(bytes.size() > 11 * kSectorBytes);
    inode_->data.Write(end_, bytes.first(3 * kSectorBytes));
    inode_->data.Write(end_ + 9 * kSectorBytes,
                       bytes.subspan(9 * kSectorBytes, 2 * kSectorBytes));
  }
  void Flush() { inode_->data.FlushUpTo(inode_->data.last_change()); }
  uint64_t end() const { return end_; }

 private:
  InodePtr inode_;
  IndexOp state_;
  uint64_t sequence_ = 0;
  uint64_t end_ = 0;
};

class TargetStartScenario final : public Scenario {
 public:
  explicit TargetStartScenario(LogEnd end) : log_end_(end) {}

  ClusterOptions Cluster(uint64_t seed) const override {
    ClusterOptions options = SmallCluster(seed, "replicate:1");
    options.targets = 2;
    return options;
  }
  bool Counts(uint32_t server) const override { return server == kTarget; }

  void Prepare(Stage* stage) override {
    client::Core* const core = stage->NewClient("maker")->core();
    if (stage->violated()) return;
    SimCluster* const cluster = stage->cluster();
    model_ = MakeSampleModel(1, 80 * format::kKiB);
    stage->MakeFile("/doomed", PatternBytes(2, 200'000));
    stage->MakeSet("/ckpt/kept", &model_);
    stage->files.erase("/doomed");
    stage->Must(
        cluster->Await(client::UnlinkPath(core, "/doomed", core->Deadline())),
        "unlink");
    stage->CloseClients();
    cluster->Sleep(20 * io::kSecond);                    // Erased from the log.
    stage->MakeFile("/kept", PatternBytes(3, 120'000));  // In its place.
    stage->CloseClients();
    cluster->KillTarget(kTarget);
    SpoilLog(cluster);
  }

  // That the server comes up is all there is to do.
  Task<void> Act(Stage* stage) override {
    while (!stage->cluster()->TargetRuns(kTarget) ||
           stage->cluster()->store(kTarget) == nullptr) {
      if (stage->violated()) co_return;
      co_await io::SleepFor(stage->world(), io::kMillisecond);
    }
    stage->finished = true;
  }

  void Check(Stage* stage) override {
    const server::StoreStats stats = stage->cluster()->store(kTarget)->stats();
    if (!stats.failed.empty()) stage->Violation(stats.failed);
    if (stats.chunks == 0) stage->Violation("the target has no chunks");
  }

  void Repeat(Stage* stage) override {
    SimCluster* const cluster = stage->cluster();
    cluster->CrashTarget(kTarget);
    stage->Must(cluster->Await(cluster->StartTarget(kTarget)),
                "starting it again");
    if (!stage->violated()) {
      stage->MakeFile("/again", PatternBytes(4, 200'000));
    }
  }

 private:
  void SpoilLog(SimCluster* cluster) {
    Disk* const disk = cluster->world()->disk(cluster->TargetNode(kTarget));
    LogFile log(disk, cluster->TargetDirectory(kTarget) + "/index/log");
    switch (log_end_) {
      case LogEnd::kTorn:
        log.AppendTorn();
        log.Flush();
        return;
      case LogEnd::kUnflushed:
        log.AppendFrame();
        return;
      case LogEnd::kLong:
        while (log.end() <= 4 * format::kMiB) log.AppendFrame();
        log.AppendTorn();
        log.Flush();
        return;
    }
  }

  const LogEnd log_end_;
  SampleModel model_;
};

class MetaStartScenario final : public Scenario {
 public:
  ClusterOptions Cluster(uint64_t seed) const override {
    return SmallCluster(seed, "rs:2+1");
  }
  bool Counts(uint32_t server) const override { return server == 0; }

  void Prepare(Stage* stage) override {
    client::Core* const core = stage->NewClient("maker")->core();
    if (stage->violated()) return;
    SimCluster* const cluster = stage->cluster();
    model_ = MakeSampleModel(1, 60 * format::kKiB);
    stage->MakeFile("/kept", PatternBytes(2, 70'000));
    stage->MakeFile("/doomed", PatternBytes(3, 70'000));
    stage->MakeSet("/ckpt/kept", &model_);
    stage->MakeSet("/ckpt/doomed", &model_);
    stage->files.erase("/doomed");
    stage->sets.erase("/ckpt/doomed");
    // One of two ranks, so that a set stays open.
    SetSave half{"/ckpt/half", &model_, 1, 2};
    stage->Must(cluster->Await(WriteSample(stage->NewClient("rank")->core(),
                                           RankOptions(half, 0), &model_)),
                "half a save");
    stage->Must(
        cluster->Await(client::UnlinkPath(core, "/doomed", core->Deadline())),
        "unlink");
    stage->Must(cluster->Await(client::RemoveSetAt(core, "/ckpt/doomed",
                                                   core->Deadline())),
                "removing a set");
    writer_ = core;
    if (!stage->violated()) cluster->CrashMeta();
  }

  // The first rounds of the background loops come within it, too.
  Task<void> Act(Stage* stage) override {
    written_ = co_await WriteWhole(writer_, "/new", PatternBytes(4, 50'000));
    co_await io::SleepFor(stage->world(), 1500 * io::kMillisecond);
    stage->finished = written_.ok();
  }

  void Check(Stage* stage) override {
    stage->MayFailCleanly(written_, "writing beside the start");
    if (written_.ok()) stage->files["/new"] = PatternBytes(4, 50'000);
    client::Core* const core = stage->NewClient("looker")->core();
    if (stage->violated()) return;
    for (const char* const path : {"/doomed", "/ckpt/doomed", "/ckpt/half"}) {
      const auto sample =
          stage->cluster()->Await(ReadOrLoad(core, path, &model_));
      if (!absl::IsNotFound(sample)) {
        stage->Violation(
            absl::StrCat(path, " must not be there: ", sample.ToString()));
      }
    }
  }

  // The other rank of the open set, by a new attempt of both.
  void Repeat(Stage* stage) override {
    SetSave whole{"/ckpt/half", &model_, 2, 2};
    stage->Must(
        stage->cluster()->Await(SaveWithNewClients(stage, std::move(whole))),
        "saving the set that was half saved");
    stage->sets["/ckpt/half"] = &model_;
    stage->CloseClients();
    if (!stage->violated()) {
      stage->MakeFile("/new", PatternBytes(5, 20'000));
    }
  }

 private:
  static Task<absl::Status> ReadOrLoad(client::Core* core, std::string path,
                                       const SampleModel* model) {
    if (path == "/doomed") {
      const auto file = co_await ReadWhole(core, path);
      if (!file.ok()) co_return file.status();
      if (file->has_value()) co_return absl::OkStatus();
      co_return absl::NotFoundError(path);
    }
    const auto loaded = co_await LoadSample(core, path, model, 0, 1);
    co_return loaded.status();
  }

  SampleModel model_;
  client::Core* writer_ = nullptr;
  absl::Status written_;
};

}  // namespace

std::unique_ptr<Scenario> MakeTargetStartScenario(LogEnd end) {
  return std::make_unique<TargetStartScenario>(end);
}

std::unique_ptr<Scenario> MakeMetaStartScenario() {
  return std::make_unique<MetaStartScenario>();
}

}  // namespace cairn::sim
