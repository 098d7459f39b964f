// What the metadata service does about damaged and lost chunks, with targets
// that are played: which it has made again, when, and when it must not.
#include <algorithm>

#include "format/extent/stripe.h"
#include "format/wire/rebuild_state.h"
#include "tests/unit/server/meta/meta_fixture.h"

namespace cairn::server {
namespace {

using format::BlobId;
using format::RebuildState;
using format::TargetId;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// Replicate:2 over three targets and three rows: {1 2}, {2 3}, {3 1}.
class ScrubMetaTest : public MetaTest {
 protected:
  ScrubMetaTest() {
    options_.lease_ns = 100'000 * io::kSecond;
    options_.health.map_pause_ns = io::kMillisecond;
    options_.repair.compare_ns = 3000 * io::kSecond;
    Answer(RebuildState::kDone);
    Restart();
    session_ = OpenSession("host/1/later", 2);
    meta_->Start();
    file_ = MakeFile(kRoot, "file");
    blob_ = AllocateBlobs(session_, 1)[0];
    Sleep(5 * io::kSecond);
  }
  void Answer(RebuildState state) {
    orders_.rebuild_answer.Clear();
    orders_.rebuild_answer.set_state(static_cast<uint32_t>(state));
  }
  const format::Pool& Pool() { return meta_->map()->pools.begin()->second; }
  uint32_t PgOf(uint32_t stripe) { return Pool().PgOf(BlobId(blob_), stripe); }
  uint32_t TargetOf(uint32_t stripe, uint32_t shard) {
    return Pool().PgTargets(PgOf(stripe))[shard].value;
  }
  // A file refers to the stripe.
  void Use(uint32_t stripe) {
    const uint64_t start = format::StripeStart(Pool(), stripe);
    ASSERT_OK(Write(file_, start, 100, blob_, start));
  }
  void Damage(uint32_t stripe, uint32_t shard) {
    wire::DamagedChunk* const damaged =
        orders_.scrubs[TargetId(TargetOf(stripe, shard))].add_damaged();
    damaged->set_pg(PgOf(stripe));
    damaged->mutable_chunk()->set_blob(blob_);
    damaged->mutable_chunk()->set_stripe(stripe);
    damaged->mutable_chunk()->set_shard(shard);
  }
  void List(uint32_t stripe, uint32_t shard, uint64_t bytes = 100) {
    wire::ChunkInfo& chunk =
        orders_.groups[{TargetOf(stripe, shard), PgOf(stripe)}].emplace_back();
    chunk.mutable_chunk()->set_blob(blob_);
    chunk.mutable_chunk()->set_stripe(stripe);
    chunk.mutable_chunk()->set_shard(shard);
    chunk.set_chunk_bytes(bytes);
    chunk.set_stripe_bytes(bytes);
  }
  wire::ScrubStatus Report() {
    const auto status =
        Await(meta_->ClusterStatus(wire::ClusterStatusRequest()));
    EXPECT_OK(status);
    return status.ok() ? status->scrub() : wire::ScrubStatus();
  }
  const std::vector<wire::RebuildShardRequest>& Orders() {
    return orders_.rebuild_orders;
  }

