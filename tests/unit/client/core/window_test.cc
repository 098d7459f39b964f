#include "client/core/window.h"

#include <vector>

#include "gtest/gtest.h"
#include "tests/support/manual_executor.h"

namespace cairn::client {
namespace {

using io::kNoDeadline;
using io::Task;
using io::TimeNs;
using testing::ManualExecutor;

constexpr uint64_t kFloor = 100;
constexpr uint64_t kMax = 1000;
constexpr TimeNs kQuick = 1'000;
constexpr TimeNs kSlow = 1'000'000;

// `id` once the window let it in, -`id` when the deadline came first.
Task<void> AcquireInto(AdaptiveWindow* window, uint64_t bytes, TimeNs deadline,
                       int id, std::vector<int>* order) {
  const bool got = co_await window->Acquire(bytes, deadline);
  order->push_back(got ? id : -id);
}

class AdaptiveWindowTest : public ::testing::Test {
 protected:
  void Ask(uint64_t bytes, int id, TimeNs deadline = kNoDeadline) {
    gate_.Spawn(AcquireInto(&window_, bytes, deadline, id, &order_));
    loop_.Drain();
  }
  void Release(uint64_t bytes, TimeNs took_ns = 0) {
    window_.Release(bytes, took_ns);
    loop_.Drain();
  }
  // One request that nobody competes with.
  void Answer(uint64_t bytes, TimeNs took_ns) {
    Ask(bytes, 0);
    Release(bytes, took_ns);
    order_.clear();
  }
  void Grow() {
    for (int i = 0; i < 100; ++i) Answer(kFloor, kQuick);
    ASSERT_EQ(window_.limit_bytes(), kMax);
  }

