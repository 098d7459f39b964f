#include "client/checkpoint/run_reader.h"

#include <random>
#include <vector>

#include "client/core/limits.h"
#include "format/base/limits.h"
#include "gtest/gtest.h"

namespace cairn::client {
namespace {

constexpr uint64_t kLong = kGatherRunBytes;
constexpr uint64_t kShort = 100;

// Places runs in a file one after the other.
class Runs {
 public:
  Runs& Add(uint64_t length, uint64_t gap = 0) {
    end_ += gap;
    runs_.push_back({end_, length, nullptr});
    end_ += length;
    return *this;
  }
  std::vector<RangeRead> Group() const { return GroupRuns(runs_); }
  const std::vector<LoadRun>& runs() const { return runs_; }

 private:
  uint64_t end_ = 1000;
  std::vector<LoadRun> runs_;
};

TEST(GroupRuns, NothingIsNoRanges) { EXPECT_TRUE(GroupRuns({}).empty()); }

TEST(GroupRuns, SingleRunIsReadExactly) {
  for (const uint64_t length : {uint64_t{1}, kShort, kLong, 100 * kLong}) {
    const std::vector<RangeRead> ranges = Runs().Add(length).Group();
    ASSERT_EQ(ranges.size(), 1u);
    EXPECT_FALSE(ranges[0].scatter);
    EXPECT_EQ(ranges[0].file_offset, 1000u);
    EXPECT_EQ(ranges[0].length, length);
  }
}

TEST(GroupRuns, LongRunsThatTouchAreOneExactRange) {
  const std::vector<RangeRead> ranges =
      Runs().Add(kLong).Add(5 * format::kChunkBytesMax).Add(kLong).Group();
  ASSERT_EQ(ranges.size(), 1u);
  EXPECT_FALSE(ranges[0].scatter);
  EXPECT_EQ(ranges[0].runs.size(), 3u);
  EXPECT_EQ(ranges[0].length, 2 * kLong + 5 * format::kChunkBytesMax);
}

TEST(GroupRuns, LongRunsWithAGapAreReadApart) {
  const std::vector<RangeRead> ranges = Runs().Add(kLong).Add(kLong, 1).Group();
  ASSERT_EQ(ranges.size(), 2u);
  EXPECT_FALSE(ranges[0].scatter);
  EXPECT_FALSE(ranges[1].scatter);
}

TEST(GroupRuns, ShortRunsCloseTogetherAreScatteredFromOneRange) {
  const std::vector<RangeRead> ranges =
      Runs().Add(kShort).Add(kShort, kScatterGapBytes - 1).Add(kShort).Group();
  ASSERT_EQ(ranges.size(), 1u);
  EXPECT_TRUE(ranges[0].scatter);
  EXPECT_EQ(ranges[0].runs.size(), 3u);
  EXPECT_EQ(ranges[0].length, 3 * kShort + kScatterGapBytes - 1);
}

TEST(GroupRuns, ShortRunsFarApartAreReadApart) {
  const std::vector<RangeRead> ranges =
      Runs().Add(kShort).Add(kShort, kScatterGapBytes).Group();
  ASSERT_EQ(ranges.size(), 2u);
  EXPECT_FALSE(ranges[0].scatter);
  EXPECT_FALSE(ranges[1].scatter);
}

TEST(GroupRuns, ScatteredRangeFitsABuffer) {
  Runs runs;
  const uint64_t step = kScatterGapBytes / 2;
  for (uint64_t at = 0; at < 3 * format::kChunkBytesMax; at += step) {
    runs.Add(kShort, step - kShort);
  }
  const std::vector<RangeRead> ranges = runs.Group();
  EXPECT_EQ(ranges.size(), 3u);
  for (const RangeRead& range : ranges) {
    EXPECT_LE(range.length, format::kChunkBytesMax);
  }
}

TEST(GroupRuns, LongRunNextToShortOnesIsNotScattered) {
  for (const uint64_t gap : {uint64_t{0}, uint64_t{10}}) {
    const std::vector<RangeRead> ranges = Runs()
                                              .Add(kLong)
                                              .Add(kShort)
                                              .Add(kShort, gap)
                                              .Add(kShort, gap)
                                              .Add(kLong)
                                              .Group();
    for (const RangeRead& range : ranges) {
      for (const LoadRun& run : range.runs) {
        EXPECT_TRUE(!range.scatter || run.length < kLong) << "gap " << gap;
      }
    }
  }
}

TEST(GroupRuns, TheSameBytesForTwoViewsAreReadTwice) {
  const std::vector<LoadRun> twice = {{0, kShort, nullptr},
                                      {0, kShort, nullptr}};
  EXPECT_EQ(GroupRuns(twice).size(), 2u);
  const std::vector<LoadRun> overlap = {{0, kLong, nullptr},
                                        {10, kLong, nullptr}};
  EXPECT_EQ(GroupRuns(overlap).size(), 2u);
}

void ExpectExact(const RangeRead& range) {
  uint64_t end = range.file_offset;
  for (const LoadRun& run : range.runs) {
    ASSERT_EQ(run.file_offset, end);
    end += run.length;
  }
  ASSERT_EQ(end, range.file_offset + range.length);
}

void ExpectScatterable(const RangeRead& range) {
  uint64_t end = range.file_offset;
  ASSERT_LE(range.length, format::kChunkBytesMax);
  for (const LoadRun& run : range.runs) {
    ASSERT_LT(run.length, kGatherRunBytes);
    ASSERT_GE(run.file_offset, end);
    ASSERT_LT(run.file_offset - end, kScatterGapBytes);
    end = run.file_offset + run.length;
  }
  ASSERT_EQ(end, range.file_offset + range.length);
}

TEST(GroupRuns, EveryRunIsInOneRangeInOrderAndRangesKeepTheirRules) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 200; ++round) {
    Runs runs;
    const uint64_t longest = round % 2 == 0 ? kLong : 4 * kLong;
    for (int i = 0; i < 300; ++i) {
      const uint64_t gap =
          random() % 2 == 0 ? 0 : random() % (kScatterGapBytes * 3 / 2);
      runs.Add(1 + random() % longest, gap);
    }
    size_t next = 0;
    for (const RangeRead& range : runs.Group()) {
      ASSERT_FALSE(range.runs.empty());
      for (const LoadRun& run : range.runs) {
        ASSERT_EQ(run.file_offset, runs.runs()[next].file_offset);
        ASSERT_EQ(run.length, runs.runs()[next].length);
        ++next;
      }
      if (range.scatter) {
        ExpectScatterable(range);
      } else {
        ExpectExact(range);
      }
    }
    ASSERT_EQ(next, runs.runs().size());
  }
}

}  // namespace
}  // namespace cairn::client
