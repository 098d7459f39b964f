#include "server/meta/kv/high_water_mark.h"

#include <fstream>

#include "format/checksum/block_checksum.h"
#include "gmock/gmock.h"
#include "server/meta/limits.h"
#include "tests/conformance/kv/kv_subject.h"
#include "tests/support/status_matchers.h"

namespace cairn::server {
namespace {

using ::cairn::testing::StatusIs;
using ::testing::HasSubstr;

class HighWaterMarkTest : public ::testing::Test {
 protected:
  HighWaterMarkTest() { cluster_.bytes[3] = 7; }

  absl::StatusOr<std::unique_ptr<HighWaterMark>> Open(bool create = false) {
    return Await(env_.get(), HighWaterMark::Open(env_.get(), dir_.path(),
                                                 cluster_, create));
  }
  absl::Status Close(std::unique_ptr<HighWaterMark> mark) {
    return Await(env_.get(), mark->Close());
  }
  // Each write of a mark goes to the file that the last one did not.
  void WriteMarks(std::vector<uint64_t> sequences) {
    for (const uint64_t sequence : sequences) {
      auto mark = Open(/*create=*/true);
      ASSERT_OK(mark);
      (*mark)->Advance(sequence);
      ASSERT_OK(Close(*std::move(mark)));
    }
  }
  void Overwrite(const std::string& name, const std::string& bytes) {
    std::ofstream(dir_ / name, std::ios::binary) << bytes;
  }

  const TempDir dir_;
  format::ClusterId cluster_;
  std::unique_ptr<io::RealEnv> env_ = NewEnv();
};

TEST_F(HighWaterMarkTest, NewestSequenceIsThereAfterReopening) {
  WriteMarks({5, 3, 9});
  auto mark = Open();
  ASSERT_OK(mark);
  EXPECT_EQ((*mark)->mark().sequence, 9u);
  EXPECT_OK((*mark)->Check(9, 0));
  EXPECT_OK((*mark)->Check(10, 10));
  EXPECT_OK(Close(*std::move(mark)));
}

TEST_F(HighWaterMarkTest, ManyAdvancesLeaveTheNewest) {
  auto mark = Open(/*create=*/true);
  ASSERT_OK(mark);
  for (uint64_t sequence = 1; sequence <= 1000; ++sequence) {
    (*mark)->Advance(sequence);
  }
  EXPECT_OK(Close(*std::move(mark)));
  mark = Open();
  ASSERT_OK(mark);
  EXPECT_EQ((*mark)->mark().sequence, 1000u);
  EXPECT_LT((*mark)->mark().generation, 10u);  // Not one write for each.
  EXPECT_OK(Close(*std::move(mark)));
}

TEST_F(HighWaterMarkTest, StoreBehindTheMarkIsRefusedWithNumbersAndAWayOn) {
  WriteMarks({900});
  auto mark = Open();
  ASSERT_OK(mark);
  const absl::Status refused = (*mark)->Check(850, 0);
  EXPECT_THAT(refused, StatusIs(absl::StatusCode::kFailedPrecondition,
                                "ends at change 850"));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("up to 900"));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("50 changes are lost"));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("Restore a copy"));
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("--accept-metadata-loss"));
  EXPECT_OK(Close(*std::move(mark)));
}

TEST_F(HighWaterMarkTest, StoreBehindWhatATargetKnowsIsRefused) {
  WriteMarks({900});
  auto mark = Open();
  ASSERT_OK(mark);
  EXPECT_THAT((*mark)->Check(950, 951),
              StatusIs(absl::StatusCode::kFailedPrecondition, "up to 951"));
  EXPECT_OK((*mark)->Check(951, 951));
  EXPECT_OK(Close(*std::move(mark)));
}

TEST_F(HighWaterMarkTest, DamageOfOneFileLeavesTheOther) {
  for (const char* damaged : {"mark.0", "mark.1"}) {
    SCOPED_TRACE(damaged);
    WriteMarks({10, 20, 30, 40});
    Overwrite(damaged, std::string(format::kMarkBytes, 'x'));
    auto mark = Open();
    ASSERT_OK(mark);
    const uint64_t left = (*mark)->mark().sequence;
    EXPECT_TRUE(left == 30 || left == 40) << left;
    // The damaged one is replaced first, so the good one stays.
    (*mark)->Advance(50);
    EXPECT_OK(Close(*std::move(mark)));
    Overwrite(damaged, format::EncodeMark({cluster_, 1, 1, 0, 0, 0}));
    mark = Open();
    ASSERT_OK(mark);
    EXPECT_EQ((*mark)->mark().sequence, left);
    EXPECT_OK(Close(*std::move(mark)));
    std::filesystem::remove(dir_ / "mark.0");
    std::filesystem::remove(dir_ / "mark.1");
  }
}

