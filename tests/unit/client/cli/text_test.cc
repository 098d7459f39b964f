#include "client/cli/text.h"

#include <stdlib.h>
#include <time.h>

#include <cstdint>

#include "gtest/gtest.h"

namespace cairn::client::cli {
namespace {

constexpr uint64_t kKiB = 1024;
constexpr uint64_t kMiB = 1024 * kKiB;

TEST(HumanBytes, AreExactBelowOneKibibyte) {
  EXPECT_EQ(HumanBytes(0), "0 B");
  EXPECT_EQ(HumanBytes(1), "1 B");
  EXPECT_EQ(HumanBytes(1023), "1023 B");
}

TEST(HumanBytes, UseTheLargestUnitThatFits) {
  EXPECT_EQ(HumanBytes(kKiB), "1.00 KiB");
  EXPECT_EQ(HumanBytes(kMiB), "1.00 MiB");
  EXPECT_EQ(HumanBytes(1536 * kMiB), "1.50 GiB");
  EXPECT_EQ(HumanBytes(5 * kMiB * kMiB), "5.00 TiB");
  EXPECT_EQ(HumanBytes(3 * kKiB * kMiB * kMiB), "3.00 PiB");
}

TEST(HumanBytes, BeyondTheLargestUnitGrowInIt) {
  EXPECT_EQ(HumanBytes(UINT64_MAX), "16384.00 PiB");
}

TEST(HumanBytes, NeverRoundUpToAFullNextUnit) {
  EXPECT_EQ(HumanBytes(kMiB - 1), "1.00 MiB");
  EXPECT_EQ(HumanBytes(kKiB * kMiB - 1), "1.00 GiB");
  EXPECT_EQ(HumanBytes(1000 * kKiB), "1000.00 KiB");
}

TEST(HumanDuration, ChangesItsUnitAfterTwoOfTheNext) {
  EXPECT_EQ(HumanDuration(0), "0 s");
  EXPECT_EQ(HumanDuration(1'999), "1 s");
  EXPECT_EQ(HumanDuration(119'000), "119 s");
  EXPECT_EQ(HumanDuration(120'000), "2 min");
  EXPECT_EQ(HumanDuration(7'199'000), "119 min");
  EXPECT_EQ(HumanDuration(7'200'000), "2 h");
  EXPECT_EQ(HumanDuration(172'799'000), "47 h");
  EXPECT_EQ(HumanDuration(172'800'000), "2 d");
}

TEST(HumanRate, IsInDecimalUnits) {
  EXPECT_EQ(HumanRate(1.62e9), "1.62 GB/s");
  EXPECT_EQ(HumanRate(1e9), "1.00 GB/s");
  EXPECT_EQ(HumanRate(250e6), "250.0 MB/s");
  EXPECT_EQ(HumanRate(0), "0.0 MB/s");
}

TEST(HumanTime, IsTheLocalTimeOfDayToTheSecond) {
  ASSERT_EQ(setenv("TZ", "UTC-2", 1), 0);  // Two hours ahead.
  tzset();
  EXPECT_EQ(HumanTime(0), "1970-01-01 02:00:00");
  EXPECT_EQ(HumanTime(1'000'000'000'999'999'999), "2001-09-09 03:46:40");
  ASSERT_EQ(unsetenv("TZ"), 0);
  tzset();
}

TEST(ShapeText, ListsTheDimensions) {
  EXPECT_EQ(ShapeText({}), "[]");
  EXPECT_EQ(ShapeText({7}), "[7]");
  EXPECT_EQ(ShapeText({4096, 128}), "[4096, 128]");
}

std::string Printed(const std::vector<std::vector<std::string>>& rows) {
  ::testing::internal::CaptureStdout();
  PrintTable(rows);
  return ::testing::internal::GetCapturedStdout();
}

TEST(PrintTable, LinesUpColumnsAndAlignsMarkedOnesRight) {
  EXPECT_EQ(Printed({{"name", ">size", "state"},
                     {"a", "1", "up"},
                     {"longer", "123456", "down"}}),
            "name      size  state\n"
            "a            1  up\n"
            "longer  123456  down\n");
}

TEST(PrintTable, LeavesNoSpacesAtTheEndsOfLines) {
  EXPECT_EQ(Printed({{"a", "long heading"}, {"b", ""}}),
            "a  long heading\nb\n");
}

TEST(PrintTable, MarkInACellIsText) {
  EXPECT_EQ(Printed({{">n"}, {">1"}}), " n\n>1\n");
}

TEST(PrintTable, ShortRowsAreLeftOpenAndLongOnesCut) {
  EXPECT_EQ(Printed({{"a", "b"}, {"1"}, {"1", "2", "3"}}), "a  b\n1\n1  2\n");
}

TEST(PrintTable, NoRowsPrintNothing) { EXPECT_EQ(Printed({}), ""); }

}  // namespace
}  // namespace cairn::client::cli
