// Saves while processes die and machines lose power under them.
#include "absl/strings/match.h"
#include "client/checkpoint/sets.h"
#include "tests/unit/client/cluster_fixture.h"

namespace cairn::client {
namespace {

class SaveFaultsTest : public ClusterTest {
 protected:
  void Make(uint64_t seed, sim::ClusterOptions options = {}) {
    options.seed = seed;
    MakeCluster(std::move(options));
    MakeModel(seed, 2 * format::kMiB);
  }
  // Two ranks that started to save, and `delay` later.
  void SaveUntil(io::TimeNs delay) {
    StartSaves(2);
    cluster_->Sleep(delay);
  }
  bool AllEnded() const {
    for (const Rank& rank : ranks_) {
      if (!rank.saved) return false;
    }
    return true;
  }
  void ExpectOnePublishedSetThatLoads() {
    sim::SimClient* const reader = cluster_->NewClient("reader");
    EXPECT_OK(Load(reader, 3));
    const auto sets = cluster_->Await(
        FetchSets(reader->core(), "/ckpt", true, reader->core()->Deadline()));
    ASSERT_OK(sets);
    ASSERT_EQ(sets->size(), 1u);
    EXPECT_TRUE(sets->front().published);
    EXPECT_EQ(sets->front().committed_ranks, 2u);
  }
  // From the start to the end of a save without trouble.
  io::TimeNs CleanSaveTime() {
    Make(1);
    StartSaves(2);
    const io::TimeNs started = cluster_->world()->NowNs();
    while (!AllEnded()) cluster_->Sleep(io::kMillisecond);
    return cluster_->world()->NowNs() - started;
  }
};

TEST_F(SaveFaultsTest, SaveCompletesWhenATargetIsKilledAndRestartedUnderIt) {
  const io::TimeNs whole = CleanSaveTime();
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    Make(seed);
    SaveUntil(whole * seed / 20);
    EXPECT_FALSE(AllEnded());
    const uint32_t target = 1 + static_cast<uint32_t>(seed % 3);
    cluster_->KillTarget(target);
    cluster_->Sleep(seed % 4 * io::kSecond);
    ASSERT_OK(cluster_->Await(cluster_->StartTarget(target)));
    ExpectAllSaved();
    ExpectOnePublishedSetThatLoads();
  }
}

// Acknowledged chunks survive the power, the others are written again.
TEST_F(SaveFaultsTest, SaveCompletesWhenEveryTargetLosesPowerUnderIt) {
  const io::TimeNs whole = CleanSaveTime();
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    Make(seed);
    SaveUntil(whole * seed / 20);
    sim::CrashOptions crash;
    crash.half_open = seed % 2 == 0;
    for (uint32_t t = 1; t <= 3; ++t) cluster_->CrashTarget(t, crash);
    cluster_->Sleep(io::kSecond);
    for (uint32_t t = 1; t <= 3; ++t) {
      ASSERT_OK(cluster_->Await(cluster_->StartTarget(t)));
    }
    ExpectAllSaved();
    ExpectOnePublishedSetThatLoads();
  }
}

// The kill falls before, into and after the commits of both ranks.
TEST_F(SaveFaultsTest, SaveCompletesOnceWhenMetadataIsKilledAtAnyTime) {
  const io::TimeNs whole = CleanSaveTime();
  uint32_t under_way = 0;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    Make(seed);
    SaveUntil(whole * seed / 40);
    if (!AllEnded()) ++under_way;
    if (seed % 2 == 0) {
      cluster_->KillMeta();
    } else {
      cluster_->CrashMeta();
    }
    cluster_->Sleep(seed % 3 * io::kSecond);
    ASSERT_OK(cluster_->Await(cluster_->StartMeta()));
    ExpectAllSaved();
    ExpectOnePublishedSetThatLoads();
  }
  EXPECT_GT(under_way, 30u);
}

