// A whole cluster whose disks rot one after the other: what is damaged is found
// and made again before more is, so nothing is lost in the end; and what is
// deleted stays so.
#include <algorithm>

#include "client/core/status_report.h"
#include "tests/sim/cluster/cleanup.h"
#include "tests/unit/client/cluster_fixture.h"
#include "tests/unit/client/stripe_problems.h"

namespace cairn::client {
namespace {

struct Shape {
  const char* scheme;
  uint32_t targets;
};

class ClusterScrubTest : public ClusterTest,
                         public ::testing::WithParamInterface<Shape> {
 protected:
  void Make(const Shape& shape, uint64_t seed, uint64_t scrub_rate) {
    sim::ClusterOptions options;
    options.seed = seed;
    options.scheme = shape.scheme;
    options.targets = shape.targets;
    options.scrub.bytes_per_s = scrub_rate;
    options.scrub.start_after_ns = io::kSecond;
    options.scrub.pass_ns = 60 * io::kSecond;
    options.meta.repair.compare_ns = 60 * io::kSecond;
    options.meta.repair.retry_ns = 60 * io::kSecond;
    options.meta.trash_grace_ms = 5'000;
    options.meta.orphan_grace_ms = 5'000;
    options.meta.garbage_retry_ms = 2'000;
    MakeCluster(options);
    MakeModel(seed, 3 * format::kMiB);
    StartSaves(2);
    ExpectAllSaved();
  }
  ClusterStatus Status() {
    sim::SimClient* const client = cluster_->NewClient("operator");
    const auto status = cluster_->Await(
        ReportStatus(client->core(), client->core()->Deadline()));
    EXPECT_OK(status);
    return status.ok() ? *status : ClusterStatus();
  }
  // Everything was read again since, and nothing is known to be bad.
  void AwaitGood(uint32_t target) {
    const io::TimeNs deadline = cluster_->world()->NowNs() + 600 * io::kSecond;
    cluster_->Sleep(70 * io::kSecond);
    while (cluster_->store(target)->stats().damaged_now > 0) {
      ASSERT_LT(cluster_->world()->NowNs(), deadline)
          << ::testing::PrintToString(Status().scrub.problems);
      cluster_->Sleep(io::kSecond);
    }
  }
  std::vector<std::string> ProblemsOfTheSet() {
    sim::SimClient* const reader = cluster_->NewClient("reader");
    return cluster_->Await(ProblemsOfSet(reader->core(), kSetPath, 2));
  }
};

TEST_P(ClusterScrubTest, DisksThatRotOneAfterTheOtherLoseNothing) {
  for (uint64_t seed = 1; seed <= 2; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    Make(GetParam(), seed, 100 * format::kMiB);
    uint64_t chunks = 0;
    for (uint32_t target = 1; target <= GetParam().targets; ++target) {
      SCOPED_TRACE(absl::StrCat("target ", target));
      chunks += cluster_->store(target)->stats().chunks;
      // Every chunk of the target.
      ASSERT_GT(cluster_->CorruptTarget(target, format::kDiskAlignBytes), 0u);
      AwaitGood(target);
    }
    // By now there is none left that was written by a client.
    EXPECT_THAT(ProblemsOfTheSet(), ::testing::IsEmpty());
    EXPECT_OK(Load(cluster_->NewClient("reader"), 2));
    const ClusterStatus status = Status();
    EXPECT_EQ(status.scrub.damaged_chunks, chunks);
    EXPECT_EQ(status.scrub.repaired_chunks, chunks);
    EXPECT_EQ(status.scrub.unrepaired_chunks, 0u);
    EXPECT_TRUE(status.healthy);
  }
}

TEST_P(ClusterScrubTest, ServersThatDieMeanwhileRepairItAllTheSame) {
  for (uint64_t seed = 1; seed <= 2; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    Make(GetParam(), seed, 100 * format::kMiB);
    ASSERT_GT(cluster_->CorruptTarget(1, format::kDiskAlignBytes), 0u);
    for (int i = 0; i < 6; ++i) {
      cluster_->Sleep(cluster_->random()->Between(1, 8000) * io::kMillisecond);
      const auto victim = static_cast<uint32_t>(
          cluster_->random()->Between(1, GetParam().targets));
      cluster_->CrashTarget(victim);
      ASSERT_OK(cluster_->Await(cluster_->StartTarget(victim)));
      cluster_->KillMeta();
      ASSERT_OK(cluster_->Await(cluster_->StartMeta()));
    }
    cluster_->Sleep(120 * io::kSecond);
    AwaitGood(1);
    EXPECT_THAT(ProblemsOfTheSet(), ::testing::IsEmpty());
  }
}

// A chunk that a disk has lost without a trace is damaged nowhere: only the
// others tell of it.
TEST_P(ClusterScrubTest, ChunksThatADiskLostAreMadeAgain) {
  Make(GetParam(), 3, 0);
  const uint64_t before = ChunksStored();
  server::ChunkStore* const store = cluster_->store(2);
  const auto all = cluster_->Await(store->Walk("", 4096));
  ASSERT_OK(all);
  std::vector<format::BlobId> blobs;
  for (const auto& chunk : all->chunks) blobs.push_back(chunk.chunk.blob);
  ASSERT_OK(cluster_->Await(store->DeleteBlobs(
      std::move(blobs), cluster_->store(2)->stats().meta_sequence)));
  ASSERT_LT(ChunksStored(), before);
  cluster_->Sleep(400 * io::kSecond);
  EXPECT_EQ(ChunksStored(), before);
  EXPECT_THAT(ProblemsOfTheSet(), ::testing::IsEmpty());
  EXPECT_EQ(Status().scrub.absent_chunks, all->chunks.size());
}

TEST_P(ClusterScrubTest, RotBeyondWhatTheSchemeBearsIsNamedAndNothingMadeUp) {
  Make(GetParam(), 4, 100 * format::kMiB);
  // Before anything can be repaired: all of them.
  for (uint32_t target = 1; target <= GetParam().targets; ++target) {
    ASSERT_GT(cluster_->CorruptTarget(target, format::kDiskAlignBytes), 0u);
  }
  cluster_->Sleep(300 * io::kSecond);
  const ClusterStatus status = Status();
  EXPECT_FALSE(status.healthy);
  EXPECT_GT(status.scrub.unrepaired_chunks, 0u);
  EXPECT_EQ(status.scrub.repaired_chunks, 0u);
  ASSERT_FALSE(status.scrub.problems.empty());
  EXPECT_THAT(status.scrub.problems[0], HasSubstr("too few shards"));
  EXPECT_THAT(Load(cluster_->NewClient("reader"), 2),
              StatusIs(absl::StatusCode::kDataLoss, ""));
}

// Deletes at any moment of a repair; in the end nothing is left anywhere.
TEST_P(ClusterScrubTest, DeletedDataIsNotBroughtBack) {
  for (uint64_t seed = 5; seed <= 10; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    Make(GetParam(), seed, 100 * format::kMiB);
    ASSERT_GT(cluster_->CorruptTarget(1, format::kDiskAlignBytes), 0u);
    cluster_->Sleep(cluster_->random()->Between(1, 20'000) * io::kMillisecond);
    sim::SimClient* const client = cluster_->NewClient("operator");
    ASSERT_OK(cluster_->Await(sim::RemoveEverything(client->core())));
    cluster_->Sleep(200 * io::kSecond);
    EXPECT_EQ(ChunksStored(), 0u);
    EXPECT_EQ(Status().scrub.unrepaired_chunks, 0u);
  }
}

INSTANTIATE_TEST_SUITE_P(Schemes, ClusterScrubTest,
                         ::testing::Values(Shape{"rs:2+1", 5},
                                           Shape{"replicate:2", 4}),
                         [](const auto& param) {
                           std::string name = param.param.scheme;
                           for (char& c : name) c = std::isalnum(c) ? c : '_';
                           return name;
                         });

}  // namespace
}  // namespace cairn::client
