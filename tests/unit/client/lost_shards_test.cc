// Reads while shards are lost: right and reported within what the scheme can
// lose, a named error beyond, never a wrong byte.
#include "tests/unit/client/cluster_fixture.h"

namespace cairn::client {
namespace {

struct Shape {
  const char* scheme;
  uint32_t targets;  // k + m: every stripe has a shard on each.
  uint32_t parity;   // m.
};

class LostShardsTest : public ClusterTest,
                       public ::testing::WithParamInterface<Shape> {
 protected:
  void SaveOne(uint64_t seed, uint64_t timeout_ms = 20'000,
               uint64_t bytes = 2 * format::kMiB) {
    sim::ClusterOptions options;
    options.seed = seed;
    options.scheme = GetParam().scheme;
    options.targets = GetParam().targets;
    options.client_timeout_ms = timeout_ms;
    MakeCluster(options);
    MakeModel(seed, bytes);
    StartSaves(2);
    ExpectAllSaved();
  }
};

TEST_P(LostShardsTest, AsManyKilledTargetsAsParityAreReadAroundAndReported) {
  for (uint32_t seed = 1; seed <= 3; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    SaveOne(seed);
    for (uint32_t i = 0; i < GetParam().parity; ++i) {
      cluster_->KillTarget(1 + (seed + i) % GetParam().targets);
    }
    sim::SimClient* const reader = cluster_->NewClient("reader");
    EXPECT_OK(Load(reader, 3));
    const RepairReport& repairs = *reader->core()->repairs();
    EXPECT_GT(repairs.chunks_unreachable, 0u);
    EXPECT_GT(repairs.bytes_decoded, 0u);
    EXPECT_EQ(repairs.chunks_corrupt, 0u);
    ASSERT_FALSE(repairs.examples.empty());
    EXPECT_THAT(repairs.examples.front(), HasSubstr("chunk 1:"));
    const uint32_t first = 1 + seed % GetParam().targets;
    const uint32_t last =
        1 + (seed + GetParam().parity - 1) % GetParam().targets;
    EXPECT_THAT(repairs.examples.front(),
                AnyOf(HasSubstr(absl::StrCat("on target ", first, " (")),
                      HasSubstr(absl::StrCat("on target ", last, " ("))));
  }
}

TEST_P(LostShardsTest,
       OneKilledTargetMoreIsAnErrorThatNamesThemUntilOneIsBack) {
  SaveOne(4);
  const uint32_t killed = GetParam().parity + 1;
  for (uint32_t t = 1; t <= killed; ++t) cluster_->KillTarget(t);
  sim::SimClient* const reader = cluster_->NewClient("reader");
  const absl::Status failed = Load(reader);
  EXPECT_THAT(failed, StatusIs(absl::StatusCode::kDeadlineExceeded,
                               "not enough shards answered in time"));
  for (uint32_t t = 1; t <= killed; ++t) {
    EXPECT_THAT(std::string(failed.message()),
                HasSubstr(absl::StrCat("on target ", t, " (")));
  }
  ASSERT_OK(cluster_->Await(cluster_->StartTarget(1)));
  EXPECT_OK(Load(reader, 2));
}

TEST_P(LostShardsTest, AsManyCorruptShardsAsParityAreRepairedAndReported) {
  SaveOne(5);
  for (uint32_t t = 1; t <= GetParam().parity; ++t) {
    EXPECT_GT(cluster_->CorruptTarget(t, format::kDiskAlignBytes), 0u);
  }
  sim::SimClient* const reader = cluster_->NewClient("reader");
  EXPECT_OK(Load(reader, 3));
  const RepairReport& repairs = *reader->core()->repairs();
  EXPECT_GT(repairs.chunks_corrupt, 0u);
  EXPECT_GT(repairs.bytes_decoded, 0u);
  EXPECT_EQ(repairs.chunks_unreachable, 0u);
}

TEST_P(LostShardsTest, OneCorruptShardMoreIsDataLossThatNamesTheChunk) {
  SaveOne(6);
  for (uint32_t t = 1; t <= GetParam().parity + 1; ++t) {
    EXPECT_GT(cluster_->CorruptTarget(t, format::kDiskAlignBytes), 0u);
  }
  sim::SimClient* const reader = cluster_->NewClient("reader");
  EXPECT_THAT(Load(reader), StatusIs(absl::StatusCode::kDataLoss, "chunk 1:"));
}

// Sparse damage: some blocks of some chunks, more hit on some stripes than on
// others. What comes back is right or kDataLoss; here and there each.
TEST_P(LostShardsTest, ScatteredBitFlipsGiveRightBytesOrDataLoss) {
  uint32_t right = 0;
  uint32_t lost = 0;
  for (uint64_t seed = 10; seed < 16; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    SaveOne(seed);
    sim::Random* const random = cluster_->random();
    const uint64_t stride = seed % 2 == 0 ? 2 * format::kMiB : format::kMiB / 4;
    for (uint32_t t = 1; t <= GetParam().targets; ++t) {
      cluster_->CorruptTarget(t, stride, random->Below(stride));
    }
    sim::SimClient* const reader = cluster_->NewClient("reader");
    for (uint32_t rank = 0; rank < 8; ++rank) {
      const absl::Status status = ToStatus(cluster_->Await(
          sim::LoadSample(reader->core(), kSetPath, &model_, rank, 8)));
      ++(status.ok() ? right : lost);
      if (!status.ok()) {
        EXPECT_THAT(status, StatusIs(absl::StatusCode::kDataLoss, "chunk 1:"));
      }
    }
  }
  EXPECT_GT(right, 0u);
  EXPECT_GT(lost, 0u);
}

// Half of what a scheme can lose is down, the other half damaged.
TEST_P(LostShardsTest,
       KilledAndCorruptTargetsTogetherWithinParityAreReadAround) {
  if (GetParam().parity < 2) GTEST_SKIP() << "needs two shards to lose";
  SaveOne(7);
  cluster_->KillTarget(2);
  EXPECT_GT(cluster_->CorruptTarget(1, format::kDiskAlignBytes), 0u);
  sim::SimClient* const reader = cluster_->NewClient("reader");
  EXPECT_OK(Load(reader, 3));
  EXPECT_GT(reader->core()->repairs()->chunks_corrupt, 0u);
  EXPECT_GT(reader->core()->repairs()->chunks_unreachable, 0u);
}

// Once the set is open a load needs targets only: it must not wait for a map.
TEST_F(ClusterTest, LoadGoesOnWithoutMetadataWhenEnoughTargetsAreBack) {
  sim::ClusterOptions options;
  options.fixed_ports = true;  // A client cannot learn new ones meanwhile.
  MakeCluster(options);
  MakeModel(8, 2 * format::kMiB);
  model_.tensors.resize(1);  // One file of one rank: no more questions.
  StartSaves(1);
  ExpectAllSaved();
  sim::SimClient* const reader = cluster_->NewClient("reader");
  std::optional<absl::StatusOr<uint64_t>> loaded;
  cluster_->KillTarget(1);
  cluster_->KillTarget(2);
  reader->Spawn(sim::SimCluster::Keep(
      sim::LoadSample(reader->core(), kSetPath, &model_, 0, 1), &loaded));
  cluster_->Sleep(2 * io::kSecond);
  EXPECT_FALSE(loaded.has_value());
  cluster_->KillMeta();
  ASSERT_OK(cluster_->Await(cluster_->StartTarget(1)));
  cluster_->Sleep(10 * io::kSecond);
  ASSERT_TRUE(loaded.has_value());
  EXPECT_OK(*loaded);
}

// Machines that lose power say nothing: no reset, no refusal. As many of them
// as the scheme can lose must not use up a load's time chunk by chunk.
TEST_P(LostShardsTest, LoadFinishesInTimeWhileParityManyNodesAreSilent) {
  SaveOne(9, 60'000, 12 * format::kMiB);
  sim::CrashOptions silent;
  silent.half_open = true;
  sim::SimClient* const reader = cluster_->NewClient("reader");
  EXPECT_OK(Load(reader));  // Connections to all of them are open.
  for (uint32_t t = 1; t <= GetParam().parity; ++t) {
    cluster_->CrashTarget(t, silent);
  }
  EXPECT_OK(Load(reader));
  EXPECT_OK(Load(cluster_->NewClient("late reader")));
}

// The same for a client that cannot wait even as long as one attempt may take.
TEST_P(LostShardsTest, LoadWithAShortTimeoutFinishesThoughNodesAreSilent) {
  SaveOne(9, 3'000, 1 * format::kMiB);
  sim::CrashOptions silent;
  silent.half_open = true;
  for (uint32_t t = 1; t <= GetParam().parity; ++t) {
    cluster_->CrashTarget(t, silent);
  }
  EXPECT_OK(Load(cluster_->NewClient("late reader")));
}

// One bit flips on the way from the targets that still have the bytes, at many
// places of their answers in turn: that is no proof that these are lost, too.
TEST_P(LostShardsTest, FlippedBitInATransferIsNoLossThoughAllParityIsGone) {
  SaveOne(8);
  for (uint32_t t = 1; t <= GetParam().parity; ++t) {
    EXPECT_GT(cluster_->CorruptTarget(t, format::kDiskAlignBytes), 0u);
  }
  for (uint64_t at = 200; at < 100'000; at += 9'973) {
    SCOPED_TRACE(absl::StrCat("byte ", at));
    sim::SimClient* const reader = cluster_->NewClient("reader");
    for (uint32_t t = GetParam().parity + 1; t <= GetParam().targets; ++t) {
      sim::StreamFault flip;
      flip.kind = sim::StreamFault::Kind::kFlip;
      flip.from = cluster_->TargetNode(t);
      flip.to = reader->env()->node();
      flip.after_bytes = at;
      cluster_->world()->network()->Fail(flip);
    }
    EXPECT_OK(Load(reader));
  }
  EXPECT_GT(cluster_->world()->faults().of(sim::FaultKind::kCorruptSegment),
            10u);
}

INSTANTIATE_TEST_SUITE_P(Schemes, LostShardsTest,
                         ::testing::Values(Shape{"rs:2+1", 3, 1},
                                           Shape{"rs:4+2", 6, 2},
                                           Shape{"replicate:2", 2, 1}),
                         [](const auto& param) {
                           std::string name = param.param.scheme;
                           for (char& c : name) c = std::isalnum(c) ? c : '_';
                           return name;
                         });

}  // namespace
}  // namespace cairn::client
