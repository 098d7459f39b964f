#include "absl/strings/str_cat.h"
#include "client/checkpoint/set_reader.h"
#include "client/checkpoint/sets.h"
#include "tests/sim/crash_points/client_tasks.h"
#include "tests/sim/crash_points/scenarios.h"

namespace cairn::sim {

using io::Task;

ClusterOptions SmallCluster(uint64_t seed, const std::string& scheme) {
  ClusterOptions options;
  options.seed = seed;
  options.scheme = scheme;
  options.targets = 3;
  options.chunk_size = 32 * format::kKiB;
  options.target_capacity_bytes = 16 * format::kMiB;
  options.slab_bytes = 4 * format::kMiB;
  options.client_timeout_ms = 30'000;
  options.meta.lease_ns = 8 * io::kSecond;
  options.meta.tick_ns = 200 * io::kMillisecond;
  options.meta.clock_save_ns = io::kSecond;
  options.meta.trash_grace_ms = 500;
  options.meta.orphan_grace_ms = 1500;
  options.meta.garbage_retry_ms = 500;
  options.meta.open_set_idle_ns = 60 * io::kSecond;
  options.world.shuffle_ready = seed % 2 == 0;
  return options;
}

namespace {

constexpr char kOld[] = "/ckpt/old";
constexpr char kNew[] = "/ckpt/new";
constexpr uint32_t kRanks = 2;

class SaveScenario final : public Scenario {
 public:
  SaveScenario(std::string scheme, bool is_first)
      : scheme_(std::move(scheme)), is_first_(is_first) {}

  ClusterOptions Cluster(uint64_t seed) const override {
    return SmallCluster(seed, scheme_);
  }

  void Prepare(Stage* stage) override {
    old_ = MakeSampleModel(1, 40 * format::kKiB);
    new_ = MakeSampleModel(2, 300 * format::kKiB);
    if (!is_first_) stage->MakeSet(kOld, &old_);
    for (uint32_t rank = 0; rank < kRanks; ++rank) {
      ranks_[rank] = stage->NewClient(absl::StrCat("rank-", rank));
    }
  }

  Task<void> Act(Stage* stage) override {
    io::Gate ranks(stage->world());
    for (uint32_t rank = 0; rank < kRanks; ++rank) {
      ranks.Spawn(SaveRank(rank));
    }
    co_await ranks.Close();
    stage->finished = saved_[0].ok() && saved_[1].ok();
  }

  void Check(Stage* stage) override {
    client::Core* const core = stage->NewClient("looker")->core();
    if (stage->violated()) return;
    for (const absl::Status& saved : saved_) {
      stage->MayFailCleanly(saved, "a rank's save");
    }
    published_ = Published(stage, core);
    if (published_) stage->sets[kNew] = &new_;  // Then it is there for good.
    if (!published_ && (saved_[0].ok() || saved_[1].ok())) {
      stage->Violation("a rank was told that the set is published");
    }
  }

  void Repeat(Stage* stage) override {
    SetSave save{published_ ? "/ckpt/again" : kNew, &new_, 2, kRanks};
    const std::string path = save.path;
    const absl::Status saved =
        stage->cluster()->Await(SaveWithNewClients(stage, std::move(save)));
    stage->Must(saved, "saving again");
    stage->sets[path] = &new_;
  }

 private:
  Task<void> SaveRank(uint32_t rank) {
    SetSave save{kNew, &new_, 1, kRanks};
    saved_[rank] = co_await SaveSample(ranks_[rank]->core(),
                                       RankOptions(save, rank), &new_);
  }

  // What opening and listing say must be the same.
  static bool Published(Stage* stage, client::Core* core) {
    const auto opened = stage->cluster()->Await(
        client::SetReader::Open(core, kNew, core->Deadline()));
    if (!opened.ok() && !absl::IsNotFound(opened.status())) {
      stage->Must(opened.status(), "opening the new set");
    }
    const auto listed = stage->cluster()->Await(
        client::FetchSets(core, "/", false, core->Deadline()));
    if (!stage->Must(listed.status(), "listing sets")) return false;
    bool is_listed = false;
    for (const client::SetSummary& set : *listed) {
      is_listed = is_listed || set.path == kNew;
      if (set.committed_ranks == kRanks && set.published) continue;
      stage->Violation(set.path + " is visible, but not whole");
    }
    if (opened.ok() != is_listed) {
      stage->Violation("the new set is half visible");
    }
    return opened.ok();
  }

  const std::string scheme_;
  const bool is_first_;
  SampleModel old_;
  SampleModel new_;
  SimClient* ranks_[kRanks] = {};
  absl::Status saved_[kRanks];
  bool published_ = false;
};

}  // namespace

std::unique_ptr<Scenario> MakeSaveScenario(const std::string& scheme) {
  return std::make_unique<SaveScenario>(scheme, false);
}

std::unique_ptr<Scenario> MakeFirstSaveScenario(const std::string& scheme) {
  return std::make_unique<SaveScenario>(scheme, true);
}

}  // namespace cairn::sim
