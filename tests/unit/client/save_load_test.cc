// The main job without trouble: ranks save, other numbers of ranks load.
#include "client/checkpoint/sets.h"
#include "tests/unit/client/cluster_fixture.h"

namespace cairn::client {
namespace {

struct Shape {
  const char* scheme;
  uint32_t targets;
  uint32_t save_ranks;
};

class SaveLoadTest : public ClusterTest,
                     public ::testing::WithParamInterface<Shape> {};

TEST_P(SaveLoadTest, SetLoadsBackByteForByteOnAnyNumberOfRanks) {
  const Shape& shape = GetParam();
  sim::ClusterOptions options;
  options.seed = shape.save_ranks;
  options.scheme = shape.scheme;
  options.targets = shape.targets;
  MakeCluster(options);
  MakeModel(shape.save_ranks, 3 * format::kMiB);
  StartSaves(shape.save_ranks);
  ExpectAllSaved();
  sim::SimClient* const reader = cluster_->NewClient("reader");
  for (const uint32_t ranks : {1u, 2u, 3u, 7u}) {
    SCOPED_TRACE(absl::StrCat(ranks, " ranks load"));
    EXPECT_OK(Load(reader, ranks));
  }
  const RepairReport& repairs = *reader->core()->repairs();
  EXPECT_EQ(repairs.chunks_unreachable + repairs.chunks_corrupt, 0u);
  EXPECT_EQ(repairs.bytes_decoded, 0u);
}

INSTANTIATE_TEST_SUITE_P(
    Schemes, SaveLoadTest,
    ::testing::Values(Shape{"rs:2+1", 3, 1}, Shape{"rs:2+1", 5, 4},
                      Shape{"rs:4+2", 6, 3}, Shape{"rs:4+2", 9, 5},
                      Shape{"replicate:2", 3, 2}, Shape{"replicate:1", 2, 3}),
    [](const auto& param) {
      std::string name =
          absl::StrCat(param.param.scheme, "_on_", param.param.targets,
                       "_from_", param.param.save_ranks);
      for (char& c : name) c = std::isalnum(c) ? c : '_';
      return name;
    });

// Seen by another client's eyes, in the moment before the last rank's commit.
TEST_F(ClusterTest, SetIsInvisibleUntilItsLastRankHasCommitted) {
  MakeCluster({});
  MakeModel(1, format::kMiB);
  Rank* const first = StartSave(RankOptions(0, 2));
  cluster_->Sleep(5 * io::kSecond);
  EXPECT_FALSE(first->saved.has_value());
  sim::SimClient* const reader = cluster_->NewClient("reader");
  EXPECT_THAT(Load(reader), StatusIs(absl::StatusCode::kNotFound, "1 of 2"));
  StartSave(RankOptions(1, 2));
  ExpectAllSaved();
  EXPECT_OK(Load(reader));
}

// Slices by rows: each a run of the file that is longer than kGatherRunBytes,
// so nothing is read in vain.
TEST_F(ClusterTest, ReshardedLoadReceivesTheBytesOfItsSlicesAndNoMore) {
  sim::ClusterOptions options;
  options.scheme = "rs:4+2";
  options.targets = 6;
  MakeCluster(options);
  MakeModel(3, 4 * format::kMiB);
  model_.rows_only = true;
  StartSaves(4);
  ExpectAllSaved();
  for (uint32_t rank = 0; rank < 3; ++rank) {
    sim::SimClient* const reader =
        cluster_->NewClient(absl::StrCat("reader-", rank));
    const absl::StatusOr<uint64_t> bytes = cluster_->Await(
        sim::LoadSample(reader->core(), kSetPath, &model_, rank, 3));
    ASSERT_OK(bytes);
    EXPECT_GT(*bytes, format::kMiB / 4);
    EXPECT_EQ(reader->core()->counters()->payload_bytes_received, *bytes);
  }
}

// Columns: short runs with gaps, which are bridged. Still bounded: by the rows
// that the slices lie in.
TEST_F(ClusterTest, LoadOfColumnsReceivesAtMostTheRowsTheyLieIn) {
  MakeCluster({});
  MakeModel(4, 2 * format::kMiB);
  StartSaves(1);
  ExpectAllSaved();
  sim::SimClient* const reader = cluster_->NewClient("reader");
  const absl::StatusOr<uint64_t> bytes =
      cluster_->Await(sim::LoadSample(reader->core(), kSetPath, &model_, 1, 4));
  ASSERT_OK(bytes);
  const uint64_t received = reader->core()->counters()->payload_bytes_received;
  EXPECT_GE(received, *bytes);
  EXPECT_LE(received, model_.bytes());
}

TEST_F(ClusterTest,
       OneOfTwoProcessesClaimingARankIsRefusedAndTheOtherPublishes) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    sim::ClusterOptions options;
    options.seed = seed;
    MakeCluster(options);
    MakeModel(seed, 512 * format::kKiB);
    sim::SimClient* const one = cluster_->NewClient("host/1");
    sim::SimClient* const two = cluster_->NewClient("host/2");
    std::optional<absl::Status> first;
    std::optional<absl::Status> second;
    one->Spawn(sim::SimCluster::Keep(
        sim::SaveSample(one->core(), RankOptions(0, 1), &model_), &first));
    two->Spawn(sim::SimCluster::Keep(
        sim::SaveSample(two->core(), RankOptions(0, 1), &model_), &second));
    while (!first || !second) cluster_->Sleep(io::kMillisecond);
    const bool first_won = first->ok();
    EXPECT_OK(first_won ? *first : *second);
    EXPECT_THAT(first_won ? *second : *first,
                StatusIs(absl::StatusCode::kAlreadyExists,
                         first_won ? "host/1" : "host/2"));
    EXPECT_OK(Load(cluster_->NewClient("reader")));
    cluster_.reset();  // Before what its tasks refer to.
  }
}

