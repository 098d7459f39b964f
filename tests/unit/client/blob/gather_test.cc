#include "client/blob/gather.h"

#include <algorithm>
#include <random>

#include "gtest/gtest.h"
#include "tests/support/scattered_bytes.h"

namespace cairn::client {
namespace {

using testing::Flatten;
using testing::RandomBytes;
using testing::ScatteredBytes;
using Cursor = GatherCursor<const uint8_t>;

TEST(GatherCursor, EmptyListIsDoneAtOnce) {
  EXPECT_TRUE(Cursor().done());
  EXPECT_TRUE(Cursor().current().empty());
  const ConstGather empty;
  EXPECT_TRUE(Cursor(empty).done());
}

TEST(GatherCursor, ListOfEmptySpansIsDoneAtOnce) {
  const ConstGather list(3);
  Cursor cursor(list);
  EXPECT_TRUE(cursor.done());
  ConstGather out;
  EXPECT_EQ(cursor.Take(10, 10, &out), 0u);
  EXPECT_TRUE(out.empty());
}

TEST(GatherCursor, AdvancingInAnyStepsSeesEveryByteOnceInOrder) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 200; ++round) {
    const std::string flat = RandomBytes(1 + random() % 300, &random);
    const ScatteredBytes memory(flat, 1 + random() % 20, &random);
    const ConstGather list = memory.gather();
    std::string seen;
    Cursor cursor(list);
    while (!cursor.done()) {
      const format::ConstBytes part = cursor.current();
      ASSERT_FALSE(part.empty());
      const uint64_t step = 1 + random() % part.size();
      seen += format::AsText(part.first(step));
      cursor.Advance(step);
    }
    ASSERT_EQ(seen, flat) << "round " << round;
    ASSERT_TRUE(cursor.current().empty());
  }
}

TEST(GatherCursor, TakeInAnySizesHandsOutEveryByteOnceInOrder) {
  std::mt19937_64 random(2);
  for (int round = 0; round < 200; ++round) {
    const std::string flat = RandomBytes(random() % 300, &random);
    const ScatteredBytes memory(flat, 1 + random() % 20, &random);
    const ConstGather list = memory.gather();
    std::string seen;
    Cursor cursor(list);
    while (!cursor.done()) {
      ConstGather out;
      const uint64_t wanted = 1 + random() % 50;
      const uint64_t spans_max = 1 + random() % 5;
      const uint64_t taken = cursor.Take(wanted, spans_max, &out);
      ASSERT_EQ(taken, TotalBytes(out));
      ASSERT_LE(out.size(), spans_max);
      ASSERT_TRUE(std::none_of(out.begin(), out.end(),
                               [](auto part) { return part.empty(); }));
      seen += Flatten(out);
      // Less than asked for only for one of two reasons.
      ASSERT_TRUE(taken == wanted || out.size() == spans_max || cursor.done());
      ASSERT_LE(taken, wanted);
    }
    ASSERT_EQ(seen, flat) << "round " << round;
  }
}

TEST(GatherCursor, TakeAppendsAndCountsTheSpansThatAreThere) {
  const std::string bytes = "abcdef";
  const format::ConstBytes all = format::AsBytes(bytes);
  const ConstGather list = {all.first(2), all.subspan(2, 2), all.last(2)};
  Cursor cursor(list);
  ConstGather out(1, all.first(1));
  EXPECT_EQ(cursor.Take(6, 3, &out), 4u);
  EXPECT_EQ(Flatten(out), "aabcd");
  EXPECT_EQ(cursor.Take(6, 3, &out), 0u);
  EXPECT_EQ(format::AsText(cursor.current()), "ef");
}

TEST(TotalBytes, IsTheSumOfTheSpans) {
  const std::string bytes = "abcdef";
  const format::ConstBytes all = format::AsBytes(bytes);
  EXPECT_EQ(TotalBytes(ConstGather{}), 0u);
  EXPECT_EQ(TotalBytes(ConstGather{all, {}, all.first(2)}), 8u);
}

TEST(SubGather, IsTheSameRangeOfTheFlatBytes) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 500; ++round) {
    const std::string flat = RandomBytes(1 + random() % 100, &random);
    const ScatteredBytes memory(flat, 1 + random() % 10, &random);
    const uint64_t offset = random() % flat.size();
    const uint64_t length = random() % (flat.size() - offset + 1);
    const ConstGather part = SubGather(memory.gather(), offset, length);
    ASSERT_EQ(Flatten(part), flat.substr(offset, length))
        << offset << "+" << length << " of " << flat.size();
  }
}

TEST(SubGather, EndsWithTheList) {
  const std::string bytes = "abcdef";
  const format::ConstBytes all = format::AsBytes(bytes);
  const ConstGather list = {all.first(3), all.last(3)};
  EXPECT_EQ(Flatten(SubGather(list, 4, 100)), "ef");
  EXPECT_TRUE(SubGather(list, 6, 1).empty());
  EXPECT_TRUE(SubGather(list, 100, 1).empty());
}

TEST(SubGather, NamesTheMemoryItself) {
  std::vector<uint8_t> memory = {1, 2, 3, 4};
  const MutableGather list = {format::MutableBytes(memory).first(2),
                              format::MutableBytes(memory).last(2)};
  for (const format::MutableBytes& part : SubGather(list, 1, 2)) {
    for (uint8_t& byte : part) byte = 0;
  }
  EXPECT_EQ(memory, (std::vector<uint8_t>{1, 0, 0, 4}));
}

}  // namespace
}  // namespace cairn::client
