// Which processes that claim to be a target are let in.
#include "server/meta/join_judge.h"

#include <random>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace cairn::server {
namespace {

using format::JoinVerdict;
using format::QuarantineCause;
using ::testing::HasSubstr;

constexpr uint64_t kFirst = 101;  // Incarnations.
constexpr uint64_t kSecond = 102;
constexpr uint64_t kThird = 103;

format::ClusterId Cluster() {
  format::ClusterId id;
  id.bytes.fill(0xc1);
  return id;
}

wire::RegisterTargetRequest Request(uint64_t incarnation, uint64_t admission) {
  wire::RegisterTargetRequest request;
  const format::ClusterId id = Cluster();
  request.set_cluster_id(id.bytes.data(), id.bytes.size());
  request.set_target(3);
  request.set_disk_generation(1);
  request.set_admission(admission);
  request.set_incarnation(incarnation);
  request.set_address("10.0.0.2:7500");
  request.set_host("h2");
  request.set_rack("r1");
  request.set_directory("/disk1");
  request.set_capacity_bytes(1 << 30);
  return request;
}

store::Member Formatted() {
  store::Member member;
  member.set_disk_generation(1);
  return member;
}

class JoinJudge : public ::testing::Test {
 protected:
  JoinDecision Ask(uint64_t incarnation, uint64_t admission,
                   bool holder_alive = false) {
    return Judge(Request(incarnation, admission), holder_alive);
  }
  JoinDecision Judge(const wire::RegisterTargetRequest& request,
                     bool holder_alive = false) {
    JoinDecision decision =
        JudgeJoin(Cluster(), &member_, request, holder_alive);
    if (decision.changed) member_ = decision.member;
    return decision;
  }
  // A whole start; the number that the disk has then.
  uint64_t Start(uint64_t incarnation, uint64_t admission) {
    const JoinDecision granted = Ask(incarnation, admission);
    EXPECT_EQ(granted.verdict, JoinVerdict::kGranted) << granted.reason;
    const JoinDecision admitted = Ask(incarnation, granted.admission);
    EXPECT_EQ(admitted.verdict, JoinVerdict::kAdmitted) << admitted.reason;
    return granted.admission;
  }