TEST_F(ClusterTest, RankThatNeverComesIsNamedToTheOthersWhenTheirTimeIsUp) {
  sim::ClusterOptions cluster;
  cluster.client_timeout_ms = 20'000;
  MakeCluster(cluster);
  MakeModel(5, 512 * format::kKiB);
  StartSave(RankOptions(0, 4));
  StartSave(RankOptions(2, 4));
  AwaitSaves();
  for (const Rank& rank : ranks_) {
    EXPECT_THAT(*rank.saved, StatusIs(absl::StatusCode::kDeadlineExceeded,
                                      "2 of 4 ranks have not committed: 1, 3"));
  }
  // Late is better than never: the set is published after all.
  StartSave(RankOptions(1, 4));
  Rank* const last = StartSave(RankOptions(3, 4));
  AwaitSaves();
  EXPECT_OK(*last->saved);
  EXPECT_OK(Load(cluster_->NewClient("reader"), 2));
}

TEST_F(ClusterTest, NewerAttemptFencesTheOlderAndIsTheOneThatLoads) {
  MakeCluster({});
  MakeModel(6, 512 * format::kKiB);
  Rank* const old = StartSave(RankOptions(0, 2));
  cluster_->Sleep(2 * io::kSecond);
  Rank* const first = StartSave(RankOptions(0, 2, 2));
  cluster_->Sleep(10 * io::kSecond);
  ASSERT_TRUE(old->saved.has_value());
  EXPECT_THAT(*old->saved, StatusIs(absl::StatusCode::kAborted, "attempt"));
  // A straggler of the old attempt must not complete either of them.
  Rank* const straggler = StartSave(RankOptions(1, 2));
  cluster_->Sleep(5 * io::kSecond);
  ASSERT_TRUE(straggler->saved.has_value());
  EXPECT_THAT(*straggler->saved, StatusIs(absl::StatusCode::kAborted, ""));
  EXPECT_FALSE(first->saved.has_value());
  Rank* const second = StartSave(RankOptions(1, 2, 2));
  AwaitSaves();
  EXPECT_OK(*first->saved);
  EXPECT_OK(*second->saved);
  sim::SimClient* const reader = cluster_->NewClient("reader");
  EXPECT_OK(Load(reader));
  const auto sets = cluster_->Await(
      FetchSets(reader->core(), "/ckpt", true, reader->core()->Deadline()));
  ASSERT_OK(sets);
  ASSERT_EQ(sets->size(), 1u);
  EXPECT_EQ(sets->front().attempt, 2u);
}

}  // namespace
}  // namespace cairn::client
