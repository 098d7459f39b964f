// A target reads again all that it has, at its pace, newest first, and says
// what it found.
#include <algorithm>
#include <set>

#include "server/target/limits.h"
#include "tests/unit/server/target/rebuild_harness.h"

namespace cairn::server {
namespace {

using format::ChunkId;
using format::kKiB;
using format::kMiB;

constexpr uint32_t kChunkSize = 256 * kKiB;

ScrubOptions AtRate(uint64_t bytes_per_s) {
  ScrubOptions options;
  options.bytes_per_s = bytes_per_s;
  options.start_after_ns = io::kSecond;
  return options;
}

class ScrubTest : public ::testing::Test {
 protected:
  void Make(ScrubOptions options) {
    row_ = std::make_unique<RowHarness>("replicate:2", kChunkSize, 1, options);
  }
  // A copy on target 1.
  void Put(ChunkId stripe, uint64_t bytes) {
    row_->PutStripe(stripe, bytes, {2});
    bytes_ += bytes;
    blocks_ += format::BlocksOf(bytes);
  }
  wire::TargetStatusResponse Status() { return row_->StatusOf(1); }

  std::unique_ptr<RowHarness> row_;
  uint64_t bytes_ = 0;
  uint64_t blocks_ = 0;
};

TEST_F(ScrubTest, EveryBlockIsReadAndDamageInEachIsCounted) {
  for (const bool damaged : {false, true}) {
    SCOPED_TRACE(damaged);
    Make(AtRate(100 * kMiB));
    bytes_ = blocks_ = 0;
    Put(MakeChunkId(1), kChunkSize);
    Put(MakeChunkId(1, 1), 1);
    Put(MakeChunkId(2), 64 * kKiB);
    Put(MakeChunkId(3), 64 * kKiB + 1);
    if (damaged) row_->Corrupt(1);
    row_->Sleep(10 * io::kSecond);
    const auto status = Status();
    EXPECT_TRUE(status.scrub().on());
    EXPECT_EQ(status.scrub().passes(), 1u);
    EXPECT_EQ(status.corrupt_blocks(), damaged ? blocks_ : 0);
    EXPECT_EQ(status.scrub().verified_bytes(), damaged ? 0 : bytes_);
    EXPECT_EQ(status.scrub().verified_chunks(), damaged ? 0u : 4u);
    EXPECT_EQ(status.scrub().damaged_chunks(), damaged ? 4u : 0u);
    EXPECT_EQ(status.scrub().damaged_now(), damaged ? 4u : 0u);
    ASSERT_EQ(status.scrub().damaged_size(), damaged ? 4 : 0);
    if (!damaged) continue;
    EXPECT_EQ(status.scrub().damaged(3).pg(), kPg);
    EXPECT_EQ(status.scrub().damaged(3).chunk().blob(),
              MakeChunkId(3).blob.value);
  }
}

TEST_F(ScrubTest, OneBlockIsReadAtItsRateAndNoMore) {
  Make(AtRate(64 * kKiB));  // A block a second.
  for (uint64_t blob = 1; blob <= 8; ++blob) Put(MakeChunkId(blob), kChunkSize);
  const uint64_t puts_end = row_->world.NowNs();
  row_->Sleep(21 * io::kSecond);
  const uint64_t most = (row_->world.NowNs() - puts_end) / io::kSecond + 1;
  const auto scrub = Status().scrub();
  EXPECT_LE(scrub.verified_bytes(), most * 64 * kKiB);
  EXPECT_GE(scrub.verified_bytes(), (most - 8) * 64 * kKiB);
  EXPECT_EQ(scrub.passes(), 0u);
  EXPECT_EQ(scrub.pass_bytes_done(), scrub.verified_bytes());
  EXPECT_EQ(scrub.pass_bytes_todo(), bytes_);
}

TEST_F(ScrubTest, NewestChunksAreReadFirst) {
  ScrubOptions options = AtRate(64 * kKiB);
  options.start_after_ns = 48 * 3600 * io::kSecond;
  Make(options);
  Put(MakeChunkId(1), kChunkSize);  // First in the order of ids.
  row_->Sleep(47 * 3600 * io::kSecond);
  Put(MakeChunkId(8), kChunkSize);
  row_->Corrupt(1);
  while (Status().scrub().damaged_now() == 0) row_->Sleep(io::kSecond);
  EXPECT_EQ(Status().scrub().damaged(0).chunk().blob(),
            MakeChunkId(8).blob.value);
  row_->Sleep(20 * io::kSecond);
  EXPECT_EQ(Status().scrub().damaged_now(), 2u);
}

TEST_F(ScrubTest, BetweenPassesNewChunksAreReadAndOldOnesAreNot) {
  ScrubOptions options = AtRate(100 * kMiB);
  options.pass_ns = 24 * 3600 * io::kSecond;
  Make(options);
  Put(MakeChunkId(1), kChunkSize);
  row_->Sleep(60 * io::kSecond);
  ASSERT_EQ(Status().scrub().passes(), 1u);
  Put(MakeChunkId(2), kChunkSize);
  row_->Corrupt(1);
  row_->Sleep(2 * 3600 * io::kSecond);
  auto scrub = Status().scrub();
  EXPECT_EQ(scrub.passes(), 1u);
  ASSERT_EQ(scrub.damaged_now(), 1u);
  EXPECT_EQ(scrub.damaged(0).chunk().blob(), MakeChunkId(2).blob.value);
  row_->Sleep(23 * 3600 * io::kSecond);
  scrub = Status().scrub();
  EXPECT_EQ(scrub.passes(), 2u);
  EXPECT_EQ(scrub.damaged_now(), 2u);
}

TEST_F(ScrubTest, RestartBeginsANewPass) {
  Make(AtRate(100 * kMiB));
  Put(MakeChunkId(1), kChunkSize);
  row_->Sleep(60 * io::kSecond);
  ASSERT_EQ(Status().scrub().passes(), 1u);
  row_->Restart(1);
  EXPECT_EQ(Status().scrub().passes(), 0u);
  row_->Sleep(60 * io::kSecond);
  EXPECT_EQ(Status().scrub().passes(), 1u);
}

TEST_F(ScrubTest, StoreThatIsClosedAmidAPassClosesAtOnce) {
  Make(AtRate(64 * kKiB));
  for (uint64_t blob = 1; blob <= 8; ++blob) Put(MakeChunkId(blob), kChunkSize);
  row_->Sleep(5 * io::kSecond);
  const io::TimeNs before = row_->world.NowNs();
  row_->Close(1);
  EXPECT_LT(row_->world.NowNs() - before, io::kSecond);
  row_->Open(1);
}

TEST_F(ScrubTest, DamageThatAnybodyMeetsIsReportedUntilItIsDeleted) {
  Make(ScrubOptions());  // Off.
  Put(MakeChunkId(1), kChunkSize);
  Put(MakeChunkId(2), kChunkSize);
  row_->Corrupt(1);
  row_->Sleep(60 * io::kSecond);
  EXPECT_FALSE(Status().scrub().on());
  EXPECT_EQ(Status().scrub().damaged_now(), 0u);
  EXPECT_FALSE(row_->ReadFrom(1, MakeChunkId(2)).ok());
  EXPECT_FALSE(row_->ReadFrom(1, MakeChunkId(2)).ok());
  EXPECT_EQ(Status().scrub().damaged_now(), 1u);
  EXPECT_EQ(Status().scrub().damaged_chunks(), 1u);  // However often.
  ASSERT_OK(row_->DeleteBlob(1, MakeChunkId(2).blob, 100));
  EXPECT_EQ(Status().scrub().damaged_now(), 0u);
}

// Those that cannot be repaired do not hide the others.
TEST_F(ScrubTest, EveryDamagedChunkIsShownSoonerOrLater) {
  Make(ScrubOptions());
  const uint64_t chunks = 3 * kDamagedShown;
  for (uint64_t blob = 1; blob <= chunks; ++blob) Put(MakeChunkId(blob), 100);
  row_->Corrupt(1);
  for (uint64_t blob = 1; blob <= chunks; ++blob) {
    EXPECT_FALSE(row_->ReadFrom(1, MakeChunkId(blob)).ok());
  }
  std::set<uint64_t> shown;
  for (int i = 0; i < 60; ++i) {
    const auto scrub = Status().scrub();
    EXPECT_EQ(scrub.damaged_now(), chunks);
    EXPECT_EQ(scrub.damaged_size(), static_cast<int>(kDamagedShown));
    for (const auto& damaged : scrub.damaged()) {
      shown.insert(damaged.chunk().blob());
    }
  }
  EXPECT_EQ(shown.size(), chunks);
}

}  // namespace
}  // namespace cairn::server