TEST_F(HighWaterMarkTest, DamageOfBothIsDataLossAlsoForANewCluster) {
  WriteMarks({10, 20});
  Overwrite("mark.0", "short");
  Overwrite("mark.1", std::string(format::kMarkBytes, 'x'));
  for (const bool create : {false, true}) {
    EXPECT_THAT(Open(create),
                StatusIs(absl::StatusCode::kDataLoss, "neither mark"));
  }
}

TEST_F(HighWaterMarkTest, MissingMarksAreRefusedUnlessTheClusterIsNew) {
  EXPECT_THAT(Open(), StatusIs(absl::StatusCode::kNotFound, "put them back"));
  auto mark = Open(/*create=*/true);
  ASSERT_OK(mark);
  EXPECT_OK(Close(*std::move(mark)));
  mark = Open();
  ASSERT_OK(mark);
  EXPECT_EQ((*mark)->mark().sequence, 0u);
  EXPECT_OK(Close(*std::move(mark)));
}

// What a crash between making the files and writing the first mark leaves.
TEST_F(HighWaterMarkTest, EmptyFilesAreMadeAgainForANewCluster) {
  Overwrite("mark.0", "");
  Overwrite("mark.1", "");
  EXPECT_THAT(Open(), StatusIs(absl::StatusCode::kNotFound, ""));
  auto mark = Open(/*create=*/true);
  ASSERT_OK(mark);
  EXPECT_OK(Close(*std::move(mark)));
  mark = Open();
  ASSERT_OK(mark);
  EXPECT_OK(Close(*std::move(mark)));
}

TEST_F(HighWaterMarkTest, MarksOfAnotherClusterAreRefused) {
  WriteMarks({10});
  cluster_.bytes[0] = 0xff;
  EXPECT_THAT(Open(), StatusIs(absl::StatusCode::kFailedPrecondition,
                               "belongs to cluster"));
}

TEST_F(HighWaterMarkTest, NewerVersionInOneFileIsRefusedNotOverwritten) {
  WriteMarks({10, 20});
  std::string newer = format::EncodeMark({cluster_, 99, 99, 0, 0, 0});
  newer[4] = static_cast<char>(format::kMarkVersion + 1);
  format::StoreLe(
      newer.data() + format::kMarkBytes - 8,
      format::Xxh3(format::AsBytes(newer).first(format::kMarkBytes - 8)));
  Overwrite("mark.1", newer);
  EXPECT_THAT(Open(true),
              StatusIs(absl::StatusCode::kFailedPrecondition, "newer"));
}

TEST_F(HighWaterMarkTest, AcceptedLossMovesTheStorePastTheGapAndIsRecorded) {
  WriteMarks({900});
  ModelKvDisk disk;
  disk.sequence = 850;
  ModelKv kv(env_.get(), &disk);
  auto mark = Open();
  ASSERT_OK(mark);
  EXPECT_OK(Await(env_.get(), (*mark)->AcceptLoss(&kv, 950)));
  EXPECT_EQ(kv.durable_sequence(), 950 + kKvSequenceGap);
  EXPECT_OK((*mark)->Check(kv.sequence(), 950));
  EXPECT_THAT(
      Await(env_.get(), (*mark)->AcceptLoss(&kv, 950)),
      StatusIs(absl::StatusCode::kFailedPrecondition, "no metadata is"));
  EXPECT_OK(Close(*std::move(mark)));
  mark = Open();
  ASSERT_OK(mark);
  EXPECT_EQ((*mark)->mark().sequence, 950 + kKvSequenceGap);
  EXPECT_EQ((*mark)->mark().losses, 1u);
  EXPECT_EQ((*mark)->mark().lost_after, 850u);
  EXPECT_EQ((*mark)->mark().lost_until, 950u);
  EXPECT_OK(Close(*std::move(mark)));
  EXPECT_OK(Await(env_.get(), kv.Close()));
}

}  // namespace
}  // namespace cairn::server