  uint64_t file_ = 0;
  uint64_t blob_ = 0;
};

TEST_F(ScrubMetaTest, DamagedChunkOfAFileIsOrderedAgainFromTheOthers) {
  Use(4);
  Damage(4, 1);
  orders_.rebuild_answer.set_repaired(1);
  const uint64_t sequence = kv_->durable_sequence();
  Sleep(20 * io::kSecond);
  ASSERT_FALSE(Orders().empty());
  const wire::RebuildShardRequest& order = Orders().front();
  EXPECT_EQ(order.target(), TargetOf(4, 1));
  EXPECT_EQ(order.pg(), PgOf(4));
  EXPECT_EQ(order.shard(), 1u);
  EXPECT_GE(order.meta_sequence(), sequence);
  ASSERT_EQ(order.repair_size(), 1);
  EXPECT_EQ(order.repair(0).blob(), blob_);
  EXPECT_EQ(order.repair(0).stripe(), 4u);
  ASSERT_EQ(order.sources_size(), 1);
  EXPECT_EQ(order.sources(0).target(), TargetOf(4, 0));
  EXPECT_EQ(order.sources(0).shard(), 0u);
  EXPECT_GT(Report().repaired_chunks(), 0u);
  EXPECT_EQ(Report().unrepaired_chunks(), 0u);
}

// As long as the target reports it; with each order as a new one.
TEST_F(ScrubMetaTest, ChunkThatIsDamagedAgainIsOrderedAnew) {
  Use(4);
  Damage(4, 1);
  Sleep(60 * io::kSecond);
  ASSERT_GE(Orders().size(), 2u);
  EXPECT_NE(Orders()[0].fence_epoch(), Orders()[1].fence_epoch());
  orders_.scrubs.clear();
  Sleep(20 * io::kSecond);
  const size_t orders = Orders().size();
  Sleep(100 * io::kSecond);
  EXPECT_EQ(Orders().size(), orders);
}

TEST_F(ScrubMetaTest, DamagedChunkOfNobodyIsLeftAloneUntilAFileRefersToIt) {
  Damage(4, 1);
  Sleep(100 * io::kSecond);
  EXPECT_THAT(Orders(), IsEmpty());
  EXPECT_EQ(Report().unrepaired_chunks(), 0u);
  Use(4);
  Sleep(700 * io::kSecond);
  EXPECT_FALSE(Orders().empty());
}

TEST_F(ScrubMetaTest, ChunkThatOnlyOthersListIsMadeAgain) {
  Use(4);
  Use(5);
  List(4, 0);
  List(5, 0);
  List(5, 1);
  Sleep(3500 * io::kSecond);
  ASSERT_FALSE(Orders().empty());
  for (const wire::RebuildShardRequest& order : Orders()) {
    EXPECT_EQ(order.target(), TargetOf(4, 1));
    ASSERT_EQ(order.repair_size(), 1);
    EXPECT_EQ(order.repair(0).stripe(), 4u);
  }
  EXPECT_GT(Report().absent_chunks(), 0u);
  EXPECT_GT(Report().compare_passes(), 0u);
  EXPECT_EQ(Report().groups(), 3u);
}

TEST_F(ScrubMetaTest, WriteUnderWayIsNoLostChunk) {
  List(4, 0);
  Sleep(7000 * io::kSecond);
  EXPECT_GE(Report().compare_passes(), 2u);
  EXPECT_THAT(Orders(), IsEmpty());
  EXPECT_EQ(Report().absent_chunks(), 0u);
  EXPECT_THAT(Report().problems(), IsEmpty());
}

// With a compare pass of most of an hour, this was not its turn.
TEST_F(ScrubMetaTest, RowOfATargetThatReportsDamageIsComparedFirst) {
  Use(4);
  Use(4 + Pool().stripe_width);
  List(4, 1);
  List(4 + Pool().stripe_width, 1);
  Damage(4, 0);
  Sleep(30 * io::kSecond);
  ASSERT_FALSE(Orders().empty());
  std::set<uint32_t> stripes;
  for (const wire::StripeRef& stripe : Orders().back().repair()) {
    stripes.insert(stripe.stripe());
  }
  EXPECT_THAT(stripes, ElementsAre(4u, 4 + Pool().stripe_width));
}

TEST_F(ScrubMetaTest, RowThatIsNotWholeWaitsUntilItIs) {
  Use(4);
  Damage(4, 1);
  orders_.failing.insert(TargetId(TargetOf(4, 0)));
  Sleep(100 * io::kSecond);
  EXPECT_THAT(Orders(), IsEmpty());
  EXPECT_EQ(Report().unrepaired_chunks(), 1u);
  EXPECT_THAT(Report().problems(0), HasSubstr("is not up"));
  orders_.failing.clear();
  Sleep(100 * io::kSecond);
  EXPECT_FALSE(Orders().empty());
  EXPECT_EQ(Report().unrepaired_chunks(), 0u);
}

TEST_F(ScrubMetaTest, RowOfWhichAShardMovesIsLeftAlone) {
  Use(4);
  Txn txn(kv_.get());
  store::Move move;
  move.set_from(1);
  move.set_to(2);
  txn.Put(format::MoveKey({format::PoolId(1), PgOf(4)}, 0), move);
  ASSERT_OK(Await(txn.Commit()));
  Damage(4, 1);
  Sleep(60 * io::kSecond);
  EXPECT_THAT(Orders(), IsEmpty());
  EXPECT_THAT(Report().problems(0), HasSubstr("moves"));
}

TEST_F(ScrubMetaTest, ChunkThatCannotBeMadeIsNamedAndTriedAgainLater) {
  Use(4);
  Damage(4, 1);
  wire::LostStripe* const lost = orders_.rebuild_answer.add_lost();
  lost->set_blob(blob_);
  lost->set_stripe(4);
  lost->set_reason("too few shards");
  orders_.rebuild_answer.set_lost_stripes(1);
  Sleep(60 * io::kSecond);
  EXPECT_THAT(Orders(), SizeIs(1));
  const wire::ScrubStatus report = Report();
  EXPECT_EQ(report.unrepaired_chunks(), 1u);
  ASSERT_EQ(report.problems_size(), 1);
  EXPECT_THAT(report.problems(0), HasSubstr("too few shards"));
  EXPECT_THAT(report.problems(0),
              HasSubstr(absl::StrCat("on target ", TargetOf(4, 1))));
  Answer(RebuildState::kDone);
  orders_.scrubs.clear();
  Sleep(options_.repair.retry_ns + 60 * io::kSecond);
  EXPECT_THAT(Orders(), SizeIs(2));
  EXPECT_EQ(Report().unrepaired_chunks(), 0u);
}

TEST_F(ScrubMetaTest, DamageOfAnOlderRowIsNobodysBusiness) {
  Use(4);
  Damage(4, 1);
  // As a target that is in the row no more, and has the chunk still.
  const uint32_t home = TargetOf(4, 1);
  const uint32_t other = 6 - home - TargetOf(4, 0);
  std::swap(orders_.scrubs[TargetId(home)], orders_.scrubs[TargetId(other)]);
  Sleep(60 * io::kSecond);
  EXPECT_THAT(Orders(), IsEmpty());
}

TEST_F(ScrubMetaTest, ListsThatContradictEachOtherAreReportedAndNothingIsDone) {
  Use(4);
  List(4, 0, 100);
  List(4, 1, 200);
  Sleep(3500 * io::kSecond);
  EXPECT_THAT(Orders(), IsEmpty());
  ASSERT_EQ(Report().problems_size(), 1);
  EXPECT_THAT(Report().problems(0), HasSubstr("do not agree"));
}

}  // namespace
}  // namespace cairn::server
