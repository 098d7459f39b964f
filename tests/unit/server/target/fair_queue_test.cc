#include "server/target/fair_queue.h"

#include <memory>
#include <optional>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/sim/world.h"
#include "tests/support/manual_executor.h"
#include "tests/support/status_matchers.h"

namespace cairn::server {
namespace {

using ::cairn::testing::StatusIs;
using format::TrafficClass;
using ::testing::ElementsAre;

FairQueueOptions Options(uint32_t in_flight_max, uint32_t waiting_max = 1000) {
  FairQueueOptions options;
  options.in_flight_max = in_flight_max;
  options.waiting_max = waiting_max;
  options.weights = {8, 4, 4, 1};
  return options;
}

// Takes a turn and works for a millisecond; notes its name when it begins.
io::Task<void> Work(sim::World* world, FairQueue* queue, TrafficClass of,
                    uint64_t cost, int name, std::vector<int>* order) {
  const auto turn = co_await queue->Enter(of, cost, io::kNoDeadline);
  CAIRN_CHECK(turn.ok());
  order->push_back(name);
  (void)co_await io::SleepFor(world, io::kMillisecond);
}

io::Task<void> EnterInto(FairQueue* queue, io::TimeNs deadline,
                         absl::Status* status) {
  const auto turn =
      co_await queue->Enter(TrafficClass::kInteractive, 1, deadline);
  *status = turn.status();
}

class FairQueueTest : public ::testing::Test {
 protected:
  // Spawns `count` jobs of one class, all named `name`.
  void Spawn(TrafficClass of, uint64_t cost, int name, int count) {
    for (int i = 0; i < count; ++i) {
      gate_.Spawn(Work(&world_, &queue_, of, cost, name, &order_));
    }
  }
  int CountInFirst(size_t turns, int name) const {
    return static_cast<int>(std::count(
        order_.begin(), order_.begin() + static_cast<ptrdiff_t>(turns), name));
  }
  sim::World world_{sim::WorldOptions()};
  FairQueue queue_{&world_, Options(1)};
  io::Gate gate_{&world_};
  std::vector<int> order_;
};

io::Task<void> EnterAndKeep(FairQueue* queue,
                            std::optional<FairQueue::Turn>* turn) {
  auto entered =
      co_await queue->Enter(TrafficClass::kInteractive, 1, io::kNoDeadline);
  CAIRN_CHECK(entered.ok());
  turn->emplace(*std::move(entered));
}

TEST(FairQueueRaceTest, TurnThatEndsJustAfterADeadlineGoesToTheNext) {
  testing::ManualExecutor loop;
  io::Gate gate(&loop);
  FairQueue queue(&loop, Options(1));
  std::optional<FairQueue::Turn> first;
  gate.Spawn(EnterAndKeep(&queue, &first));
  absl::Status late;
  absl::Status next = absl::UnknownError("waits");
  gate.Spawn(EnterInto(&queue, 100, &late));
  gate.Spawn(EnterInto(&queue, io::kNoDeadline, &next));
  loop.FireTo(100);
  first.reset();
  loop.Drain();
  EXPECT_THAT(late, StatusIs(absl::StatusCode::kDeadlineExceeded, "turn"));
  EXPECT_OK(next);
}

TEST_F(FairQueueTest, ClassesThatAlwaysWaitShareByWeight) {
  Spawn(TrafficClass::kBackground, 1000, 1, 90);
  Spawn(TrafficClass::kInteractive, 1000, 8, 90);
  world_.Run(gate_.Close());
  const int interactive = CountInFirst(90, 8);
  EXPECT_GE(interactive, 78);
  EXPECT_LE(interactive, 82);
  EXPECT_GE(CountInFirst(90, 1), 8) << "background starves";
}

TEST_F(FairQueueTest, CostIsSharedAndNotTheNumberOfRequests) {
  Spawn(TrafficClass::kDatasetRead, 1000, 1, 100);      // Same weight,
  Spawn(TrafficClass::kCheckpointWrite, 4000, 4, 100);  // four times the cost.
  world_.Run(gate_.Close());
  const int small = CountInFirst(100, 1);
  EXPECT_GE(small, 78);
  EXPECT_LE(small, 82);
}

TEST_F(FairQueueTest, ClassThatWasIdleBringsNoCreditAlong) {
  Spawn(TrafficClass::kDatasetRead, 1000, 1, 100);
  world_.Run(gate_.Close());
  order_.clear();
  Spawn(TrafficClass::kDatasetRead, 1000, 1, 50);
  Spawn(TrafficClass::kCheckpointWrite, 1000, 2, 50);
  world_.Run(gate_.Close());
  EXPECT_GE(CountInFirst(20, 1), 9);
  EXPECT_GE(CountInFirst(20, 2), 9);
}

TEST_F(FairQueueTest, WithinAClassFirstComeIsFirstServed) {
  for (int name = 0; name < 5; ++name) {
    Spawn(TrafficClass::kDatasetRead, 10, name, 1);
  }
  world_.Run(gate_.Close());
  EXPECT_THAT(order_, ElementsAre(0, 1, 2, 3, 4));
}

TEST_F(FairQueueTest, DeadlineEndsTheWaitAndLeavesTheLine) {
  Spawn(TrafficClass::kInteractive, 1, 1, 1);
  absl::Status late;
  gate_.Spawn(EnterInto(&queue_, world_.NowNs() + 1000, &late));
  Spawn(TrafficClass::kInteractive, 1, 2, 1);
  EXPECT_EQ(queue_.waiting(), 2u);
  world_.Run(gate_.Close());
  EXPECT_THAT(late, StatusIs(absl::StatusCode::kDeadlineExceeded, "turn"));
  EXPECT_THAT(order_, ElementsAre(1, 2));
  EXPECT_EQ(queue_.waiting(), 0u);
}

TEST(FairQueue, SoManyTurnsAtATimeAndNotMore) {
  sim::World world{sim::WorldOptions()};
  FairQueue queue(&world, Options(3));
  io::Gate gate(&world);
  std::vector<int> order;
  for (int i = 0; i < 7; ++i) {
    gate.Spawn(Work(&world, &queue, TrafficClass::kInteractive, 1, i, &order));
  }
  EXPECT_EQ(queue.in_flight(), 3u);
  EXPECT_EQ(order.size(), 3u);
  world.Run(gate.Close());
  EXPECT_EQ(order.size(), 7u);
  EXPECT_EQ(queue.in_flight(), 0u);
}

TEST(FairQueue, LineThatIsFullRefusesTheNext) {
  sim::World world{sim::WorldOptions()};
  FairQueue queue(&world, Options(1, 1));
  io::Gate gate(&world);
  std::vector<int> order;
  for (int i = 0; i < 2; ++i) {
    gate.Spawn(Work(&world, &queue, TrafficClass::kInteractive, 1, i, &order));
  }
  absl::Status refused;
  gate.Spawn(EnterInto(&queue, io::kNoDeadline, &refused));
  EXPECT_THAT(refused, StatusIs(absl::StatusCode::kUnavailable, "overloaded"));
  world.Run(gate.Close());
}

}  // namespace
}  // namespace cairn::server
