#include <utility>

#include "absl/strings/str_cat.h"
#include "client/checkpoint/sets.h"
#include "client/names/operations.h"
#include "tests/sim/crash_points/client_tasks.h"
#include "tests/sim/crash_points/scenarios.h"

namespace cairn::sim {

using io::Task;

namespace {

constexpr char kFile[] = "/d/doomed";
constexpr char kSet[] = "/ckpt/doomed";
constexpr char kFresh[] = "/d/fresh";
constexpr io::TimeNs kLook = 100 * io::kMillisecond;

class DeleteScenario final : public Scenario {
 public:
  explicit DeleteScenario(std::string scheme) : scheme_(std::move(scheme)) {}

  ClusterOptions Cluster(uint64_t seed) const override {
    return SmallCluster(seed, scheme_);
  }

  void Prepare(Stage* stage) override {
    old_ = PatternBytes(1, 100'000);
    fresh_ = PatternBytes(2, 160'000);
    model_ = MakeSampleModel(3, 60 * format::kKiB);
    kept_ = MakeSampleModel(4, 40 * format::kKiB);
    client::Core* const core = stage->NewClient("maker")->core();
    if (stage->violated()) return;
    stage->Must(stage->cluster()->Await(client::MakeDirectories(
                    core, "/d", 0755, core->Deadline())),
                "mkdir");
    stage->MakeFile("/d/kept", PatternBytes(5, 30'000));
    stage->MakeSet("/ckpt/kept", &kept_);
    CountChunks(stage, &chunks_kept_);
    stage->MakeFile(kFile, old_);
    stage->MakeSet(kSet, &model_);
    stage->files.erase(kFile);
    stage->sets.erase(kSet);
    stage->CloseClients();  // Nobody has what is removed open.
    worker_ = stage->NewClient("worker");
  }

  Task<void> Act(Stage* stage) override {
    client::Core* const core = worker_->core();
    unlinked_ = co_await client::UnlinkPath(core, kFile, core->Deadline());
    removed_ = co_await client::RemoveSetAt(core, kSet, core->Deadline());
    // Even if this is in vain, grace times pass in it.
    freed_ = co_await AwaitFreed(stage);
    written_ = co_await WriteWhole(core, kFresh, fresh_);
    stage->finished =
        unlinked_.ok() && removed_.ok() && freed_ && written_.ok();
  }

  void Check(Stage* stage) override {
    stage->MayFailCleanly(unlinked_, "unlink");
    stage->MayFailCleanly(removed_, "removal of the set");
    stage->MayFailCleanly(written_, "the new file");
    if (unlinked_.ok() && removed_.ok() && !freed_) {
      stage->Violation("chunks are not freed");
    }
    client::Core* const core = stage->NewClient("looker")->core();
    if (!stage->violated()) CheckDoomed(stage, core);
    if (!stage->violated()) CheckFresh(stage, core);
  }

  void Repeat(Stage* stage) override {
    client::Core* const core = stage->NewClient("again")->core();
    if (stage->violated()) return;
    SimCluster* const cluster = stage->cluster();
    const absl::Status unlinked =
        cluster->Await(client::UnlinkPath(core, kFile, core->Deadline()));
    if (file_there_ || !absl::IsNotFound(unlinked)) {
      stage->Must(unlinked, "unlinking again");
    }
    const absl::Status removed =
        cluster->Await(client::RemoveSetAt(core, kSet, core->Deadline()));
    if (set_there_ || !absl::IsNotFound(removed)) {
      stage->Must(removed, "removing the set again");
    }
    stage->Must(cluster->Await(WriteWhole(core, kFresh, fresh_)),
                "writing again");
    stage->files[kFresh] = fresh_;
  }

 private:
  // False: a target is down.
  static bool CountChunks(Stage* stage, uint64_t* chunks) {
    *chunks = 0;
    for (uint32_t t = 1; t <= stage->cluster()->options().targets; ++t) {
      server::ChunkStore* const store = stage->cluster()->store(t);
      if (store == nullptr) return false;
      *chunks += store->stats().chunks;
    }
    return true;
  }

  Task<bool> AwaitFreed(Stage* stage) {
    World* const world = stage->world();
    const io::TimeNs deadline = world->NowNs() + 60 * io::kSecond;
    while (world->NowNs() < deadline) {
      uint64_t chunks = 0;
      if (CountChunks(stage, &chunks) && chunks <= chunks_kept_) co_return true;
      co_await io::SleepFor(world, kLook);
    }
    co_return false;
  }

  void CheckDoomed(Stage* stage, client::Core* core) {
    const auto file = stage->cluster()->Await(ReadWhole(core, kFile));
    if (!stage->Must(file.status(), "reading the unlinked file")) return;
    file_there_ = file->has_value();
    if (file_there_ && unlinked_.ok()) stage->Violation("the file is back");
    if (file_there_ && **file != old_) stage->Violation("it has other bytes");
    const auto set =
        stage->cluster()->Await(LoadSample(core, kSet, &model_, 0, 1));
    set_there_ = set.ok();
    if (set_there_ && removed_.ok()) stage->Violation("the set is back");
    if (!set_there_ && !absl::IsNotFound(set.status())) {
      stage->Must(set.status(), "loading the removed set");
    }
  }

  void CheckFresh(Stage* stage, client::Core* core) {
    const auto fresh = stage->cluster()->Await(ReadWhole(core, kFresh));
    if (!stage->Must(fresh.status(), "reading the new file")) return;
    if (written_.ok() && *fresh != fresh_) {
      stage->Violation("the new file is not what was acknowledged");
    }
    if (fresh->has_value() && **fresh != fresh_ && !(*fresh)->empty()) {
      stage->Violation("the new file is neither empty nor whole");
    }
  }

  const std::string scheme_;
  std::string old_;
  std::string fresh_;
  SampleModel model_;
  SampleModel kept_;
  uint64_t chunks_kept_ = 0;
  SimClient* worker_ = nullptr;
  absl::Status unlinked_;
  absl::Status removed_;
  absl::Status written_;
  bool freed_ = false;
  bool file_there_ = false;
  bool set_there_ = false;
};

}  // namespace

std::unique_ptr<Scenario> MakeDeleteScenario(const std::string& scheme) {
  return std::make_unique<DeleteScenario>(scheme);
}

}  // namespace cairn::sim
