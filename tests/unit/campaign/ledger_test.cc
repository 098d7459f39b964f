// The oracle must object: each test tells a ledger a story that must not be.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/sim/campaign/file_ledger.h"
#include "tests/sim/campaign/set_ledger.h"

namespace cairn::sim {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr char kPath[] = "/ckpt/a";

class LedgerTest : public ::testing::Test {
 protected:
  LedgerTest()
      : tunables_(DrawTunables(1)),
        cluster_(ClusterOptions()),
        judge_([](const std::string&) {}),
        faults_(cluster_.world()),
        sets_(&context_),
        files_(&context_) {
    context_.tunables = &tunables_;
    context_.cluster = &cluster_;
    context_.judge = &judge_;
    context_.faults = &faults_;
    context_.sets = &sets_;
    context_.files = &files_;
  }
  io::TimeNs Tick() {
    cluster_.Sleep(io::kMillisecond);
    return context_.now();
  }
  SetAttempt* Published() {
    SetAttempt* const attempt = Written();
    sets_.Published(attempt);
    return attempt;
  }
  SetAttempt* Written() {
    SetAttempt* const attempt = sets_.NewAttempt(kPath, 1, 1024);
    sets_.Opened(attempt, Tick());
    sets_.RankBegins(attempt, 0);
    return attempt;
  }

  const Tunables tunables_;
  SimCluster cluster_;
  Judge judge_;
  AttackLog faults_;
  Context context_;
  SetLedger sets_;
  FileLedger files_;
};

TEST_F(LedgerTest, SetThatIsPublishedAndSeenIsNoViolation) {
  Published();
  EXPECT_NE(sets_.Seen(kPath, 1, Tick()), nullptr);
  EXPECT_THAT(judge_.what(), IsEmpty());
}

TEST_F(LedgerTest, PublishedSetThatIsNotThereIsAViolation) {
  Published();
  sets_.SeenAbsent(kPath, Tick());
  EXPECT_THAT(judge_.what(), HasSubstr("is not there"));
}

TEST_F(LedgerTest, ReaderThatBeganBeforeThePublicationMayFindNothing) {
  const io::TimeNs since = Tick();
  Tick();
  Published();
  sets_.SeenAbsent(kPath, since);
  EXPECT_THAT(judge_.what(), IsEmpty());
}

TEST_F(LedgerTest, SetOfWhichARankHasNotBegunMustNotBeSeen) {
  SetAttempt* const attempt = sets_.NewAttempt(kPath, 2, 1024);
  sets_.RankBegins(attempt, 1);
  sets_.Seen(kPath, 1, Tick());
  EXPECT_THAT(judge_.what(), HasSubstr("not every rank"));
}

TEST_F(LedgerTest, FencedAttemptMustNotBeSeen) {
  Written();
  Tick();
  Written();
  sets_.Seen(kPath, 1, Tick());
  EXPECT_THAT(judge_.what(), HasSubstr("fenced"));
}

TEST_F(LedgerTest, AttemptMustNotBeOpenedWhereASetIsPublished) {
  Published();
  Tick();
  Written();
  EXPECT_THAT(judge_.what(), HasSubstr("was opened although"));
}

TEST_F(LedgerTest, SetIsGoneOnceItsRemovalIsAcknowledged) {
  Published();
  sets_.RemovalAsked(kPath);
  Tick();
  sets_.RemovalDone(kPath);
  sets_.SeenAbsent(kPath, Tick());
  EXPECT_THAT(judge_.what(), IsEmpty());
  sets_.Seen(kPath, 1, Tick());
  EXPECT_THAT(judge_.what(), HasSubstr("removal was acknowledged"));
}

TEST_F(LedgerTest, FencedWithoutANewerAttemptIsAViolation) {
  sets_.ToldFenced(Written());
  EXPECT_THAT(judge_.what(), HasSubstr("nobody fenced it"));
}

TEST_F(LedgerTest, BytesOfTwoStatesOfAFileMatchNeither) {
  LedgerFile* const file = files_.NewFile();
  const std::vector<uint8_t> first = BytesAt(file->id, 1, 0, 1000);
  const std::vector<uint8_t> second = BytesAt(file->id, 2, 0, 1000);
  for (const std::vector<uint8_t>& bytes : {first, second}) {
    file->content.Begin(
        std::make_shared<const std::string>(bytes.begin(), bytes.end()),
        Tick());
  }
  std::vector<uint8_t> mixed = first;
  std::copy(second.begin() + 500, second.end(), mixed.begin() + 500);
  const io::TimeNs since = Tick();
  EXPECT_THAT(files_.Match({file}, since, 0, first, 2000), SizeIs(1));
  EXPECT_THAT(files_.Match({file}, since, 0, second, 2000), SizeIs(1));
  EXPECT_THAT(files_.Match({file}, since, 0, mixed, 2000), IsEmpty());
  file->content.ReachedLast(Tick());
  EXPECT_THAT(files_.Match({file}, Tick(), 0, first, 2000), IsEmpty());
}

TEST_F(LedgerTest, ShortReadMatchesOnlyAtTheEndOfTheFile) {
  LedgerFile* const file = files_.NewFile();
  const std::vector<uint8_t> bytes = BytesAt(file->id, 1, 0, 1000);
  file->content.Begin(
      std::make_shared<const std::string>(bytes.begin(), bytes.end()), Tick());
  file->content.ReachedLast(Tick());
  const std::span<const uint8_t> some(bytes.data(), 900);
  EXPECT_THAT(files_.Match({file}, Tick(), 0, some, 900), SizeIs(1));
  EXPECT_THAT(files_.Match({file}, Tick(), 0, some, 950), IsEmpty());
}

TEST_F(LedgerTest, ErrorWithoutAFaultIsAViolationAndExcusedAfterOne) {
  Tick();
  JudgeError(context_, context_.now(), absl::UnavailableError("x"), "a write");
  EXPECT_THAT(judge_.what(), HasSubstr("nothing excuses"));
  faults_.Count(Attack::kKillTarget);
  EXPECT_TRUE(Excused(context_, context_.now(), absl::UnavailableError("x")));
  EXPECT_FALSE(Excused(context_, context_.now(), absl::DataLossError("x")));
}

}  // namespace
}  // namespace cairn::sim
