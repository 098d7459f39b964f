#include "server/meta/target_health.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace cairn::server {
namespace {

using ::cairn::testing::StatusIs;
using format::TargetState;
using io::kSecond;
using io::TimeNs;
using ::testing::HasSubstr;

// Answers or misses a heartbeat each second, and takes over each judgement.
class TargetHealthTest : public ::testing::Test {
 protected:
  void Make(TargetState state = TargetState::kUp) {
    health_ = std::make_unique<TargetHealth>(&options_, state, now_);
  }
  void Tick(bool answered) {
    if (answered) {
      health_->Answered(now_, problem_);
    } else {
      health_->Missed("connection refused");
    }
    now_ += kSecond;
    health_->SetState(health_->Judge(now_), now_);
  }
  void Answer(int seconds) {
    for (int i = 0; i < seconds; ++i) Tick(true);
  }
  void Miss(int seconds) {
    for (int i = 0; i < seconds; ++i) Tick(false);
  }
  // Seconds of answers until it is up.
  int SecondsToUp() {
    int seconds = 0;
    while (health_->state() != TargetState::kUp && seconds < 1000) {
      Tick(true);
      ++seconds;
    }
    return seconds;
  }
  TargetState state() const { return health_->state(); }

  HealthOptions options_;
  TimeNs now_ = 1000 * kSecond;
  std::string problem_;
  std::unique_ptr<TargetHealth> health_;
};

TEST_F(TargetHealthTest, SilenceMakesItSuspectAndThenDown) {
  Make();
  Answer(5);
  Miss(1);
  EXPECT_EQ(state(), TargetState::kUp);
  Miss(1);  // The last answer was asked for three seconds ago.
  EXPECT_EQ(state(), TargetState::kSuspect);
  Miss(6);
  EXPECT_EQ(state(), TargetState::kSuspect);
  Miss(1);
  EXPECT_EQ(state(), TargetState::kDown);
}

TEST_F(TargetHealthTest, OneMissedHeartbeatChangesNothing) {
  Make();
  for (int i = 0; i < 20; ++i) {
    Answer(3);
    Miss(1);
    EXPECT_EQ(state(), TargetState::kUp);
  }
}

TEST_F(TargetHealthTest, AnswerProvesHowItWasWhenItWasAskedFor) {
  Make();
  Answer(1);
  const TimeNs asked_at = now_;
  now_ += 4 * kSecond;
  health_->Answered(asked_at, "");
  EXPECT_EQ(health_->Judge(now_), TargetState::kSuspect);
}

TEST_F(TargetHealthTest, ComesBackOnlyAfterAWholeHoldTimeWithoutAMiss) {
  Make();
  Miss(12);
  ASSERT_EQ(state(), TargetState::kDown);
  Answer(4);
  EXPECT_EQ(state(), TargetState::kDown);
  Miss(1);
  Answer(4);
  EXPECT_EQ(state(), TargetState::kDown);
  Answer(1);
  EXPECT_EQ(state(), TargetState::kUp);
}

TEST_F(TargetHealthTest, FlappingOneIsHeldBackTwiceAsLongEachTimeUpToTheMost) {
  options_.up_after_max_ns = 33 * kSecond;
  Make();
  for (const int seconds : {5, 10, 20, 33, 33}) {
    Miss(4);
    ASSERT_EQ(state(), TargetState::kSuspect);
    EXPECT_EQ(SecondsToUp(), seconds);
  }
}

TEST_F(TargetHealthTest, LongTimeUpMakesEarlierFallsForgotten) {
  options_.forget_falls_ns = 100 * kSecond;
  Make();
  Miss(4);
  EXPECT_EQ(SecondsToUp(), 5);
  Answer(90);
  Miss(4);
  EXPECT_EQ(SecondsToUp(), 10);
  Answer(100);
  Miss(4);
  EXPECT_EQ(SecondsToUp(), 5);
}

TEST_F(TargetHealthTest, OneThatTakesNoWritesIsSuspectUntilItHasForTheHold) {
  Make();
  problem_ = "target 3 takes no writes since: flush failed";
  Tick(true);
  EXPECT_EQ(state(), TargetState::kSuspect);
  EXPECT_EQ(health_->Reason(now_), problem_);
  Answer(50);
  EXPECT_EQ(state(), TargetState::kSuspect);
  problem_.clear();
  EXPECT_EQ(SecondsToUp(), 5);
}

TEST_F(TargetHealthTest, DownOneThatAnswersButTakesNoWritesBecomesSuspect) {
  Make(TargetState::kDown);
  problem_ = "the disk hangs";
  Answer(4);
  EXPECT_EQ(state(), TargetState::kDown);
  Answer(1);
  EXPECT_EQ(state(), TargetState::kSuspect);
}

TEST_F(TargetHealthTest, AfterARestartNobodyIsDownBeforeAWholeDownAfter) {
  Make(TargetState::kSuspect);
  Miss(9);
  EXPECT_EQ(state(), TargetState::kSuspect);
  Miss(1);
  EXPECT_EQ(state(), TargetState::kDown);
  Make(TargetState::kUp);
  Miss(9);
  EXPECT_EQ(state(), TargetState::kSuspect);
}

TEST_F(TargetHealthTest, TimeInWhichNobodyAskedIsNoSilence) {
  Make();
  Answer(3);
  now_ += 60 * kSecond;
  health_->Forgive(60 * kSecond, now_);
  EXPECT_EQ(health_->Judge(now_), TargetState::kUp);
  // But it does not count as an answer either.
  health_->Forgive(60 * kSecond, now_);
  now_ += 3 * kSecond;
  EXPECT_EQ(health_->Judge(now_), TargetState::kSuspect);
}

TEST_F(TargetHealthTest, StatesThatAnOperatorSetStay) {
  for (const TargetState state : {TargetState::kOut, TargetState::kDraining}) {
    Make(state);
    Miss(100);
    EXPECT_EQ(health_->state(), state);
    EXPECT_THAT(health_->Reason(now_), HasSubstr("no answer for 100.0 s"));
    Answer(100);
    EXPECT_EQ(health_->state(), state);
  }
}

TEST_F(TargetHealthTest, ReasonSaysForHowLongAndWhyAndWhenItWillBeBack) {
  Make();
  EXPECT_EQ(health_->Reason(now_), "");
  Miss(14);
  EXPECT_EQ(health_->Reason(now_), "no answer for 14.0 s: connection refused");
  Answer(2);
  EXPECT_EQ(health_->Reason(now_),
            "answers again since 2.0 s; up when it has for 5.0 s");
  SecondsToUp();
  EXPECT_EQ(health_->Reason(now_), "");
  Miss(4);
  Answer(1);
  EXPECT_THAT(health_->Reason(now_), HasSubstr("(fell 2 times lately)"));
}

TEST(HealthOptions, TimesThatContradictEachOtherAreRefused) {
  using Code = absl::StatusCode;
  EXPECT_OK(CheckHealthOptions(HealthOptions()));
  HealthOptions options;
  options.heartbeat_ns = 0;
  EXPECT_THAT(CheckHealthOptions(options),
              StatusIs(Code::kInvalidArgument, "heartbeats is 0"));
  options = HealthOptions();
  options.heartbeat_ns = 2 * kSecond;
  EXPECT_THAT(CheckHealthOptions(options),
              StatusIs(Code::kInvalidArgument, "less than two heartbeats"));
  options = HealthOptions();
  options.down_after_ns = options.suspect_after_ns;
  EXPECT_THAT(CheckHealthOptions(options),
              StatusIs(Code::kInvalidArgument, "not longer than suspect"));
  options = HealthOptions();
  options.brake_share = 1.5;
  EXPECT_THAT(CheckHealthOptions(options),
              StatusIs(Code::kInvalidArgument, "brake"));
}

}  // namespace
}  // namespace cairn::server
