#include "tests/sim/crash_points/plan.h"

#include <algorithm>

#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace cairn::sim {
namespace {

using ::cairn::testing::StatusIs;

TEST(CrashPlan, EachCrashReadsBackFromItsText) {
  CrashPoint point;
  point.unflushed = 2;
  point.unflushed_all = 9;
  point.commits = 1;
  point.number = 17;
  point.server = 3;
  CrashPlan plan = CrashesAt(point);
  point.events = 4;
  const CrashPlan later = CrashesAt(point);
  plan.insert(plan.end(), later.begin(), later.end());
  const absl::StatusOr<CrashPlan> read = ParseCrashPlan(ToString(plan));
  ASSERT_OK(read);
  EXPECT_EQ(*read, plan);
}

TEST(CrashPlan, TextOfNoCrashIsEmpty) {
  EXPECT_EQ(ToString(CrashPlan()), "");
  const absl::StatusOr<CrashPlan> read = ParseCrashPlan("");
  ASSERT_OK(read);
  EXPECT_TRUE(read->empty());
}

TEST(CrashPlan, OtherTextIsRefused) {
  for (const char* const text :
       {"x", "1/one/none", "1/none/one:1", "1/one:1",
        "1/one:1/some:", "1/one:1/torn", "1/one:1/none,", "1/one:1/none/2",
        "1/all/all:3", "1/all:1/all", "+1/all/all", "1+/all/all"}) {
    EXPECT_THAT(ParseCrashPlan(text),
                StatusIs(absl::StatusCode::kInvalidArgument, ""))
        << text;
  }
}

uint64_t Count(const std::vector<PlannedCrash>& all, CrashKind kind,
               SurvivorKind survivors) {
  return static_cast<uint64_t>(
      std::ranges::count_if(all, [&](const PlannedCrash& crash) {
        return crash.kind == kind && crash.survivors.kind == survivors;
      }));
}

TEST(CrashPlan, EverySubsetOfFewUnflushedChangesIsEnumerated) {
  CrashPoint point;
  point.server = 1;
  point.unflushed = 4;
  point.unflushed_all = 4;
  const std::vector<PlannedCrash> all = CrashesAt(point);
  for (const CrashKind kind : {CrashKind::kOne, CrashKind::kAll}) {
    EXPECT_EQ(Count(all, kind, SurvivorKind::kNone), 1u);
    EXPECT_EQ(Count(all, kind, SurvivorKind::kAll), 1u);
    EXPECT_EQ(Count(all, kind, SurvivorKind::kSome), 14u);
  }
  EXPECT_EQ(Count(all, CrashKind::kKill, SurvivorKind::kNone), 1u);
}

TEST(CrashPlan, ManyUnflushedChangesAreDrawn) {
  CrashPoint point;
  point.server = 1;
  point.unflushed = 5;
  point.unflushed_all = 5;
  const std::vector<PlannedCrash> all = CrashesAt(point);
  EXPECT_EQ(Count(all, CrashKind::kOne, SurvivorKind::kSome), 0u);
  EXPECT_EQ(Count(all, CrashKind::kOne, SurvivorKind::kTorn), kTornDraws);
}

TEST(CrashPlan, KillOfTheMetadataServiceKeepsCommitsInFlightOrNot) {
  CrashPoint point;
  point.commits = 1;
  point.unflushed = 1;
  point.unflushed_all = 1;
  const std::vector<PlannedCrash> all = CrashesAt(point);
  EXPECT_EQ(Count(all, CrashKind::kKill, SurvivorKind::kNone), 1u);
  EXPECT_EQ(Count(all, CrashKind::kKill, SurvivorKind::kAll), 1u);
}

}  // namespace
}  // namespace cairn::sim
