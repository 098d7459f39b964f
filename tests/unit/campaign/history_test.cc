#include "tests/sim/campaign/history.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace cairn::sim {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(HistoryTest, StepThatWasAskedForIsSeenBesideTheStateBeforeIt) {
  History<char> history('a');
  history.Begin('b', 10);
  EXPECT_TRUE(history.pending());
  EXPECT_THAT(history.Between(5, 9), ElementsAre(0));
  EXPECT_THAT(history.Between(5, 10), ElementsAre(0, 1));
  EXPECT_THAT(history.Between(1000, 1000), ElementsAre(0, 1));
}

TEST(HistoryTest, StateBeforeAReachedStepIsSeenOnlyByThoseWhoBeganEarlier) {
  History<char> history('a');
  history.Begin('b', 10);
  history.ReachedLast(20);
  EXPECT_FALSE(history.pending());
  EXPECT_EQ(history.current(), 'b');
  EXPECT_THAT(history.Between(20, 30), ElementsAre(0, 1));
  EXPECT_THAT(history.Between(21, 30), ElementsAre(1));
}

TEST(HistoryTest, StepThatWasSeenEndsWhatIsOlderAndNotWhatIsNewer) {
  History<char> history('a');
  history.Begin('b', 10);
  history.Begin('c', 10);
  history.Reached(1, 15);
  EXPECT_THAT(history.Between(16, 16), ElementsAre(1, 2));
  EXPECT_TRUE(history.pending());
}

TEST(HistoryTest, StepThatIsSettledNotToHappenIsNotSeenLater) {
  History<char> history('a');
  history.Begin('b', 10);
  history.Settle(0, 20);
  EXPECT_FALSE(history.pending());
  EXPECT_EQ(history.current(), 'a');
  for (const size_t number : history.Between(21, 21)) {
    EXPECT_EQ(history[number], 'a');
  }
  EXPECT_FALSE(history.Between(21, 21).empty());
}

TEST(HistoryTest, ReaderMayMissAStepOnlyIfItWasTakenInItsTime) {
  History<char> history('a');
  history.Begin('b', 10);
  history.ReachedLast(20);
  EXPECT_FALSE(history.MayHaveLeft(21, 100));
  EXPECT_TRUE(history.MayHaveLeft(15, 100));
  EXPECT_FALSE(history.MayHaveLeft(5, 9));
}

}  // namespace
}  // namespace cairn::sim
