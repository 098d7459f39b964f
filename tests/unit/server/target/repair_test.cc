// A target makes damaged and absent chunks of its shard again, of the others'
// good ones and of nothing else; and never brings back what is deleted.
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

struct Stripe {
  ChunkId id;
  uint64_t bytes;
};

class RepairTest : public ::testing::TestWithParam<const char*> {
 protected:
  RepairTest() { Make(GetParam()); }

  void Make(const char* scheme) {
    row_ = std::make_unique<RowHarness>(scheme, kChunkSize);
    const uint64_t full = row_->pool.stripe_bytes();
    stripes_ = {{MakeChunkId(1, 0), full},
                {MakeChunkId(1, 7), full - 1},
                {MakeChunkId(1, 9), 1},
                {MakeChunkId(2, 3), kChunkSize},
                {MakeChunkId(9, 0), 70'000}};
    for (const Stripe& stripe : stripes_) {
      row_->PutStripe(stripe.id, stripe.bytes);
    }
  }
  std::vector<ChunkId> Ids() const {
    std::vector<ChunkId> ids;
    for (const Stripe& stripe : stripes_) ids.push_back(stripe.id);
    return ids;
  }
  uint64_t ChunksOf(uint32_t shard) const {
    uint64_t chunks = 0;
    for (const Stripe& stripe : stripes_) {
      chunks += !row_->ShardsOf(stripe.id, stripe.bytes)[shard].empty();
    }
    return chunks;
  }
  wire::RebuildShardResponse Repair(uint32_t shard) {
    return row_->OrderToTheEnd(row_->RepairFor(shard, Ids()));
  }
  void ExpectGood(uint32_t shard) {
    for (const Stripe& stripe : stripes_) {
      const ChunkId chunk{stripe.id.blob, stripe.id.stripe, shard};
      SCOPED_TRACE(ToString(chunk));
      const auto expected = row_->ShardsOf(stripe.id, stripe.bytes)[shard];
      const auto found = row_->ReadFrom(shard + 1, chunk);
      if (expected.empty()) {
        EXPECT_THAT(found, StatusIs(Code::kNotFound, ""));
        continue;
      }
      ASSERT_OK(found);
      EXPECT_TRUE(*found == expected);
    }
  }
  StoreStats Stats(uint32_t shard) { return row_->store(shard + 1)->stats(); }

  std::unique_ptr<RowHarness> row_;
  std::vector<Stripe> stripes_;
};

TEST_P(RepairTest, DamagedChunksAreReplacedAndTheirOldSpaceIsFree) {
  const uint32_t shards = row_->pool.scheme.shards();
  // One after the other, so that in the end everything was made again.
  for (uint32_t shard = 0; shard < shards; ++shard) {
    SCOPED_TRACE(shard);
    const StoreStats before = Stats(shard);
    row_->Corrupt(shard + 1);
    const auto answer = Repair(shard);
    EXPECT_EQ(answer.state(), kRebuildDone) << answer.problem();
    EXPECT_EQ(answer.lost_stripes(), 0u);
    EXPECT_EQ(answer.repaired(), ChunksOf(shard));
    ExpectGood(shard);
    EXPECT_EQ(Stats(shard).used_bytes, before.used_bytes);
    EXPECT_EQ(Stats(shard).chunks, before.chunks);
    EXPECT_EQ(Stats(shard).damaged_now, 0u);
    // A restart finds them where they are now.
    row_->Restart(shard + 1);
    ExpectGood(shard);
    EXPECT_EQ(Stats(shard).used_bytes, before.used_bytes);
  }
}

TEST_P(RepairTest, AbsentChunksAreMadeAndGoodOnesLeftAlone) {
  for (uint32_t shard = 0; shard < row_->pool.scheme.shards(); ++shard) {
    SCOPED_TRACE(shard);
    // As a disk that lost a write without a trace.
    ASSERT_OK(Await(&row_->world, row_->store(shard + 1)->DeleteBlobs(
                                      {MakeChunkId(1).blob}, 100)));
    const uint64_t lost = ChunksOf(shard) - Stats(shard).chunks;
    const uint64_t puts = Stats(shard).puts;
    const auto answer = Repair(shard);
    EXPECT_EQ(answer.state(), kRebuildDone) << answer.problem();
    EXPECT_EQ(answer.repaired(), lost);
    EXPECT_EQ(answer.chunks_done(), ChunksOf(shard));
    EXPECT_EQ(Stats(shard).puts, puts + lost);
    ExpectGood(shard);
  }
}

TEST_P(RepairTest, TooManyDamagedShardsAreReportedAndNothingIsMadeUp) {
  const uint32_t parity = row_->pool.scheme.parity_shards;
  for (uint32_t shard = 0; shard <= parity; ++shard) row_->Corrupt(shard + 1);
  const ChunkId full = stripes_.front().id;
  const auto answer = row_->OrderToTheEnd(row_->RepairFor(0, {full}));
  EXPECT_EQ(answer.state(), kRebuildDone);
  EXPECT_EQ(answer.repaired(), 0u);
  ASSERT_EQ(answer.lost_size(), 1);
  EXPECT_EQ(answer.lost(0).blob(), full.blob.value);
  EXPECT_THAT(answer.lost(0).reason(), HasSubstr("too few shards"));
  EXPECT_THAT(row_->ReadFrom(1, full), StatusIs(Code::kDataLoss, "checksum"));
  EXPECT_EQ(Stats(0).damaged_now, 1u);
}

TEST_P(RepairTest, StripeThatNobodyElseHasIsReported) {
  const ChunkId nowhere = MakeChunkId(77, 5);
  const auto answer = row_->OrderToTheEnd(row_->RepairFor(0, {nowhere}));
  EXPECT_EQ(answer.state(), kRebuildDone);
  ASSERT_EQ(answer.lost_size(), 1);
  EXPECT_THAT(answer.lost(0).reason(), HasSubstr("no other target"));
}

TEST_P(RepairTest, SourceThatIsAwayFailsItAndTheNextOrderGoesOn) {
  row_->Corrupt(1);
  row_->Kill(2);
  EXPECT_EQ(Repair(0).state(), kRebuildFailed);
  row_->Open(2);
  EXPECT_EQ(Repair(0).repaired(), ChunksOf(0));
  ExpectGood(0);
}

TEST_P(RepairTest, LatePutOfARepairedChunkIsTheSameChunk) {
  row_->Corrupt(1);
  ASSERT_EQ(Repair(0).state(), kRebuildDone);
  const Stripe& stripe = stripes_.front();
  const StoreStats before = Stats(0);
  EXPECT_OK(row_->Put(1, {stripe.id.blob, stripe.id.stripe, 0},
                      row_->ShardsOf(stripe.id, stripe.bytes)[0],
                      stripe.bytes));
  EXPECT_EQ(Stats(0).used_bytes, before.used_bytes);
  ExpectGood(0);
}

TEST_P(RepairTest, OrderThatWasDecidedBeforeADeleteIsRefused) {
  const format::BlobId blob = MakeChunkId(1).blob;
  ASSERT_OK(row_->DeleteBlob(1, blob, 200));
  const auto late = row_->RepairFor(0, Ids());  // Of sequence 100.
  EXPECT_THAT(row_->Order(late), StatusIs(Code::kUnavailable, "decide again"));
  // The new process knows, too.
  row_->Restart(1);
  EXPECT_THAT(row_->Order(late), StatusIs(Code::kUnavailable, "decide again"));
  EXPECT_THAT(row_->ReadFrom(1, MakeChunkId(1)), StatusIs(Code::kNotFound, ""));
  auto fresh = row_->RepairFor(0, {MakeChunkId(2, 3)});
  fresh.set_meta_sequence(201);
  EXPECT_EQ(row_->OrderToTheEnd(fresh).state(), kRebuildDone);
}

INSTANTIATE_TEST_SUITE_P(Schemes, RepairTest,
                         ::testing::Values("rs:2+1", "rs:3+2", "replicate:2",
                                           "replicate:3"),
                         [](const auto& param) {
                           std::string name = param.param;
                           for (char& c : name) c = std::isalnum(c) ? c : '_';
                           return name;
                         });

// Which is right cannot be told; the record says which bytes were acknowledged.
TEST(Repair, OthersThatGiveOtherBytesDoNotReplaceAChunk) {
  RowHarness row("replicate:2", kChunkSize);
  const ChunkId stripe = MakeChunkId(1);
  row.PutStripe(stripe, 5000, {2});
  std::vector<uint8_t> other = row.ShardsOf(stripe, 5000)[1];
  other[17] ^= 1;
  ASSERT_OK(row.Put(2, {stripe.blob, 0, 1}, other, 5000));
  row.Corrupt(1);
  const auto answer = row.OrderToTheEnd(row.RepairFor(0, {stripe}));
  EXPECT_EQ(answer.state(), kRebuildDone);
  EXPECT_EQ(answer.repaired(), 0u);
  ASSERT_EQ(answer.lost_size(), 1);
  EXPECT_THAT(answer.lost(0).reason(), HasSubstr("another digest"));
  EXPECT_THAT(row.ReadFrom(1, stripe), StatusIs(Code::kDataLoss, ""));
}

TEST(Repair, StripesOfAnotherPoolOrTooManyAreRefused) {
  RowHarness row("rs:2+1", kChunkSize);
  auto order = row.RepairFor(
      0, {ChunkId{format::BlobId::Make(format::PoolId(2), 1), 0, 0}});
  EXPECT_THAT(row.Order(order), StatusIs(Code::kInvalidArgument, ""));
  order = row.RepairFor(
      0, std::vector<ChunkId>(kRepairStripesMax + 1, MakeChunkId(1)));
  EXPECT_THAT(row.Order(order), StatusIs(Code::kInvalidArgument, ""));
}

// At each of its events in turn: the chunk is what it was, or is damaged still;
// a new process and the next order end it.
TEST(Repair, TargetKilledAtAnyEventHasAGoodChunkInTheEnd) {
  const ChunkId stripe = MakeChunkId(1);
  uint64_t events = 0;
  for (uint64_t nth = 0; nth == 0 || nth < events; nth += 1 + nth / 20) {
    SCOPED_TRACE(nth);
    RowHarness row("rs:2+1", kChunkSize);
    const uint64_t bytes = row.pool.stripe_bytes();
    row.PutStripe(stripe, bytes);
    const uint64_t used = row.store(1)->stats().used_bytes;
    row.Corrupt(1);
    if (nth == 0) {
      const uint64_t before = row.world.events_run();
      ASSERT_EQ(row.OrderToTheEnd(row.RepairFor(0, {stripe})).repaired(), 1u);
      events = row.world.events_run() - before;
      continue;
    }
    sim::SimEnv* const victim = row.env(1);
    row.world.KillAt(victim, nth);
    const auto order = row.RepairFor(0, {stripe});
    for (int i = 0; i < 40 && victim->alive(); ++i) {
      (void)row.Order(order);
      row.Sleep(20 * io::kMillisecond);
    }
    row.Restart(1);
    const auto answer = row.OrderToTheEnd(row.RepairFor(0, {stripe}));
    EXPECT_EQ(answer.state(), kRebuildDone) << answer.problem();
    const auto found = row.ReadFrom(1, stripe);
    ASSERT_OK(found);
    EXPECT_TRUE(*found == row.ShardsOf(stripe, bytes)[0]);
    EXPECT_EQ(row.store(1)->stats().used_bytes, used);
  }
}

class RepairDeleteTest : public ::testing::TestWithParam<bool> {};

// A delete order that comes after any number of events of a repair, and is
// repeated until it is confirmed: from then on nothing is there, ever.
TEST_P(RepairDeleteTest, BlobDeletedMeanwhileIsNotBroughtBack) {
  const bool damaged = GetParam();
  const ChunkId stripe = MakeChunkId(1);
  uint64_t refused = 0;
  uint64_t repaired = 0;
  for (uint64_t delay_us = 0; delay_us < 6'000; delay_us += 40) {
    SCOPED_TRACE(delay_us);
    RowHarness row("rs:2+1", kChunkSize);
    row.PutStripe(stripe, row.pool.stripe_bytes(),
                  damaged ? std::vector<uint32_t>{} : std::vector<uint32_t>{1});
    if (damaged) row.Corrupt(1);
    const auto order = row.RepairFor(0, {stripe});
    ASSERT_OK(row.Order(order));
    row.Sleep(delay_us * io::kMicrosecond);
    absl::Status deleted = row.DeleteBlob(1, stripe.blob, 200);
    for (int i = 0; i < 100 && !deleted.ok(); ++i) {
      ++refused;
      row.Sleep(io::kMillisecond);
      deleted = row.DeleteBlob(1, stripe.blob, 200);
    }
    ASSERT_OK(deleted);
    EXPECT_EQ(row.store(1)->stats().chunks, 0u);
    row.Sleep(60 * io::kSecond);
    const auto report = row.Order(order);
    if (report.ok()) repaired += report->repaired();
    EXPECT_EQ(row.store(1)->stats().chunks, 0u);
    EXPECT_EQ(row.store(1)->stats().used_bytes, 0u);
    EXPECT_THAT(row.ReadFrom(1, stripe), StatusIs(Code::kNotFound, ""));
    row.Restart(1);
    EXPECT_EQ(row.store(1)->stats().chunks, 0u);
  }
  // Each of the three ways was gone: before, amid and after the writing.
  EXPECT_GT(refused, 0u);
  EXPECT_GT(repaired, 0u);
  EXPECT_LT(repaired, 150u);
}

INSTANTIATE_TEST_SUITE_P(Kinds, RepairDeleteTest, ::testing::Bool(),
                         [](const auto& param) {
                           return param.param ? "Damaged" : "Absent";
                         });

}  // namespace
}  // namespace cairn::server
