// A whole cluster that loses targets for good: what was stored has all its
// chunks again, on targets that live, whoever dies meanwhile; and what too few
// good shards are left of is never made up.
#include <algorithm>

#include "client/core/status_report.h"
#include "tests/unit/client/cluster_fixture.h"
#include "tests/unit/client/stripe_problems.h"

namespace cairn::client {
namespace {

using format::TargetId;
using format::TargetState;

// From the death of a target: down, out, and all of it rebuilt.
constexpr io::TimeNs kOutAfter = 20 * io::kSecond;
constexpr io::TimeNs kWholeWithin =
    10 * io::kSecond + kOutAfter + 120 * io::kSecond;

struct Shape {
  const char* scheme;
  uint32_t targets;  // More than the scheme's shards.
};

class ClusterRebuildTest : public ClusterTest,
                           public ::testing::WithParamInterface<Shape> {
 protected:
  void Make(const Shape& shape, uint64_t seed) {
    sim::ClusterOptions options;
    options.seed = seed;
    options.scheme = shape.scheme;
    options.targets = shape.targets;
    options.meta.rebuild.out_after_ns = kOutAfter;
    options.meta.orphan_grace_ms = 30'000;
    options.meta.garbage_retry_ms = 2'000;
    MakeCluster(options);
    MakeModel(seed, 3 * format::kMiB);
  }
  void Save() {
    StartSaves(2);
    ExpectAllSaved();
  }
  std::shared_ptr<const format::ClusterMap> Map() {
    return cluster_->meta()->service()->map();
  }
  uint64_t RowsOf(uint32_t target) {
    const auto map = Map();
    const auto& slots = map->pools.begin()->second.pg_targets;
    return static_cast<uint64_t>(
        std::count(slots.begin(), slots.end(), TargetId(target)));
  }
  bool IsReplaced(uint32_t target) {
    return cluster_->MetaRuns() && cluster_->meta()->service() != nullptr &&
           RowsOf(target) == 0;
  }
  std::string Problems() {
    std::string all;
    const wire::RebuildStatus report =
        cluster_->meta()->service()->rebuild().Report();
    for (const std::string& problem : report.problems()) {
      absl::StrAppend(&all, problem, "\n");
    }
    return all;
  }
  void AwaitReplaced(uint32_t target) {
    const io::TimeNs deadline = cluster_->world()->NowNs() + kWholeWithin;
    while (!IsReplaced(target)) {
      ASSERT_LT(cluster_->world()->NowNs(), deadline)
          << RowsOf(target) << " rows of target " << target << " are left\n"
          << Problems();
      cluster_->Sleep(io::kSecond);
    }
  }
  std::vector<std::string> ProblemsOfTheSet() {
    sim::SimClient* const reader = cluster_->NewClient("reader");
    return cluster_->Await(ProblemsOfSet(reader->core(), kSetPath, 2));
  }
  // All chunks are there; so any other target may be lost now.
  void ExpectWholeWithout(uint32_t lost) {
    EXPECT_THAT(ProblemsOfTheSet(), ::testing::IsEmpty());
    sim::SimClient* const reader = cluster_->NewClient("reader");
    for (uint32_t other = 1; other <= cluster_->options().targets; ++other) {
      if (other == lost) continue;
      cluster_->KillTarget(other);
      EXPECT_OK(Load(reader)) << "without target " << other;
      ASSERT_OK(cluster_->Await(cluster_->StartTarget(other)));
    }
  }
};

TEST_P(ClusterRebuildTest, WhatALostTargetHeldIsMadeOnOthers) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    Make(GetParam(), seed);
    Save();
    const uint32_t lost = 1 + static_cast<uint32_t>(seed) % GetParam().targets;
    ASSERT_GT(RowsOf(lost), 0u);
    cluster_->KillTarget(lost);
    AwaitReplaced(lost);
    ExpectWholeWithout(lost);
  }
}

TEST_P(ClusterRebuildTest, SavesGoOnWhileShardsAreMade) {
  Make(GetParam(), 4);
  Save();
  cluster_->KillTarget(2);
  cluster_->Sleep(10 * io::kSecond + kOutAfter);
  CheckpointWriter::Options options = RankOptions(0, 1);
  options.path = "/ckpt/run1/step-200";
  options.set_id = "step-200";
  StartSave(std::move(options));
  ExpectAllSaved();
  AwaitReplaced(2);
  EXPECT_THAT(ProblemsOfTheSet(), ::testing::IsEmpty());
  sim::SimClient* const reader = cluster_->NewClient("reader");
  EXPECT_THAT(
      cluster_->Await(ProblemsOfSet(reader->core(), "/ckpt/run1/step-200", 1)),
      ::testing::IsEmpty());
}

