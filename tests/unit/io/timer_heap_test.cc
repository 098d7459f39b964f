#include "io/loop/timer_heap.h"

#include <list>
#include <map>
#include <random>

#include "gtest/gtest.h"

namespace cairn::io {
namespace {

class Alarm final : public Timer {
 public:
  void Fire() override {}
};

TEST(TimerHeap, TimersWithOneDeadlinePopInTheOrderTheyWereAdded) {
  TimerHeap heap;
  std::vector<Alarm> alarms(20);
  for (Alarm& alarm : alarms) heap.Add(7, &alarm);
  EXPECT_EQ(heap.next_deadline(), 7u);
  EXPECT_EQ(heap.PopDue(6), nullptr);
  for (Alarm& alarm : alarms) EXPECT_EQ(heap.PopDue(7), &alarm);
  EXPECT_EQ(heap.PopDue(kNoDeadline), nullptr);
  EXPECT_EQ(heap.next_deadline(), kNoDeadline);
}

TEST(TimerHeap, RemovedTimerNeverPopsAndIsRemovedOnce) {
  TimerHeap heap;
  Alarm first, second;
  heap.Add(1, &first);
  heap.Add(2, &second);
  EXPECT_TRUE(heap.Remove(&first));
  EXPECT_FALSE(heap.Remove(&first));
  EXPECT_EQ(heap.PopDue(5), &second);
  EXPECT_FALSE(heap.Remove(&second));
}

TEST(TimerHeap, RandomAddsAndRemovesAgreeWithAnOrderedMap) {
  std::mt19937 random(1);
  TimerHeap heap;
  std::map<std::pair<TimeNs, int>, Timer*> model;
  std::list<Alarm> alarms;
  for (int step = 0; step < 20'000; ++step) {
    const unsigned choice = random() % 8;
    if (choice < 4) {
      alarms.emplace_back();
      const TimeNs deadline = random() % 1000;
      heap.Add(deadline, &alarms.back());
      model.emplace(std::pair(deadline, step), &alarms.back());
    } else if (choice < 6 && !model.empty()) {
      const auto victim =
          std::next(model.begin(), static_cast<long>(random() % model.size()));
      ASSERT_TRUE(heap.Remove(victim->second));
      model.erase(victim);
    } else {
      const TimeNs now = random() % 1000;
      Timer* expected = nullptr;
      if (!model.empty() && model.begin()->first.first <= now) {
        expected = model.begin()->second;
        model.erase(model.begin());
      }
      ASSERT_EQ(heap.PopDue(now), expected);
    }
  }
}

}  // namespace
}  // namespace cairn::io