  store::Member member_ = Formatted();
};

TEST_F(JoinJudge, FirstStartIsGrantedANumberAndThenAdmitted) {
  const JoinDecision granted = Ask(kFirst, 0);
  EXPECT_EQ(granted.verdict, JoinVerdict::kGranted);
  EXPECT_EQ(granted.admission, 1u);
  EXPECT_EQ(member_.admission(), 0u);
  const JoinDecision admitted = Ask(kFirst, 1);
  EXPECT_EQ(admitted.verdict, JoinVerdict::kAdmitted);
  EXPECT_EQ(member_.admission(), 1u);
  EXPECT_EQ(member_.incarnation(), kFirst);
  EXPECT_EQ(member_.address(), "10.0.0.2:7500");
}

TEST_F(JoinJudge, WhoHasNotWrittenTheNumberDownIsNotAdmitted) {
  for (int i = 0; i < 3; ++i) {
    const JoinDecision decision = Ask(kFirst, 0);
    EXPECT_EQ(decision.verdict, JoinVerdict::kGranted);
    EXPECT_EQ(decision.admission, 1u);  // The same one each time.
  }
  EXPECT_EQ(member_.admission(), 0u);
}

TEST_F(JoinJudge, NumberThatWasNotGrantedDoesNotAdmit) {
  const JoinDecision decision = Ask(kFirst, 7);
  EXPECT_EQ(decision.verdict, JoinVerdict::kGranted);
  EXPECT_EQ(decision.admission, 8u);
}

TEST_F(JoinJudge, HolderThatAsksAgainChangesNothing) {
  Start(kFirst, 0);
  const JoinDecision decision = Ask(kFirst, 1, true);
  EXPECT_EQ(decision.verdict, JoinVerdict::kAdmitted);
  EXPECT_FALSE(decision.changed);
}

TEST_F(JoinJudge, LateQuestionOfTheHolderGetsTheNumberThatItHas) {
  Start(kFirst, 0);
  const JoinDecision decision = Ask(kFirst, 0, true);
  EXPECT_EQ(decision.verdict, JoinVerdict::kGranted);
  EXPECT_EQ(decision.admission, 1u);
  EXPECT_FALSE(decision.changed);
}

TEST_F(JoinJudge, EachStartGetsAGreaterNumber) {
  EXPECT_EQ(Start(kFirst, 0), 1u);
  EXPECT_EQ(Start(kSecond, 1), 2u);
  EXPECT_EQ(Start(kThird, 2), 3u);
}

TEST_F(JoinJudge, ProcessThatDiedBeforeItConfirmedComesBack) {
  Start(kFirst, 0);
  ASSERT_EQ(Ask(kSecond, 1).admission, 2u);
  EXPECT_EQ(Start(kThird, 1), 3u);  // The disk has the old number...
  ASSERT_EQ(Ask(kFirst, 3).admission, 4u);
  EXPECT_EQ(Start(kSecond, 4), 5u);  // ...or the one that was granted.
}

TEST_F(JoinJudge, OldImageIsTurnedAwayHoweverOftenItIsStarted) {
  Start(kFirst, 0);
  Start(kSecond, 1);
  for (uint64_t incarnation = 200; incarnation < 210; ++incarnation) {
    const JoinDecision decision = Ask(incarnation, 1);
    EXPECT_EQ(decision.verdict, JoinVerdict::kQuarantined);
    EXPECT_EQ(decision.cause, QuarantineCause::kOldImage);
    EXPECT_FALSE(decision.changed);
    EXPECT_THAT(decision.reason, HasSubstr("/disk1 on host h2"));
    EXPECT_THAT(decision.reason, HasSubstr("Start the newest disk"));
  }
  EXPECT_EQ(member_.incarnation(), kSecond);
}

TEST_F(JoinJudge, CopyBesideALiveHolderIsADuplicateThatNamesIt) {
  Start(kFirst, 0);
  wire::RegisterTargetRequest copy = Request(kSecond, 1);
  copy.set_directory("/copy");
  copy.set_address("10.0.0.9:1");
  EXPECT_TRUE(DependsOnHolder(Cluster(), &member_, copy));
  const JoinDecision decision = Judge(copy, true);
  EXPECT_EQ(decision.verdict, JoinVerdict::kQuarantined);
  EXPECT_EQ(decision.cause, QuarantineCause::kDuplicate);
  EXPECT_THAT(decision.reason, HasSubstr("process at 10.0.0.2:7500"));
  EXPECT_THAT(decision.reason, HasSubstr("/copy on host h2"));
  EXPECT_EQ(member_.address(), "10.0.0.2:7500");
}

TEST_F(JoinJudge, HolderThatIsAliveAfterAllKeepsAnotherFromConfirming) {
  Start(kFirst, 0);
  ASSERT_EQ(Ask(kSecond, 1, false).admission, 2u);  // It seemed dead.
  const JoinDecision decision = Ask(kSecond, 2, true);
  EXPECT_EQ(decision.cause, QuarantineCause::kDuplicate);
  EXPECT_EQ(Ask(kFirst, 1, true).verdict, JoinVerdict::kAdmitted);
}

TEST_F(JoinJudge, OfTwoThatWereGrantedNumbersTheLaterWins) {
  ASSERT_EQ(Ask(kFirst, 0).admission, 1u);
  ASSERT_EQ(Ask(kSecond, 0).admission, 2u);
  // The first one's number is not the granted one any more.
  ASSERT_EQ(Ask(kFirst, 1).verdict, JoinVerdict::kGranted);
  ASSERT_EQ(Ask(kSecond, 2).verdict, JoinVerdict::kGranted);
  EXPECT_EQ(Ask(kSecond, 4).verdict, JoinVerdict::kAdmitted);
  EXPECT_EQ(Ask(kFirst, 3).cause, QuarantineCause::kOldImage);
}

TEST_F(JoinJudge, HolderThatWasSupersededIsTurnedAway) {
  Start(kFirst, 0);
  Start(kSecond, 1);
  const JoinDecision decision = Ask(kFirst, 1, true);
  EXPECT_EQ(decision.verdict, JoinVerdict::kQuarantined);
  EXPECT_EQ(decision.cause, QuarantineCause::kDuplicate);
}

TEST_F(JoinJudge, DiskOfAnotherClusterIsForeign) {
  wire::RegisterTargetRequest request = Request(kFirst, 0);
  request.set_cluster_id(std::string(16, 'x'));
  EXPECT_EQ(Judge(request).cause, QuarantineCause::kForeign);
  request.set_cluster_id("short");
  EXPECT_EQ(Judge(request).cause, QuarantineCause::kForeign);
  EXPECT_FALSE(DependsOnHolder(Cluster(), nullptr, request));
}

TEST_F(JoinJudge, IdThatWasNeverGivenIsUnknown) {
  const JoinDecision decision =
      JudgeJoin(Cluster(), nullptr, Request(kFirst, 0), false);
  EXPECT_EQ(decision.verdict, JoinVerdict::kQuarantined);
  EXPECT_EQ(decision.cause, QuarantineCause::kUnknownTarget);
  EXPECT_THAT(decision.reason, HasSubstr("cairnd format"));
}

TEST_F(JoinJudge, RemovedTargetStaysAway) {
  Start(kFirst, 0);
  member_.set_removed(true);
  EXPECT_EQ(Ask(kFirst, 1).cause, QuarantineCause::kRemoved);
  EXPECT_EQ(Ask(kSecond, 1).cause, QuarantineCause::kRemoved);
}

TEST_F(JoinJudge, OtherDiskGenerationIsTurnedAwayWhetherLowerOrHigher) {
  member_.set_disk_generation(2);
  for (const uint64_t generation : {1, 3}) {
    wire::RegisterTargetRequest request = Request(kFirst, 0);
    request.set_disk_generation(generation);
    EXPECT_EQ(Judge(request).cause, QuarantineCause::kDiskGeneration);
  }
}

TEST_F(JoinJudge, NamesThatAreNotGivenStayWhatTheyWere) {
  Start(kFirst, 0);
  wire::RegisterTargetRequest request = Request(kFirst, 1);
  request.clear_host();
  request.clear_rack();
  request.set_address("10.0.0.3:7500");
  EXPECT_TRUE(Judge(request).changed);
  EXPECT_EQ(member_.host(), "h2");
  EXPECT_EQ(member_.rack(), "r1");
  EXPECT_EQ(member_.address(), "10.0.0.3:7500");
}

// Disks are copied while nobody serves them, processes start on any copy and
// die at any step. Whoever is let in has every write that was acknowledged.
TEST_F(JoinJudge, WhoeverIsAdmittedHasAllThatWasAcknowledged) {
  struct Disk {
    uint64_t admission = 0;
    uint64_t writes = 0;
  };
  struct Process {
    size_t disk = 0;
    uint64_t incarnation = 0;
    bool serves = false;
  };
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    member_ = Formatted();
    std::vector<Disk> disks(1);
    std::vector<Process> processes;
    uint64_t acknowledged = 0;
    uint64_t incarnations = 0;
    for (int step = 0; step < 300; ++step) {
      const uint64_t what = random() % 6;
      const size_t disk = random() % disks.size();
      size_t at = 0;
      while (at < processes.size() && processes[at].disk != disk) ++at;
      const bool open = at < processes.size();
      if (what == 0 && !open && disks.size() < 4) {
        disks.push_back(disks[disk]);
      } else if (what == 1 && !open) {
        processes.push_back({disk, ++incarnations, false});
      } else if (what == 2 && open) {
        processes.erase(processes.begin() + static_cast<int64_t>(at));
      } else if (what >= 3 && open) {
        Process& process = processes[at];
        bool alive = false;
        for (const Process& other : processes) {
          alive = alive || other.incarnation == member_.incarnation();
        }
        const JoinDecision decision =
            Ask(process.incarnation, disks[disk].admission, alive);
        if (decision.verdict == JoinVerdict::kGranted && random() % 4 != 0) {
          disks[disk].admission = decision.admission;
        }
        process.serves = decision.verdict == JoinVerdict::kAdmitted;
        if (!process.serves) continue;
        ASSERT_EQ(disks[disk].writes, acknowledged);
        acknowledged = ++disks[disk].writes;
      }
    }
  }
}

}  // namespace
}  // namespace cairn::server