TEST_P(ClusterRebuildTest, MetadataThatDiesAllTheTimeFinishesIt) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    Make(GetParam(), seed);
    Save();
    cluster_->KillTarget(3);
    cluster_->Sleep(10 * io::kSecond + kOutAfter);
    for (int i = 0; i < 12 && !IsReplaced(3); ++i) {
      cluster_->Sleep(cluster_->random()->Between(1, 4000) * io::kMillisecond);
      cluster_->KillMeta();
      ASSERT_OK(cluster_->Await(cluster_->StartMeta()));
    }
    AwaitReplaced(3);
    ExpectWholeWithout(3);
  }
}

TEST_P(ClusterRebuildTest, NewTargetsThatDieAllTheTimeFinishIt) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    Make(GetParam(), seed);
    Save();
    cluster_->KillTarget(3);
    cluster_->Sleep(10 * io::kSecond + kOutAfter);
    for (int i = 0; i < 30 && !IsReplaced(3); ++i) {
      cluster_->Sleep(cluster_->random()->Between(1, 400) * io::kMillisecond);
      uint32_t victim = 3;
      while (victim == 3) {
        victim = static_cast<uint32_t>(
            cluster_->random()->Between(1, GetParam().targets));
      }
      cluster_->CrashTarget(victim);
      ASSERT_OK(cluster_->Await(cluster_->StartTarget(victim)));
    }
    AwaitReplaced(3);
    ExpectWholeWithout(3);
  }
}

TEST_P(ClusterRebuildTest, OldTargetThatComesBackIsEmptiedAndNotUsed) {
  Make(GetParam(), 1);
  Save();
  cluster_->KillTarget(2);
  AwaitReplaced(2);
  ASSERT_OK(cluster_->Await(cluster_->StartTarget(2)));
  ASSERT_GT(cluster_->store(2)->stats().chunks, 0u);
  cluster_->Sleep(60 * io::kSecond);
  EXPECT_EQ(cluster_->store(2)->stats().chunks, 0u);
  EXPECT_EQ(Map()->FindTarget(TargetId(2))->state, TargetState::kOut);
  EXPECT_EQ(RowsOf(2), 0u);
  EXPECT_THAT(ProblemsOfTheSet(), ::testing::IsEmpty());
}

// In rows with both there is not enough: nothing is made up, until the lost
// target is back, which has its chunks.
TEST_P(ClusterRebuildTest, DamagedSourcesStopItUntilTheOldTargetIsBack) {
  Make(GetParam(), 2);
  Save();
  cluster_->KillTarget(2);
  ASSERT_GT(cluster_->CorruptTarget(1, format::kDiskAlignBytes), 0u);
  cluster_->Sleep(kWholeWithin);
  EXPECT_GT(RowsOf(2), 0u);
  EXPECT_THAT(Problems(), HasSubstr("cannot be made now"));
  sim::SimClient* const client = cluster_->NewClient("operator");
  const auto status =
      cluster_->Await(ReportStatus(client->core(), client->core()->Deadline()));
  ASSERT_OK(status);
  EXPECT_GT(status->rebuild.shards_moving, 0u);
  EXPECT_FALSE(status->rebuild.problems.empty());
  ASSERT_OK(cluster_->Await(cluster_->StartTarget(2)));
  AwaitReplaced(2);
  EXPECT_OK(Load(cluster_->NewClient("reader"), 2));
}

INSTANTIATE_TEST_SUITE_P(Schemes, ClusterRebuildTest,
                         ::testing::Values(Shape{"rs:2+1", 5},
                                           Shape{"replicate:2", 4}),
                         [](const auto& param) {
                           std::string name = param.param.scheme;
                           for (char& c : name) c = std::isalnum(c) ? c : '_';
                           return name;
                         });

TEST_F(ClusterTest, RebuildNeedsASpareTarget) {
  sim::ClusterOptions options;
  options.scheme = "rs:2+1";
  options.targets = 3;
  options.meta.rebuild.out_after_ns = kOutAfter;
  MakeCluster(options);
  cluster_->KillTarget(2);
  cluster_->Sleep(120 * io::kSecond);
  const auto map = cluster_->meta()->service()->map();
  EXPECT_EQ(map->FindTarget(TargetId(2))->state, TargetState::kDown);
  const auto report = cluster_->meta()->service()->rebuild().Report();
  ASSERT_EQ(report.problems_size(), 1);
  EXPECT_THAT(report.problems(0), HasSubstr("add one"));
}

}  // namespace
}  // namespace cairn::client