// Its bytes are safe with the program: "data loss" would be the wrong word.
TEST_F(SaveFaultsTest, SaveWhoseBytesArriveDamagedAgainAndAgainIsUnavailable) {
  uint32_t told = 0;
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    Make(seed);
    StartSaves(1);
    sim::NetworkFaultRates rates;
    rates.corrupt_segment = 20;
    cluster_->world()->network()->set_fault_rates(rates);
    AwaitSaves();
    const absl::Status& saved = *ranks_.front().saved;
    EXPECT_TRUE(saved.ok() || absl::IsUnavailable(saved) ||
                absl::IsDeadlineExceeded(saved))
        << saved;
    if (absl::StrContains(saved.message(), "arrived damaged 4 times")) ++told;
    ranks_.clear();
  }
  EXPECT_GT(told, 0u);
}

// Commits with unknown outcomes are repeated: they must have one effect.
TEST_F(SaveFaultsTest, SaveCompletesOnceWhenCommitsOfTheStoreEndUnknown) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    Make(seed);
    server::ModelKv* const kv = cluster_->meta()->kv();
    for (uint64_t n = 1; n <= 10; ++n) {
      kv->InjectFault(kv->commits() + seed + 3 * n,
                      n % 2 == 0 ? server::ModelKvFault::kUnknownApplied
                                 : server::ModelKvFault::kUnknownLost);
    }
    StartSaves(2);
    ExpectAllSaved();
    ExpectOnePublishedSetThatLoads();
  }
}

// Two of three ranks are killed while they write, or after their commits; the
// third never comes.
TEST_F(SaveFaultsTest, KilledRanksLeaveNothingVisibleAndTheirChunksAreFreed) {
  sim::ClusterOptions options;
  options.meta.lease_ns = 5 * io::kSecond;
  options.meta.orphan_grace_ms = 5'000;
  options.meta.trash_grace_ms = 5'000;
  options.meta.garbage_retry_ms = 1'000;
  options.meta.open_set_idle_ns = 20 * io::kSecond;
  const io::TimeNs whole = CleanSaveTime();
  uint32_t stored_some = 0;
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    Make(seed, options);
    StartSave(RankOptions(0, 3));
    StartSave(RankOptions(1, 3));
    cluster_->Sleep(whole * seed / 6);
    if (ChunksStored() > 0) ++stored_some;
    for (const Rank& rank : ranks_) cluster_->KillClient(rank.client);
    sim::SimClient* const reader = cluster_->NewClient("reader");
    EXPECT_THAT(Load(reader), StatusIs(absl::StatusCode::kNotFound, ""));
    cluster_->Sleep(120 * io::kSecond);
    EXPECT_EQ(ChunksStored(), 0u);
    EXPECT_THAT(Load(reader), StatusIs(absl::StatusCode::kNotFound, ""));
  }
  EXPECT_GT(stored_some, 4u);
}

// The next attempt of a job whose processes were killed.
TEST_F(SaveFaultsTest, NextAttemptAfterKilledRanksPublishes) {
  const io::TimeNs whole = CleanSaveTime();
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    Make(seed);
    StartSave(RankOptions(0, 3));
    StartSave(RankOptions(1, 3));
    cluster_->Sleep(whole * seed / 6);
    for (const Rank& rank : ranks_) cluster_->KillClient(rank.client);
    for (uint32_t rank = 0; rank < 3; ++rank) {
      StartSave(RankOptions(rank, 3, 2));
    }
    AwaitSaves();
    for (size_t i = 2; i < ranks_.size(); ++i) EXPECT_OK(*ranks_[i].saved);
    EXPECT_OK(Load(cluster_->NewClient("reader"), 2));
  }
}

TEST_F(SaveFaultsTest, SaveFailsWithThePoolsNumbersWhenDisksAreFull) {
  sim::ClusterOptions options;
  options.target_capacity_bytes = 4 * format::kMiB;
  options.slab_bytes = 4 * format::kMiB;
  Make(1, options);
  MakeModel(1, 16 * format::kMiB);
  StartSaves(1);
  AwaitSaves();
  EXPECT_THAT(*ranks_[0].saved,
              StatusIs(absl::StatusCode::kResourceExhausted, "on target "));
}

}  // namespace
}  // namespace cairn::client
