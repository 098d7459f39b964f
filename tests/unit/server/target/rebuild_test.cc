// A target makes a lost shard of the others' chunks, or says why it cannot; it
// never makes anything up, and resumes where it was killed.
#include "server/target/limits.h"
#include "tests/unit/server/target/rebuild_harness.h"

namespace cairn::server {
namespace {

using ::cairn::testing::StatusIs;
using format::ChunkId;
using format::kKiB;
using ::testing::HasSubstr;
using Code = absl::StatusCode;

constexpr uint32_t kChunkSize = 128 * kKiB;

// Whole stripes, short ones of every kind, several blobs.
std::vector<std::pair<ChunkId, uint64_t>> SomeStripes(const RowHarness& row) {
  const uint64_t full = row.pool.stripe_bytes();
  return {{MakeChunkId(1, 0), full},          {MakeChunkId(1, 1), full},
          {MakeChunkId(1, 7), full - 1},      {MakeChunkId(1, 9), 1},
          {MakeChunkId(2, 3), kChunkSize},    {MakeChunkId(2, 4), 70'000},
          {MakeChunkId(9, 0), full - 65'536}, {MakeChunkId(12, 2), full}};
}

void ExpectShardIsWhole(RowHarness* row, uint32_t shard) {
  for (const auto& [stripe, bytes] : SomeStripes(*row)) {
    const ChunkId chunk{stripe.blob, stripe.stripe, shard};
    SCOPED_TRACE(ToString(chunk));
    const auto found = row->ReadFrom(row->new_target(), chunk);
    const auto expected = row->ShardsOf(stripe, bytes)[shard];
    if (expected.empty()) {
      EXPECT_THAT(found, StatusIs(Code::kNotFound, ""));
      continue;
    }
    ASSERT_OK(found);
    EXPECT_TRUE(*found == expected);
    const auto record =
        Await(&row->world, row->store(row->new_target())->Find(kPg, chunk));
    ASSERT_OK(record);
    EXPECT_EQ((*record)->stripe_bytes, bytes);
  }
}

class RebuildSchemes : public ::testing::TestWithParam<const char*> {};

TEST_P(RebuildSchemes, EveryLostShardIsMadeOfTheOthers) {
  const uint32_t shards = format::ParseScheme(GetParam())->shards();
  for (uint32_t lost = 0; lost < shards; ++lost) {
    SCOPED_TRACE(lost);
    RowHarness row(GetParam(), kChunkSize);
    for (const auto& [stripe, bytes] : SomeStripes(row)) {
      row.PutStripe(stripe, bytes);
    }
    row.Kill(lost + 1);  // Nobody needs it.
    const auto answer = row.OrderToTheEnd(row.OrderFor(lost));
    EXPECT_EQ(answer.state(), kRebuildDone) << answer.problem();
    EXPECT_EQ(answer.lost_stripes(), 0u);
    EXPECT_EQ(answer.chunks_done(), answer.chunks_todo());
    EXPECT_EQ(answer.bytes_done(), answer.bytes_todo());
    EXPECT_EQ(answer.chunks_done(),
              row.store(row.new_target())->stats().chunks);
    ExpectShardIsWhole(&row, lost);
  }
}

TEST_P(RebuildSchemes, SourcesThatAreAllDamagedGiveNothing) {
  RowHarness row(GetParam(), kChunkSize);
  for (const auto& [stripe, bytes] : SomeStripes(row)) {
    row.PutStripe(stripe, bytes);
  }
  for (uint32_t id = 2; id < row.new_target(); ++id) row.Corrupt(id);
  const auto answer = row.OrderToTheEnd(row.OrderFor(0));
  EXPECT_EQ(answer.state(), kRebuildDone);
  EXPECT_EQ(answer.lost_stripes(), SomeStripes(row).size());
  ASSERT_EQ(answer.lost_size(), static_cast<int>(SomeStripes(row).size()));
  EXPECT_EQ(answer.lost(0).blob(), MakeChunkId(1).blob.value);
  EXPECT_EQ(row.store(row.new_target())->stats().chunks, 0u);
}

INSTANTIATE_TEST_SUITE_P(Schemes, RebuildSchemes,
                         ::testing::Values("rs:2+1", "rs:3+2", "replicate:2",
                                           "replicate:3"),
                         [](const auto& param) {
                           std::string name = param.param;
                           for (char& c : name) c = std::isalnum(c) ? c : '_';
                           return name;
                         });

TEST(Rebuild, DamagedSourceIsNeverUsedWhileThereIsAnother) {
  for (const char* scheme : {"rs:2+2", "replicate:3"}) {
    SCOPED_TRACE(scheme);
    RowHarness row(scheme, kChunkSize);
    for (const auto& [stripe, bytes] : SomeStripes(row)) {
      row.PutStripe(stripe, bytes);
    }
    row.Corrupt(2);
    const auto answer = row.OrderToTheEnd(row.OrderFor(0));
    EXPECT_EQ(answer.state(), kRebuildDone) << answer.problem();
    EXPECT_EQ(answer.lost_stripes(), 0u);
    ExpectShardIsWhole(&row, 0);
  }
}

// A write that was given up leaves chunks on some: too few to make the rest.
TEST(Rebuild, StripeThatTooFewHaveIsReportedAndTheRestIsMade) {
  RowHarness row("rs:3+2", kChunkSize);
  for (const auto& [stripe, bytes] : SomeStripes(row)) {
    row.PutStripe(stripe, bytes);
  }
  const ChunkId given_up = MakeChunkId(4, 1);
  row.PutStripe(given_up, row.pool.stripe_bytes(), {1, 3, 4});
  const auto answer = row.OrderToTheEnd(row.OrderFor(0));
  EXPECT_EQ(answer.state(), kRebuildDone);
  EXPECT_EQ(answer.lost_stripes(), 1u);
  ASSERT_EQ(answer.lost_size(), 1);
  EXPECT_EQ(answer.lost(0).blob(), given_up.blob.value);
  EXPECT_EQ(answer.lost(0).stripe(), 1u);
  EXPECT_THAT(answer.lost(0).reason(), HasSubstr("too few shards"));
  EXPECT_THAT(row.ReadFrom(row.new_target(), given_up),
              StatusIs(Code::kNotFound, ""));
  ExpectShardIsWhole(&row, 0);
}

// One of them lies: nobody can tell which.
TEST(Rebuild, SourcesThatDisagreeOnAStripesLengthAreNotDecoded) {
  RowHarness row("replicate:3", kChunkSize);
  const ChunkId stripe = MakeChunkId(1);
  row.PutStripe(stripe, 5000, {1, 2});
  const auto other = row.ShardsOf(stripe, 6000);
  ASSERT_OK(row.Put(2, {stripe.blob, 0, 1}, other[1], 6000));
  const auto answer = row.OrderToTheEnd(row.OrderFor(0));
  EXPECT_EQ(answer.state(), kRebuildDone);
  ASSERT_EQ(answer.lost_size(), 1);
  EXPECT_THAT(answer.lost(0).reason(), HasSubstr("do not agree"));
  EXPECT_EQ(row.store(row.new_target())->stats().chunks, 0u);
}

TEST(Rebuild, ShardThatItsOldTargetStillHasIsCopied) {
  RowHarness row("rs:2+1", kChunkSize);
  for (const auto& [stripe, bytes] : SomeStripes(row)) {
    row.PutStripe(stripe, bytes);
  }
  row.Corrupt(2);
  auto order = row.OrderFor(0);
  row.AddSource(0, &order);  // Too few of the others are good.
  const auto answer = row.OrderToTheEnd(order);
  EXPECT_EQ(answer.state(), kRebuildDone) << answer.problem();
  EXPECT_EQ(answer.lost_stripes(), 0u);
  ExpectShardIsWhole(&row, 0);
}

TEST(Rebuild, SourceThatIsAwayFailsItAndTheNextOrderGoesOn) {
  RowHarness row("rs:2+1", kChunkSize);
  for (const auto& [stripe, bytes] : SomeStripes(row)) {
    row.PutStripe(stripe, bytes);
  }
  row.Kill(3);
  auto answer = row.OrderToTheEnd(row.OrderFor(0));
  EXPECT_EQ(answer.state(), kRebuildFailed);
  EXPECT_FALSE(answer.home_failed());
  EXPECT_THAT(answer.problem(), HasSubstr("target 3"));
  row.Open(3);
  answer = row.OrderToTheEnd(row.OrderFor(0));
  EXPECT_EQ(answer.state(), kRebuildDone) << answer.problem();
  ExpectShardIsWhole(&row, 0);
}

TEST(Rebuild, ChunksThatAreThereAreVerifiedAndSkipped) {
  RowHarness row("rs:2+1", kChunkSize);
  for (const auto& [stripe, bytes] : SomeStripes(row)) {
    row.PutStripe(stripe, bytes);
  }
  auto order = row.OrderFor(1);
  ASSERT_EQ(row.OrderToTheEnd(order).state(), kRebuildDone);
  const uint64_t puts = row.store(row.new_target())->stats().puts;
  EXPECT_GT(puts, 0u);
  // Fenced again: the same once more.
  order.set_fence_epoch(6);
  const auto answer = row.OrderToTheEnd(order);
  EXPECT_EQ(answer.state(), kRebuildDone);
  EXPECT_EQ(answer.chunks_done(), puts);
  EXPECT_EQ(row.store(row.new_target())->stats().puts, puts);
  // But not if they are damaged by now: then the target is no home for it.
  row.Corrupt(row.new_target());
  order.set_fence_epoch(7);
  const auto damaged = row.OrderToTheEnd(order);
  EXPECT_EQ(damaged.state(), kRebuildFailed);
  EXPECT_TRUE(damaged.home_failed());
}

// At each of its events in turn; a new process and the next order go on.
TEST(Rebuild, TargetKilledAtAnyEventHasAWholeShardInTheEnd) {
  uint64_t events = 0;
  {
    RowHarness row("rs:2+1", kChunkSize);
    row.PutStripe(MakeChunkId(1), row.pool.stripe_bytes());
    row.PutStripe(MakeChunkId(1, 1), 1);
    const uint64_t before = row.world.events_run();
    ASSERT_EQ(row.OrderToTheEnd(row.OrderFor(0)).state(), kRebuildDone);
    events = row.world.events_run() - before;
  }
  for (uint64_t nth = 1; nth < events; nth += 1 + nth / 20) {
    SCOPED_TRACE(nth);
    RowHarness row("rs:2+1", kChunkSize);
    row.PutStripe(MakeChunkId(1), row.pool.stripe_bytes());
    row.PutStripe(MakeChunkId(1, 1), 1);
    sim::SimEnv* const victim = row.env(row.new_target());
    row.world.KillAt(victim, nth);
    for (int i = 0; i < 40 && victim->alive(); ++i) {
      (void)row.Order(row.OrderFor(0));
      row.world.RunUntil(row.world.NowNs() + 20 * io::kMillisecond);
    }
    row.Restart(row.new_target());
    const auto answer = row.OrderToTheEnd(row.OrderFor(0));
    EXPECT_EQ(answer.state(), kRebuildDone) << answer.problem();
    for (uint32_t stripe = 0; stripe < 2; ++stripe) {
      const ChunkId chunk = MakeChunkId(1, stripe);
      const auto found = row.ReadFrom(row.new_target(), chunk);
      ASSERT_OK(found);
      EXPECT_TRUE(
          *found ==
          row.ShardsOf(chunk, stripe == 0 ? row.pool.stripe_bytes() : 1)[0]);
    }
  }
}

TEST(Rebuild, OrdersThatCannotBeAreRefused) {
  RowHarness row("rs:2+1", kChunkSize);
  auto order = row.OrderFor(0);
  order.set_shard(3);
  EXPECT_THAT(row.Order(order), StatusIs(Code::kInvalidArgument, "shard 3"));
  order = row.OrderFor(0);
  order.mutable_scheme()->set_data_shards(0);
  EXPECT_THAT(row.Order(order), StatusIs(Code::kInvalidArgument, ""));
  order = row.OrderFor(0);
  order.set_chunk_size(8 << 20);
  EXPECT_THAT(row.Order(order), StatusIs(Code::kInvalidArgument, ""));
  order = row.OrderFor(0);
  order.clear_sources();
  EXPECT_THAT(row.Order(order), StatusIs(Code::kInvalidArgument, "sources"));
  order = row.OrderFor(0);
  row.AddSource(1, &order);  // Twice.
  EXPECT_THAT(row.Order(order), StatusIs(Code::kInvalidArgument, ""));
  order = row.OrderFor(0);
  order.mutable_sources(0)->set_target(row.new_target());
  EXPECT_THAT(row.Order(order), StatusIs(Code::kInvalidArgument, ""));
  order = row.OrderFor(0);
  order.set_pool(0);
  EXPECT_THAT(row.Order(order), StatusIs(Code::kInvalidArgument, ""));
  EXPECT_THAT(row.Call<wire::RebuildShardResponse>(
                  format::Method::kRebuildShard, row.OrderFor(0), 0),
              StatusIs(Code::kPermissionDenied, "only the metadata service"));
}

TEST(Rebuild, OrderThatComesAfterANewerOneIsRefused) {
  RowHarness row("rs:2+1", kChunkSize);
  row.PutStripe(MakeChunkId(1), 1000);
  auto order = row.OrderFor(0);
  ASSERT_EQ(row.OrderToTheEnd(order).state(), kRebuildDone);
  order.set_meta_sequence(99);
  EXPECT_THAT(row.Order(order), StatusIs(Code::kFailedPrecondition, "99"));
}

class DropGroupTest : public ::testing::Test {
 protected:
  DropGroupTest() : row_("rs:2+1", kChunkSize) {
    for (const auto& [stripe, bytes] : SomeStripes(row_)) {
      row_.PutStripe(stripe, bytes);
    }
    EXPECT_EQ(row_.OrderToTheEnd(row_.OrderFor(0)).state(), kRebuildDone);
  }
  uint64_t Chunks() { return row_.store(row_.new_target())->stats().chunks; }
  RowHarness row_;
};

TEST_F(DropGroupTest, ErasesTheGroupAndNothingElse) {
  const ChunkId other{format::BlobId::Make(format::PoolId(2), 1), 0, 0};
  ASSERT_OK(row_.Put(row_.new_target(), other, {1, 2, 3}, 3));
  const uint64_t chunks = Chunks();
  const auto dropped = row_.Drop(row_.DropFor({1, 2, 3}));
  ASSERT_OK(dropped);
  EXPECT_EQ(dropped->chunks(), chunks - 1);
  EXPECT_EQ(Chunks(), 1u);
  EXPECT_OK(row_.ReadFrom(row_.new_target(), other));
  EXPECT_OK(row_.Drop(row_.DropFor({1, 2, 3})));  // As often as you like.
}

TEST_F(DropGroupTest, IsRefusedByATargetThatIsInTheRow) {
  const uint64_t chunks = Chunks();
  EXPECT_THAT(row_.Drop(row_.DropFor({4, 2, 3})),
              StatusIs(Code::kFailedPrecondition, "is in the row"));
  EXPECT_THAT(row_.Drop(row_.DropFor({})),
              StatusIs(Code::kInvalidArgument, "row"));
  EXPECT_EQ(Chunks(), chunks);
}

TEST_F(DropGroupTest, IsRefusedIfARebuildWasOrderedAfterIt) {
  const uint64_t chunks = Chunks();
  EXPECT_THAT(row_.Drop(row_.DropFor({1, 2, 3}, 99)),
              StatusIs(Code::kFailedPrecondition, "99"));
  EXPECT_EQ(Chunks(), chunks);
}

TEST_F(DropGroupTest, IsTakenFromMetadataOnly) {
  EXPECT_THAT(row_.Call<wire::DropGroupResponse>(format::Method::kDropGroup,
                                                 row_.DropFor({1, 2, 3}), 0),
              StatusIs(Code::kPermissionDenied, "only the metadata service"));
  EXPECT_GT(Chunks(), 0u);
}

TEST_F(DropGroupTest, EndsARebuildThatIsUnderWay) {
  auto order = row_.OrderFor(0);
  order.set_fence_epoch(6);
  ASSERT_OK(row_.Order(order));
  EXPECT_THAT(row_.Drop(row_.DropFor({1, 2, 3})),
              StatusIs(Code::kUnavailable, "being rebuilt"));
  row_.world.RunUntil(row_.world.NowNs() + 20 * io::kSecond);
  EXPECT_OK(row_.Drop(row_.DropFor({1, 2, 3})));
  EXPECT_EQ(Chunks(), 0u);
}

}  // namespace
}  // namespace cairn::server
