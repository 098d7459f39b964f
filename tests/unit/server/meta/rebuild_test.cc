// What the metadata service does about a target that stays away, step by step,
// with targets that are played: order, switch, clean up; and when it must not.
#include <algorithm>

#include "format/wire/rebuild_state.h"
#include "tests/unit/server/meta/meta_fixture.h"

namespace cairn::server {
namespace {

using format::ClusterMap;
using format::RebuildState;
using format::TargetId;
using format::TargetState;
using ::testing::HasSubstr;
using Code = absl::StatusCode;

// Replicate:2 over five targets and ten rows.
class RebuildTest : public MetaTest {
 protected:
  RebuildTest() {
    options_.lease_ns = 10'000 * io::kSecond;
    options_.health.map_pause_ns = io::kMillisecond;
    options_.rebuild.out_after_ns = 60 * io::kSecond;
    Answer(RebuildState::kRunning);
    Restart();
    CAIRN_CHECK(Await(meta_->ReplaceMap(WithFiveTargets())).ok());
    session_ = OpenSession("host/1/later", 2);
    meta_->Start();
    Sleep(5 * io::kSecond);
  }
  ClusterMap WithFiveTargets() {
    ClusterMap next = *meta_->map();
    next.epoch = format::Epoch(next.epoch.value + 1);
    for (uint32_t id = 4; id <= 5; ++id) {
      format::TargetInfo target;
      target.id = TargetId(id);
      target.host = absl::StrCat("host", id);
      target.capacity_bytes = format::kGiB;
      next.targets[target.id] = target;
    }
    format::Pool& pool = next.pools.begin()->second;
    pool.pg_count = 10;
    pool.stripe_width = 10;
    pool.pg_targets.clear();
    for (uint32_t pg = 0; pg < pool.pg_count; ++pg) {
      pool.pg_targets.push_back(TargetId(1 + pg % 5));
      pool.pg_targets.push_back(TargetId(1 + (pg + 1 + pg / 5) % 5));
    }
    pool.pg_epochs.clear();
    return next;
  }

