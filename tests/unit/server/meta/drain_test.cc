// How a target is emptied, step by step, with targets that are played: rows
// close, move, and open again; what must come first; and when it must not.
#include <algorithm>

#include "tests/unit/server/meta/rebuild_fixture.h"

namespace cairn::server {
namespace {

using format::TargetChange;
using ::testing::HasSubstr;
using Code = absl::StatusCode;

class DrainTest : public RebuildTest {
 protected:
  wire::RebuildStatus Report() { return meta_->rebuild().Report(); }
  // Opens the service with the options as they are now.
  void Reopen() { RestartRunning(); }
  // A stripe of the blob in the row.
  uint32_t StripeIn(uint64_t blob, uint32_t pg) {
    uint32_t stripe = 0;
    while (Pool().PgOf(format::BlobId(blob), stripe) != pg) ++stripe;
    return stripe;
  }
  wire::CommitExtentsRequest CommitOf(uint64_t file, uint64_t blob,
                                      uint32_t stripe) {
    wire::CommitExtentsRequest request = CommitRequest(file);
    AddExtent(0, 100, blob, stripe * Pool().stripe_bytes(),
              request.add_extents());
    return request;
  }
};

TEST_F(DrainTest, TargetIsEmptiedGetsNothingAgainAndCanBeRemoved) {
  const uint64_t rows = RowsOf(2);
  Answer(RebuildState::kDone);
  Drain(2);
  Sleep(60 * io::kSecond);
  EXPECT_EQ(RowsOf(2), 0u);
  EXPECT_EQ(StateOf(2), TargetState::kDraining);
  EXPECT_EQ(ClosedRows(), 0u);
  EXPECT_EQ(KeysOf(format::KeyKind::kMove), 0u);
  EXPECT_EQ(Report().shards_moved(), rows);
  EXPECT_EQ(Report().drain_left(), 0u);
  // It is told to erase what it had, as it is still there.
  uint64_t drops = 0;
  for (const auto& drop : orders_.drops) drops += drop.target() == 2;
  EXPECT_EQ(drops, rows);
  EXPECT_EQ(KeysOf(format::KeyKind::kChore), 0u);
  Sleep(100 * io::kSecond);
  EXPECT_EQ(RowsOf(2), 0u);
  Change(2, TargetChange::kRemove);
  EXPECT_EQ(meta_->map()->FindTarget(TargetId(2)), nullptr);
}

TEST_F(DrainTest, RowIsClosedUnderItsFenceUntilItHasMoved) {
  Drain(2);
  Sleep(5 * io::kSecond);
  ASSERT_FALSE(orders_.rebuild_orders.empty());
  const wire::RebuildShardRequest order = orders_.rebuild_orders.back();
  EXPECT_EQ(Pool().closed_pgs, std::vector<uint32_t>{order.pg()});
  EXPECT_EQ(order.fence_epoch(),
            meta_->map()->PgEpoch(Pool(), order.pg()).value);
  EXPECT_GT(order.fence_epoch(), 2u);
  // Its own shard can be copied, before anything is decoded.
  ASSERT_EQ(order.sources_size(), 2);
  EXPECT_EQ(order.sources(0).target(), 2u);
  EXPECT_EQ(order.sources(0).shard(), order.shard());
  const uint64_t rows = RowsOf(2);
  EXPECT_EQ(Report().drain_left(), rows);
  EXPECT_EQ(Report().drain_moving(), 1u);
  Answer(RebuildState::kDone);
  Sleep(3 * io::kSecond);
  EXPECT_LT(RowsOf(2), rows);
  EXPECT_FALSE(Pool().IsClosed(order.pg()));
}

// Chunks that were put under the map before the row closed may be missing in
// the list that the new target has made its shard of.
TEST_F(DrainTest, CommitOfWhatWasPutBeforeTheRowClosedIsRefused) {
  const uint64_t blob = AllocateBlobs(session_, 1)[0];
  const uint64_t file = MakeFile(kRoot, "f");
  std::vector<wire::CommitExtentsRequest> stale;
  for (uint32_t pg = 0; pg < Pool().pg_count; ++pg) {
    stale.push_back(CommitOf(file, blob, StripeIn(blob, pg)));
  }
  Drain(2);
  Sleep(5 * io::kSecond);
  ASSERT_EQ(ClosedRows(), 1u);
  const uint32_t closed = Pool().closed_pgs[0];
  for (uint32_t pg = 0; pg < Pool().pg_count; ++pg) {
    const absl::Status committed = Commit(stale[pg]).status();
    if (pg == closed) {
      EXPECT_THAT(committed, StatusIs(Code::kAborted, "other targets"));
    } else {
      EXPECT_OK(committed);
    }
  }
  // Nor is it taken once the row is open again, moved or not.
  wire::CommitExtentsRequest later = stale[closed];
  Change(2, TargetChange::kUndrain);
  Sleep(5 * io::kSecond);
  ASSERT_EQ(ClosedRows(), 0u);
  *later.mutable_id() = NextId();
  EXPECT_THAT(Commit(later), StatusIs(Code::kAborted, "other targets"));
}

TEST_F(DrainTest, UndoneInTheMiddleItStopsAndErasesWhatWasMade) {
  const uint64_t rows = RowsOf(2);
  Drain(2);
  Sleep(5 * io::kSecond);
  ASSERT_EQ(orders_.rebuild_orders.empty(), false);
  const wire::RebuildShardRequest order = orders_.rebuild_orders.back();
  Change(2, TargetChange::kUndrain);
  Answer(RebuildState::kDone);
  Sleep(30 * io::kSecond);
  EXPECT_EQ(RowsOf(2), rows);
  EXPECT_EQ(ClosedRows(), 0u);
  EXPECT_EQ(KeysOf(format::KeyKind::kMove), 0u);
  ASSERT_EQ(orders_.drops.size(), 1u);
  EXPECT_EQ(orders_.drops[0].target(), order.target());
  EXPECT_EQ(orders_.drops[0].pg(), order.pg());
  ExpectRowsAreWhole();
}

// What has moved by then comes back for balance, with as few moves.
TEST_F(DrainTest, UndoneAfterwardsTheTargetGetsItsShareAgain) {
  Answer(RebuildState::kDone);
  const uint64_t rows = RowsOf(2);
  Drain(2);
  Sleep(60 * io::kSecond);
  ASSERT_EQ(RowsOf(2), 0u);
  Change(2, TargetChange::kUndrain);
  Sleep(120 * io::kSecond);
  EXPECT_GE(RowsOf(2), rows - 1);
  EXPECT_EQ(Report().shards_moved(), rows + RowsOf(2));
  ExpectRowsAreWhole();
}

TEST_F(DrainTest, GoesOnAfterARestartOfTheService) {
  Drain(2);
  Sleep(5 * io::kSecond);
  ASSERT_FALSE(orders_.rebuild_orders.empty());
  const wire::RebuildShardRequest before = orders_.rebuild_orders.back();
  orders_.rebuild_orders.clear();
  Reopen();
  ASSERT_FALSE(orders_.rebuild_orders.empty());
  const wire::RebuildShardRequest after = orders_.rebuild_orders.back();
  EXPECT_EQ(after.target(), before.target());
  EXPECT_EQ(after.pg(), before.pg());
  EXPECT_EQ(after.fence_epoch(), before.fence_epoch());
  Answer(RebuildState::kDone);
  Sleep(60 * io::kSecond);
  EXPECT_EQ(RowsOf(2), 0u);
  ExpectRowsAreWhole();
}

TEST_F(DrainTest, LostShardsComeFirst) {
  options_.rebuild.moves = 1;
  Reopen();
  Drain(3);
  Lose(2);
  Sleep(5 * io::kSecond);
  Answer(RebuildState::kFailed);  // The drain that has begun stays.
  Sleep(75 * io::kSecond);
  ASSERT_EQ(StateOf(2), TargetState::kOut);
  Answer(RebuildState::kDone);
  bool drained_early = false;
  uint64_t drained = RowsOf(3) - 1;  // With the one under way.
  for (int i = 0; i < 60 && RowsOf(2) > 0; ++i) {
    Sleep(io::kSecond);
    drained_early = drained_early || (RowsOf(2) > 0 && RowsOf(3) < drained);
  }
  EXPECT_EQ(RowsOf(2), 0u);
  EXPECT_FALSE(drained_early);
  Sleep(60 * io::kSecond);
  EXPECT_EQ(RowsOf(3), 0u);
}

// Its shards are made of the others.
TEST_F(DrainTest, TargetThatDiesWhileItIsEmptiedIsNoSource) {
  Drain(2);
  Lose(2);
  Sleep(20 * io::kSecond);
  orders_.rebuild_orders.clear();
  Sleep(5 * io::kSecond);
  ASSERT_FALSE(orders_.rebuild_orders.empty());
  for (const auto& order : orders_.rebuild_orders) {
    for (const auto& source : order.sources()) {
      EXPECT_NE(source.target(), 2u);
    }
  }
  Answer(RebuildState::kDone);
  Sleep(60 * io::kSecond);
  EXPECT_EQ(RowsOf(2), 0u);
}

TEST_F(DrainTest, ShardsStayIfOthersOfTheirRowWouldBeTooNear) {
  ClusterMap next = *meta_->map();
  next.epoch = format::Epoch(next.epoch.value + 1);
  next.pools.begin()->second.failure_domain = format::FailureDomain::kHost;
  for (uint32_t id = 3; id <= 5; ++id) next.targets[TargetId(id)].host = "h";
  options_.rebuild.balance = false;
  Reopen();
  ASSERT_OK(Await(meta_->ReplaceMap(next)));
  Answer(RebuildState::kDone);
  Drain(2);
  Sleep(60 * io::kSecond);
  // Rows of 2 and 1 have gone to the others; those of 2 and 3 would have to
  // share a host, but for target 1.
  const auto map = meta_->map();
  const format::Pool& pool = map->pools.begin()->second;
  for (uint32_t pg = 0; pg < pool.pg_count; ++pg) {
    const auto row = pool.PgTargets(pg);
    if (row[0] == TargetId(1) || row[1] == TargetId(1)) continue;
    EXPECT_TRUE(row[0].value >= 3 && row[1].value >= 3) << pg;
  }
  EXPECT_EQ(RowsOf(2), 0u);
  Drain(1);
  Sleep(60 * io::kSecond);
  EXPECT_GT(RowsOf(1), 0u);
  EXPECT_THAT(Problems(), HasSubstr("failure domain of its own"));
  EXPECT_EQ(ClosedRows(), 0u);
}

TEST_F(DrainTest, NothingBeginsUnderTheBrakeAndRowsAreOpened) {
  Drain(2);
  Sleep(5 * io::kSecond);
  ASSERT_EQ(ClosedRows(), 1u);
  for (const uint32_t id : {1u, 3u, 4u, 5u}) Lose(id);
  Sleep(20 * io::kSecond);
  ASSERT_FALSE(meta_->health().brake().empty());
  EXPECT_EQ(ClosedRows(), 0u);
  Answer(RebuildState::kDone);
  const uint64_t orders = orders_.rebuild_orders.size();
  Sleep(30 * io::kSecond);
  EXPECT_EQ(orders_.rebuild_orders.size(), orders);
  EXPECT_EQ(ClosedRows(), 0u);
}

// As a transaction of unknown outcome may leave one.
TEST_F(DrainTest, RowThatIsClosedForNoMoveIsOpened) {
  ClusterMap next = *meta_->map();
  next.epoch = format::Epoch(next.epoch.value + 1);
  next.pools.begin()->second.Close(7);
  ASSERT_OK(Await(meta_->ReplaceMap(next)));
  Sleep(3 * io::kSecond);
  EXPECT_EQ(ClosedRows(), 0u);
}

// --- Balance.

class BalanceTest : public DrainTest {
 protected:
  void AddTarget(uint32_t id) {
    ClusterMap next = *meta_->map();
    next.epoch = format::Epoch(next.epoch.value + 1);
    format::TargetInfo target;
    target.id = TargetId(id);
    target.host = absl::StrCat("host", id);
    target.capacity_bytes = format::kGiB;
    next.targets[target.id] = target;
    ASSERT_OK(Await(meta_->ReplaceMap(next)));
  }
};

TEST_F(BalanceTest, AddedTargetGetsItsShareWithTheFewestMoves) {
  Answer(RebuildState::kDone);
  AddTarget(6);
  Sleep(120 * io::kSecond);
  // 20 slots over 6 targets; one more or less is not worth a move.
  EXPECT_GE(RowsOf(6), 2u);
  for (uint32_t id = 1; id <= 5; ++id) {
    EXPECT_GE(RowsOf(id), 3u) << id;
    EXPECT_LE(RowsOf(id), 4u) << id;
  }
  const wire::RebuildStatus report = Report();
  EXPECT_EQ(report.shards_moved(), RowsOf(6));
  EXPECT_EQ(report.balance_left(), 0u);
  EXPECT_EQ(report.balance_waits(), "");
  ExpectRowsAreWhole();
  EXPECT_EQ(KeysOf(format::KeyKind::kMove), 0u);
}

TEST_F(BalanceTest, RowKeepsItsTargetUntilTheNewOneHasAll) {
  AddTarget(6);
  Sleep(20 * io::kSecond);
  EXPECT_EQ(RowsOf(6), 0u);
  ASSERT_FALSE(orders_.rebuild_orders.empty());
  for (const auto& order : orders_.rebuild_orders) {
    EXPECT_EQ(order.target(), 6u);
    ASSERT_EQ(order.sources_size(), 2);  // A copy first.
    EXPECT_EQ(order.sources(0).shard(), order.shard());
    EXPECT_TRUE(Pool().IsClosed(order.pg()));
  }
  EXPECT_EQ(ClosedRows(), 1u);
  EXPECT_EQ(Report().balance_moving(), 1u);
  EXPECT_GT(Report().balance_left(), 1u);
}

TEST_F(BalanceTest, NothingIsBalancedIfItIsSwitchedOff) {
  AddTarget(6);
  Sleep(10 * io::kSecond);
  ASSERT_EQ(ClosedRows(), 1u);
  options_.rebuild.balance = false;
  Reopen();
  Sleep(10 * io::kSecond);
  // What had begun is given up.
  EXPECT_EQ(ClosedRows(), 0u);
  EXPECT_EQ(KeysOf(format::KeyKind::kMove), 0u);
  Answer(RebuildState::kDone);
  Sleep(60 * io::kSecond);
  EXPECT_EQ(RowsOf(6), 0u);
  EXPECT_GT(Report().balance_left(), 0u);
  EXPECT_THAT(Report().balance_waits(), HasSubstr("switched off"));
}

TEST_F(BalanceTest, NothingBeginsWhileATargetIsAway) {
  Answer(RebuildState::kDone);
  Lose(3);
  Sleep(20 * io::kSecond);
  ASSERT_EQ(StateOf(3), TargetState::kDown);
  AddTarget(6);
  Sleep(20 * io::kSecond);
  EXPECT_TRUE(orders_.rebuild_orders.empty());
  EXPECT_THAT(Report().balance_waits(), HasSubstr("target 3 is down"));
  orders_.failing.clear();
  Sleep(120 * io::kSecond);
  EXPECT_GE(RowsOf(6), 2u);
}

TEST_F(BalanceTest, MoveThatFailsAgainAndAgainIsGivenUp) {
  Answer(RebuildState::kFailed);
  orders_.rebuild_answer.set_problem("data that nobody can make");
  AddTarget(6);
  bool closed = false;
  bool opened = false;
  for (int i = 0; i < 30; ++i) {
    Sleep(io::kSecond);
    closed = closed || ClosedRows() > 0;
    opened = opened || (closed && ClosedRows() == 0);
  }
  EXPECT_TRUE(closed);
  EXPECT_TRUE(opened);
  EXPECT_EQ(RowsOf(6), 0u);
}

TEST_F(BalanceTest, DrainComesBeforeBalance) {
  Drain(1);
  AddTarget(6);
  Answer(RebuildState::kDone);
  const uint64_t rows = RowsOf(1);
  bool other = false;
  for (int i = 0; i < 60 && RowsOf(1) > 0; ++i) {
    Sleep(io::kSecond);
    other = other || Report().shards_moved() > rows - RowsOf(1);
  }
  EXPECT_EQ(RowsOf(1), 0u);
  EXPECT_FALSE(other);
  Sleep(60 * io::kSecond);
  // 20 slots over the five that are left.
  for (uint32_t id = 2; id <= 6; ++id) EXPECT_EQ(RowsOf(id), 4u) << id;
  ExpectRowsAreWhole();
}

}  // namespace
}  // namespace cairn::server
