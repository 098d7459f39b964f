#include "client/core/target_speeds.h"

#include "client/core/limits.h"
#include "gtest/gtest.h"

namespace cairn::client {
namespace {

using format::TargetId;
using io::kMillisecond;
using io::kSecond;
using io::TimeNs;

constexpr TimeNs kMost = 20 * kSecond;

void NoteAll(TargetSpeeds* speeds, uint32_t targets, TimeNs took) {
  for (uint32_t t = 1; t <= targets; ++t) {
    speeds->Note(CallKind::kPut, TargetId(t), took);
  }
}

TEST(TargetSpeedsTest, NothingIsSlowWhileFewTargetsAreKnown) {
  TargetSpeeds speeds;
  NoteAll(&speeds, kSlowPeersMin - 1, kMillisecond);
  EXPECT_EQ(speeds.SlowAfter(CallKind::kPut, kMost), kMost);
  NoteAll(&speeds, kSlowPeersMin, kMillisecond);
  EXPECT_EQ(speeds.SlowAfter(CallKind::kPut, kMost), kSlowAfterMin);
}

TEST(TargetSpeedsTest, SlowIsWhatTakesManyTimesAsLongAsTheOthers) {
  TargetSpeeds speeds;
  NoteAll(&speeds, 5, 200 * kMillisecond);
  EXPECT_EQ(speeds.SlowAfter(CallKind::kPut, kMost),
            kSlowFactor * 200 * kMillisecond);
  EXPECT_EQ(speeds.SlowAfter(CallKind::kPut, 300 * kMillisecond),
            300 * kMillisecond);
}

TEST(TargetSpeedsTest, OneSlowTargetDoesNotChangeWhatSlowIs) {
  TargetSpeeds speeds;
  NoteAll(&speeds, 5, 200 * kMillisecond);
  for (uint32_t i = 0; i < 10 * kNotesPerMedian; ++i) {
    speeds.Note(CallKind::kPut, TargetId(3), 30 * kSecond);
  }
  EXPECT_EQ(speeds.SlowAfter(CallKind::kPut, kMost),
            kSlowFactor * 200 * kMillisecond);
}

TEST(TargetSpeedsTest, WhenAllGetSlowerThatIsNormal) {
  TargetSpeeds speeds;
  NoteAll(&speeds, 5, 200 * kMillisecond);
  const TimeNs before = speeds.SlowAfter(CallKind::kPut, kMost);
  for (uint32_t i = 0; i < 100; ++i) NoteAll(&speeds, 5, 900 * kMillisecond);
  EXPECT_GT(speeds.SlowAfter(CallKind::kPut, kMost), 3 * before);
}

TEST(TargetSpeedsTest, GetsAndPutsAreApart) {
  TargetSpeeds speeds;
  NoteAll(&speeds, 5, 200 * kMillisecond);
  EXPECT_EQ(speeds.SlowAfter(CallKind::kGet, kMost), kMost);
}

}  // namespace
}  // namespace cairn::client