  // As of a new process: with all loops.
  void RestartRunning() {
    Restart();
    meta_->Start();
    Sleep(2 * io::kSecond);
  }
  void Answer(RebuildState state) {
    orders_.rebuild_answer.Clear();
    orders_.rebuild_answer.set_state(static_cast<uint32_t>(state));
  }
  const format::Pool& Pool() { return meta_->map()->pools.begin()->second; }
  TargetState StateOf(uint32_t id) {
    return meta_->map()->FindTarget(TargetId(id))->state;
  }
  uint64_t RowsOf(uint32_t id) {
    const auto map = meta_->map();
    const auto& slots = map->pools.begin()->second.pg_targets;
    return static_cast<uint64_t>(
        std::count(slots.begin(), slots.end(), TargetId(id)));
  }
  void Lose(uint32_t id) { orders_.failing.insert(TargetId(id)); }
  // Down, and out after the grace time.
  void LoseForGood(uint32_t id) {
    Lose(id);
    Sleep(80 * io::kSecond);
    ASSERT_EQ(StateOf(id), TargetState::kOut);
  }
  std::string Problems() {
    std::string all;
    const wire::RebuildStatus report = meta_->rebuild().Report();
    for (const std::string& problem : report.problems()) {
      absl::StrAppend(&all, problem, "\n");
    }
    return all;
  }
  void ExpectRowsAreWhole() {
    const auto map = meta_->map();
    const format::Pool& pool = map->pools.begin()->second;
    for (uint32_t pg = 0; pg < pool.pg_count; ++pg) {
      EXPECT_TRUE(map->PgHealthy(pool, pg)) << pg;
    }
  }
};

TEST_F(RebuildTest, TargetThatStaysAwayIsOutAfterTheGraceAndNotBefore) {
  Lose(2);
  Sleep(50 * io::kSecond);
  EXPECT_EQ(StateOf(2), TargetState::kDown);
  EXPECT_TRUE(orders_.rebuild_orders.empty());
  Sleep(30 * io::kSecond);
  EXPECT_EQ(StateOf(2), TargetState::kOut);
  // With that map its rows are fenced, others are not.
  const auto map = meta_->map();
  const format::Pool& pool = map->pools.begin()->second;
  for (uint32_t pg = 0; pg < pool.pg_count; ++pg) {
    const auto row = pool.PgTargets(pg);
    const bool has =
        std::find(row.begin(), row.end(), TargetId(2)) != row.end();
    EXPECT_EQ(map->PgEpoch(pool, pg) == map->epoch, has) << pg;
  }
}

TEST_F(RebuildTest, TargetThatComesBackInTimeIsNotTakenOut) {
  Lose(2);
  Sleep(50 * io::kSecond);
  orders_.failing.clear();
  Sleep(100 * io::kSecond);
  EXPECT_EQ(StateOf(2), TargetState::kUp);
  EXPECT_TRUE(orders_.rebuild_orders.empty());
}

TEST_F(RebuildTest, RowsAreSwitchedWhenTheirNewTargetsSayDoneAndNotBefore) {
  const uint64_t rows = RowsOf(2);
  LoseForGood(2);
  Sleep(60 * io::kSecond);
  EXPECT_FALSE(orders_.rebuild_orders.empty());
  EXPECT_EQ(RowsOf(2), rows);
  Answer(RebuildState::kFailed);
  orders_.rebuild_answer.set_problem("a source went away");
  Sleep(20 * io::kSecond);
  EXPECT_EQ(RowsOf(2), rows);
  EXPECT_THAT(Problems(), HasSubstr("a source went away"));
  Answer(RebuildState::kDone);
  Sleep(20 * io::kSecond);
  EXPECT_EQ(RowsOf(2), 0u);
  ExpectRowsAreWhole();
  EXPECT_EQ(meta_->rebuild().Report().shards_moved(), rows);
  EXPECT_EQ(KeysOf(format::KeyKind::kMove), 0u);
}

TEST_F(RebuildTest, OrdersNameTheOthersOfTheRowAndTheEpochOfTheFence) {
  LoseForGood(2);
  Sleep(3 * io::kSecond);
  ASSERT_FALSE(orders_.rebuild_orders.empty());
  for (const auto& order : orders_.rebuild_orders) {
    const auto row = Pool().PgTargets(order.pg());
    EXPECT_EQ(row[order.shard()], TargetId(2));
    ASSERT_EQ(order.sources_size(), 1);  // The dead one is none.
    EXPECT_EQ(order.sources(0).shard(), 1 - order.shard());
    EXPECT_EQ(TargetId(order.sources(0).target()), row[1 - order.shard()]);
    EXPECT_EQ(std::count(row.begin(), row.end(), TargetId(order.target())), 0);
    EXPECT_EQ(order.fence_epoch(),
              meta_->map()->PgEpoch(Pool(), order.pg()).value);
  }
}

// A stripe put before the fence, and committed after it.
TEST_F(RebuildTest, CommitUnderTheMapBeforeTheFenceIsRefused) {
  const uint64_t blob = AllocateBlobs(session_, 1)[0];
  const uint64_t file = MakeFile(kRoot, "f");
  uint32_t stripe = 0;
  while (true) {  // One in a row of target 2.
    const auto row =
        Pool().PgTargets(Pool().PgOf(format::BlobId(blob), stripe));
    if (std::find(row.begin(), row.end(), TargetId(2)) != row.end()) break;
    ++stripe;
  }
  wire::CommitExtentsRequest stale = CommitRequest(file);
  AddExtent(0, 100, blob, stripe * Pool().stripe_bytes(), stale.add_extents());
  LoseForGood(2);
  EXPECT_THAT(Commit(stale), StatusIs(Code::kAborted, "other targets"));
}

TEST_F(RebuildTest, NothingIsTakenOutOrOrderedUnderTheBrake) {
  LoseForGood(2);
  Lose(3);
  Lose(4);
  Lose(5);
  Sleep(20 * io::kSecond);
  ASSERT_FALSE(meta_->health().brake().empty());
  Answer(RebuildState::kDone);
  const uint64_t orders = orders_.rebuild_orders.size();
  const uint64_t rows = RowsOf(2);
  Sleep(200 * io::kSecond);
  EXPECT_EQ(StateOf(3), TargetState::kDown);
  EXPECT_EQ(orders_.rebuild_orders.size(), orders);
  EXPECT_EQ(RowsOf(2), rows);
  orders_.failing = {TargetId(2)};
  Sleep(200 * io::kSecond);
  EXPECT_EQ(RowsOf(2), 0u);
  ExpectRowsAreWhole();
}

// Rows whose other copy is away, too: neither may leave.
TEST_F(RebuildTest, TargetIsNotTakenOutIfARowCouldNotBeReadWithoutIt) {
  Lose(1);
  Lose(2);
  Sleep(200 * io::kSecond);
  ASSERT_TRUE(meta_->health().brake().empty());
  EXPECT_EQ(StateOf(1), TargetState::kDown);
  EXPECT_EQ(StateOf(2), TargetState::kDown);
  EXPECT_THAT(Problems(), HasSubstr("too few targets"));
  EXPECT_TRUE(orders_.rebuild_orders.empty());
}

TEST_F(RebuildTest, MovesGoOnAfterARestartOfTheService) {
  LoseForGood(2);
  Sleep(3 * io::kSecond);
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> homes;
  for (const auto& order : orders_.rebuild_orders) {
    homes[{order.pg(), order.shard()}] = order.target();
  }
  EXPECT_GT(KeysOf(format::KeyKind::kMove), 0u);
  orders_.rebuild_orders.clear();
  RestartRunning();
  ASSERT_FALSE(orders_.rebuild_orders.empty());
  for (const auto& order : orders_.rebuild_orders) {
    const auto home = homes.find({order.pg(), order.shard()});
    ASSERT_NE(home, homes.end());
    EXPECT_EQ(order.target(), home->second);
  }
  Answer(RebuildState::kDone);
  Sleep(30 * io::kSecond);
  EXPECT_EQ(RowsOf(2), 0u);
  ExpectRowsAreWhole();
}

TEST_F(RebuildTest, NewTargetThatIsLostMeanwhileIsReplacedByAnother) {
  LoseForGood(2);
  Sleep(3 * io::kSecond);
  ASSERT_FALSE(orders_.rebuild_orders.empty());
  const uint32_t home = orders_.rebuild_orders.back().target();
  Lose(home);
  Sleep(20 * io::kSecond);
  ASSERT_EQ(StateOf(home), TargetState::kDown);
  Answer(RebuildState::kDone);
  Sleep(30 * io::kSecond);
  // But for the rows that have both: they have no copy left to read.
  const auto map = meta_->map();
  const format::Pool& pool = map->pools.begin()->second;
  for (uint32_t pg = 0; pg < pool.pg_count; ++pg) {
    const auto row = pool.PgTargets(pg);
    if (row[0] != TargetId(2) && row[1] != TargetId(2)) continue;
    EXPECT_TRUE(row[0] == TargetId(home) || row[1] == TargetId(home));
  }
}

// Its disk is full, say, or what it has is damaged: it is no home.
TEST_F(RebuildTest, NewTargetThatFailsAgainAndAgainIsReplacedByAnother) {
  LoseForGood(2);
  Sleep(3 * io::kSecond);
  ASSERT_FALSE(orders_.rebuild_orders.empty());
  const wire::RebuildShardRequest first = orders_.rebuild_orders.back();
  orders_.home_failing.insert(first.target());
  Sleep(60 * io::kSecond);
  const wire::RebuildShardRequest* last = nullptr;
  for (const auto& order : orders_.rebuild_orders) {
    if (order.pg() == first.pg() && order.shard() == first.shard()) {
      last = &order;
    }
  }
  ASSERT_NE(last, nullptr);
  EXPECT_NE(last->target(), first.target());
  // What it had made by then is dropped there.
  ASSERT_FALSE(orders_.drops.empty());
  EXPECT_EQ(orders_.drops[0].target(), first.target());
}

TEST_F(RebuildTest, OldTargetIsToldToDropItsGroupsOnceItIsBack) {
  const uint64_t rows = RowsOf(2);
  Answer(RebuildState::kDone);
  Lose(2);
  Sleep(120 * io::kSecond);
  ASSERT_EQ(RowsOf(2), 0u);
  EXPECT_TRUE(orders_.drops.empty());
  EXPECT_EQ(KeysOf(format::KeyKind::kChore), rows);  // The sweeps are done.
  RestartRunning();
  orders_.failing.clear();
  Sleep(10 * io::kSecond);
  EXPECT_EQ(orders_.drops.size(), rows);
  for (const auto& drop : orders_.drops) {
    EXPECT_EQ(drop.target(), 2u);
    ASSERT_EQ(drop.row_size(), 2);
    EXPECT_EQ(std::count(drop.row().begin(), drop.row().end(), 2u), 0);
  }
  EXPECT_EQ(KeysOf(format::KeyKind::kChore), 0u);
  EXPECT_EQ(StateOf(2), TargetState::kOut);  // Until an operator says so.
}

// Deleted while a new target copied it: orders went to the old row only.
TEST_F(RebuildTest, NewTargetIsSweptOfBlobsThatAreNoMore) {
  const uint64_t alive = AllocateBlobs(session_, 1)[0];
  const uint64_t gone = alive + 1000;
  for (uint32_t id = 1; id <= 5; ++id) orders_.listed[id] = {alive, gone};
  Answer(RebuildState::kDone);
  LoseForGood(2);
  Sleep(10 * io::kSecond);
  ASSERT_EQ(RowsOf(2), 0u);
  EXPECT_FALSE(orders_.deleted[format::BlobId(gone)].empty());
}

class LostStripesTest : public RebuildTest {
 protected:
  // All moves say that they cannot make this stripe.
  void AnswerLost(uint64_t blob, uint32_t stripe) {
    Answer(RebuildState::kDone);
    orders_.rebuild_answer.set_lost_stripes(1);
    wire::LostStripe* const lost = orders_.rebuild_answer.add_lost();
    lost->set_blob(blob);
    lost->set_stripe(stripe);
    lost->set_reason("no good shards");
  }
};

TEST_F(LostStripesTest, RowIsNotSwitchedWhileAStripeThatAFileNeedsIsMissing) {
  const uint64_t blob = AllocateBlobs(session_, 1)[0];
  const uint64_t file = MakeFile(kRoot, "f");
  ASSERT_OK(Write(file, 0, 100, blob, 3 * Pool().stripe_bytes() + 50));
  const uint64_t rows = RowsOf(2);
  AnswerLost(blob, 3);
  LoseForGood(2);
  Sleep(30 * io::kSecond);
  EXPECT_EQ(RowsOf(2), rows);
  EXPECT_THAT(Problems(), HasSubstr("no good shards"));
  // Another stripe of that blob is nobody's: a write that was given up.
  AnswerLost(blob, 2);
  Sleep(30 * io::kSecond);
  EXPECT_EQ(RowsOf(2), 0u);
}

TEST_F(LostStripesTest, MoreThanAreToldOfStopTheMove) {
  AnswerLost(77, 1);
  orders_.rebuild_answer.set_lost_stripes(2);
  const uint64_t rows = RowsOf(2);
  LoseForGood(2);
  Sleep(30 * io::kSecond);
  EXPECT_EQ(RowsOf(2), rows);
  EXPECT_THAT(Problems(), HasSubstr("more than are looked up"));
}

}  // namespace
}  // namespace cairn::server
