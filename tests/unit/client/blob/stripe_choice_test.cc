#include "client/blob/stripe_choice.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/sim/sim_env.h"
#include "tests/sim/world.h"

namespace cairn::client {
namespace {

using format::BlobId;
using format::ClusterMap;
using format::Pool;
using format::TargetId;
using format::TargetState;

// Eight rows of two copies over eight targets: row i has targets i+1 and i+2.
class StripeChoiceTest : public ::testing::Test {
 protected:
  StripeChoiceTest()
      : world_({.seed = 1}),
        env_(world_.Start(world_.AddNode())),
        core_(env_, Options()) {
    map_.epoch = format::Epoch(1);
    Pool pool;
    pool.id = format::PoolId(1);
    pool.name = "default";
    pool.scheme = {format::SchemeKind::kReplicate, 1, 1};
    pool.pg_count = 8;
    pool.stripe_width = 8;
    for (uint32_t i = 0; i < 8; ++i) {
      format::TargetInfo target;
      target.id = TargetId(i + 1);
      target.address = "10.0.0.1:1";
      map_.targets[target.id] = target;
      pool.pg_targets.push_back(TargetId(i + 1));
      pool.pg_targets.push_back(TargetId((i + 1) % 8 + 1));
    }
    map_.pools[pool.id] = pool;
  }
  ~StripeChoiceTest() override { world_.Run(core_.Stop()); }

  const Pool& pool() const { return map_.pools.begin()->second; }
  BlobId blob() const { return BlobId::Make(format::PoolId(1), 5); }
  TargetState& StateOf(TargetId id) { return map_.targets[id].state; }
  // Of the row of a stripe; shard 1 is also shard 0 of the next stripe's.
  TargetId TargetOf(uint32_t stripe, uint32_t shard) const {
    return pool().PgTargets(pool().PgOf(blob(), stripe))[shard];
  }
  StripeChoice Choose(uint32_t first, bool probe = true) {
    return ChooseStripe(&core_, map_, pool(), blob(), first, probe);
  }
  void MakeSilent(TargetId target) {
    const io::TimeNs asked_at = env_->NowNs();
    world_.RunUntil(world_.NowNs() + kChunkAttemptTimeout);
    core_.NoteAnswer(CallKind::kPut, target,
                     absl::DeadlineExceededError("no answer"), asked_at);
  }

  sim::World world_;
  sim::SimEnv* const env_;
  Core core_;
  ClusterMap map_;
};

TEST_F(StripeChoiceTest, NextNumberIsTakenWhileAllIsWell) {
  for (uint32_t first = 0; first < 20; ++first) {
    const StripeChoice choice = Choose(first);
    EXPECT_EQ(choice.stripe, first);
    EXPECT_EQ(choice.fitness, RowFitness::kGood);
  }
}

TEST_F(StripeChoiceTest, RowsWithATargetThatIsNotUpAreSkipped) {
  for (const TargetState state : {TargetState::kSuspect, TargetState::kDown,
                                  TargetState::kOut, TargetState::kDraining}) {
    StateOf(TargetOf(3, 1)) = state;  // In the rows of stripes 3 and 4.
    EXPECT_EQ(Choose(2).stripe, 2u);
    EXPECT_EQ(Choose(3).stripe, 5u);
    EXPECT_EQ(Choose(4).stripe, 5u);
    EXPECT_EQ(Choose(11).stripe, 13u);
    EXPECT_EQ(Choose(3).fitness, RowFitness::kGood);
  }
}

// Its shards are being copied: what comes now would be missed.
TEST_F(StripeChoiceTest, RowThatIsClosedIsNeverTaken) {
  Pool& rows = map_.pools.begin()->second;
  rows.Close(rows.PgOf(blob(), 3));
  EXPECT_EQ(Choose(2).stripe, 2u);
  EXPECT_EQ(Choose(3).stripe, 4u);
  for (uint32_t stripe = 0; stripe < 8; ++stripe) {
    rows.Close(rows.PgOf(blob(), stripe));
  }
  EXPECT_EQ(Choose(0).fitness, RowFitness::kUseless);
}

TEST_F(StripeChoiceTest, WithoutAGoodRowOneWithoutATargetThatIsOutIsTaken) {
  for (auto& [id, target] : map_.targets) target.state = TargetState::kDown;
  StateOf(TargetOf(0, 1)) = TargetState::kOut;
  const StripeChoice choice = Choose(0);
  EXPECT_EQ(choice.stripe, 2u);
  EXPECT_EQ(choice.fitness, RowFitness::kUnwell);
  for (auto& [id, target] : map_.targets) target.state = TargetState::kOut;
  EXPECT_EQ(Choose(0).fitness, RowFitness::kUseless);
  EXPECT_EQ(TargetsNotUp(map_, pool()).find("target 1 (10.0.0.1:1) is out"),
            0u);
}

TEST_F(StripeChoiceTest, SilentTargetGetsOneStripeInAWhile) {
  const TargetId silent = TargetOf(0, 1);
  MakeSilent(silent);
  EXPECT_EQ(Choose(0).stripe, 2u);
  world_.RunUntil(world_.NowNs() + kSilentTargetPause);
  EXPECT_EQ(Choose(0, /*probe=*/false).stripe, 2u);
  EXPECT_EQ(Choose(0).stripe, 0u);
  EXPECT_EQ(Choose(0).stripe, 2u);
  core_.NoteAnswer(CallKind::kPut, silent, absl::OkStatus(), env_->NowNs());
  EXPECT_EQ(Choose(0).stripe, 0u);
}

TEST_F(StripeChoiceTest, RowOfSilentTargetsIsBetterThanOneOfTargetsNotUp) {
  for (auto& [id, target] : map_.targets) target.state = TargetState::kSuspect;
  StateOf(TargetOf(4, 0)) = TargetState::kUp;
  StateOf(TargetOf(4, 1)) = TargetState::kUp;
  MakeSilent(TargetOf(4, 0));
  const StripeChoice choice = Choose(0);
  EXPECT_EQ(choice.stripe, 4u);
  EXPECT_EQ(choice.fitness, RowFitness::kDoubtful);
}

TEST_F(StripeChoiceTest, FullTargetIsLeftAloneForAWhile) {
  core_.NoteFull(TargetOf(0, 1));
  EXPECT_EQ(Choose(0).stripe, 2u);
  world_.RunUntil(world_.NowNs() + kFullTargetPause);
  EXPECT_EQ(Choose(0).stripe, 0u);
}

}  // namespace
}  // namespace cairn::client