  ManualExecutor loop_;
  io::Gate gate_{&loop_};
  AdaptiveWindow window_{&loop_, kFloor, kMax};
  std::vector<int> order_;
};

using Order = std::vector<int>;

TEST_F(AdaptiveWindowTest, StartsAtTheFloor) {
  EXPECT_EQ(window_.limit_bytes(), kFloor);
  EXPECT_EQ(window_.in_flight_bytes(), 0u);
}

TEST_F(AdaptiveWindowTest, FloorAboveTheMaximumIsTheMaximum) {
  const AdaptiveWindow window(&loop_, 50, 20);
  EXPECT_EQ(window.limit_bytes(), 20u);
}

TEST_F(AdaptiveWindowTest, QuickAnswersGrowItToTheMaximumAndNoFurther) {
  uint64_t before = window_.limit_bytes();
  Answer(kFloor, kQuick);
  EXPECT_GT(window_.limit_bytes(), before);
  for (int i = 0; i < 100; ++i) {
    before = window_.limit_bytes();
    Answer(kFloor, kQuick);
    ASSERT_GE(window_.limit_bytes(), before);
    ASSERT_LE(window_.limit_bytes(), kMax);
  }
  EXPECT_EQ(window_.limit_bytes(), kMax);
}

TEST_F(AdaptiveWindowTest, AnswersThatTakeAFewTimesTheBestStillGrowIt) {
  Answer(kFloor, kQuick);
  const uint64_t before = window_.limit_bytes();
  Answer(kFloor, 3 * kQuick);
  EXPECT_GT(window_.limit_bytes(), before);
}

TEST_F(AdaptiveWindowTest, SlowAnswersShrinkItToTheFloorAndNoFurther) {
  Grow();
  for (int i = 0; i < 200; ++i) {
    Answer(kFloor, kSlow);
    ASSERT_GE(window_.limit_bytes(), kFloor);
  }
  EXPECT_EQ(window_.limit_bytes(), kFloor);
}

TEST_F(AdaptiveWindowTest, SlowAnswersOfOneWindowShrinkItOnce) {
  Grow();
  Answer(kFloor, kSlow);
  const uint64_t shrunk = window_.limit_bytes();
  ASSERT_LT(shrunk, kMax);
  for (uint64_t bytes = kFloor; bytes < shrunk; bytes += kFloor) {
    ASSERT_EQ(window_.limit_bytes(), shrunk) << "after " << bytes;
    Answer(kFloor, kSlow);
  }
  Answer(kFloor, kSlow);
  EXPECT_LT(window_.limit_bytes(), shrunk);
}

TEST_F(AdaptiveWindowTest, LastingSlownessBecomesTheNorm) {
  Grow();
  for (int i = 0; i < 2000; ++i) Answer(kFloor, kSlow);
  EXPECT_EQ(window_.limit_bytes(), kMax);
}

TEST_F(AdaptiveWindowTest, FailedRequestTeachesNothing) {
  Answer(kFloor, 0);
  EXPECT_EQ(window_.limit_bytes(), kFloor);
  Grow();
  Answer(kFloor, 0);
  EXPECT_EQ(window_.limit_bytes(), kMax);
  EXPECT_EQ(window_.in_flight_bytes(), 0u);
}

TEST_F(AdaptiveWindowTest, RequestsBeyondTheLimitWaitForRoom) {
  Ask(60, 1);
  Ask(40, 2);
  Ask(1, 3);
  EXPECT_EQ(order_, (Order{1, 2}));
  EXPECT_EQ(window_.in_flight_bytes(), 100u);
  Release(40);
  EXPECT_EQ(order_, (Order{1, 2, 3}));
  EXPECT_EQ(window_.in_flight_bytes(), 61u);
}

TEST_F(AdaptiveWindowTest, OversizeRequestPassesAlone) {
  Ask(5 * kMax, 1);
  EXPECT_EQ(order_, (Order{1}));
  EXPECT_EQ(window_.in_flight_bytes(), 5 * kMax);
  Ask(1, 2);
  EXPECT_EQ(order_, (Order{1}));
  Release(5 * kMax);
  EXPECT_EQ(order_, (Order{1, 2}));
}

TEST_F(AdaptiveWindowTest, OversizeRequestWaitsUntilNothingIsInFlight) {
  Ask(50, 1);
  Ask(50, 2);
  Ask(101, 3);
  Release(50);
  EXPECT_EQ(order_, (Order{1, 2}));
  Release(50);
  EXPECT_EQ(order_, (Order{1, 2, 3}));
  EXPECT_EQ(window_.in_flight_bytes(), 101u);
}

TEST_F(AdaptiveWindowTest, OneReleaseLetsInAllThatFit) {
  Ask(100, 1);
  Ask(30, 2);
  Ask(30, 3);
  Ask(30, 4);
  Ask(30, 5);
  Release(100);
  EXPECT_EQ(order_, (Order{1, 2, 3, 4}));
  Release(30);
  EXPECT_EQ(order_, (Order{1, 2, 3, 4, 5}));
}

TEST_F(AdaptiveWindowTest, NewcomerDoesNotPassAWaiterThoughItFits) {
  Ask(60, 1);
  Ask(60, 2);
  Ask(10, 3);
  EXPECT_EQ(order_, (Order{1}));
  Release(60);
  EXPECT_EQ(order_, (Order{1, 2, 3}));
}

TEST_F(AdaptiveWindowTest, LargeRequestIsNotStarvedBySmallerOnesBehindIt) {
  Ask(50, 1);
  Ask(50, 2);
  Ask(100, 3);
  Ask(50, 4);
  Release(50);
  ASSERT_EQ(order_, (Order{1, 2}));
  Release(50);
  ASSERT_EQ(order_, (Order{1, 2, 3}));
  Release(100);
  ASSERT_EQ(order_, (Order{1, 2, 3, 4}));
}

TEST_F(AdaptiveWindowTest, DeadlineGivesFalseAndTakesNothing) {
  Ask(60, 1);
  Ask(60, 2, 500);
  loop_.AdvanceTo(499);
  EXPECT_EQ(order_, (Order{1}));
  loop_.AdvanceTo(500);
  EXPECT_EQ(order_, (Order{1, -2}));
  EXPECT_EQ(window_.in_flight_bytes(), 60u);
  Ask(40, 3);
  EXPECT_EQ(order_, (Order{1, -2, 3}));
}

TEST_F(AdaptiveWindowTest, DeadlineBehindTheHeadOfTheLineIsKeptToo) {
  Ask(100, 1);
  Ask(100, 2);
  Ask(10, 3, 500);
  loop_.AdvanceTo(500);
  EXPECT_EQ(order_, (Order{1, -3}));
  Release(100);
  EXPECT_EQ(order_, (Order{1, -3, 2}));
  EXPECT_EQ(window_.in_flight_bytes(), 100u);
}

TEST_F(AdaptiveWindowTest, WaiterThatGivesUpLetsInThoseBehindIt) {
  Ask(60, 1);
  Ask(60, 2, 500);
  Ask(20, 3);
  Ask(20, 4);
  EXPECT_EQ(order_, (Order{1}));
  loop_.AdvanceTo(500);
  EXPECT_EQ(order_, (Order{1, -2, 3, 4}));
  EXPECT_EQ(window_.in_flight_bytes(), 100u);
}

TEST_F(AdaptiveWindowTest, GrowthLetsInWaitersThatDidNotFitBefore) {
  Ask(50, 1);
  Ask(50, 2);
  Ask(75, 3);
  Release(50, kQuick);  // The limit is 125 from here on.
  EXPECT_EQ(order_, (Order{1, 2, 3}));
  EXPECT_EQ(window_.in_flight_bytes(), 125u);
}

TEST_F(AdaptiveWindowTest, ReleaseOfMoreThanIsInFlightIsABug) {
  Ask(10, 1);
  EXPECT_DEATH(window_.Release(11, 0), "in_flight_");
}

}  // namespace
}  // namespace cairn::client
