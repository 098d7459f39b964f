#include "format/erasure/reed_solomon.h"

#include <algorithm>
#include <bit>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/status_matchers.h"

namespace cairn::format {
namespace {

using ::cairn::testing::StatusIs;

using Bytes = std::vector<uint8_t>;

// GF(2^8) by the book, modulo x^8 + x^4 + x^3 + x^2 + 1: the code of the
// format, without ISA-L.
uint8_t SlowMul(uint8_t a, uint8_t b) {
  uint32_t product = 0;
  for (uint32_t bit = 0; bit < 8; ++bit) {
    if ((b >> bit) & 1) product ^= uint32_t{a} << bit;
  }
  for (uint32_t bit = 15; bit >= 8; --bit) {
    if ((product >> bit) & 1) product ^= 0x11du << (bit - 8);
  }
  return static_cast<uint8_t>(product);
}

uint8_t SlowInverse(uint8_t a) {
  for (uint32_t b = 1; b < 256; ++b) {
    if (SlowMul(a, static_cast<uint8_t>(b)) == 1)
      return static_cast<uint8_t>(b);
  }
  return 0;
}

// docs/format/reed-solomon.md: row i (from k on), column j is 1 / (i xor j).
Bytes SlowParity(uint32_t row, const std::vector<Bytes>& data) {
  Bytes parity(data[0].size(), 0);
  for (uint32_t j = 0; j < data.size(); ++j) {
    const uint8_t coefficient = SlowInverse(static_cast<uint8_t>(row ^ j));
    for (size_t at = 0; at < parity.size(); ++at) {
      parity[at] ^= SlowMul(coefficient, data[j][at]);
    }
  }
  return parity;
}

struct Shape {
  uint32_t k;
  uint32_t m;
};
constexpr Shape kSmallShapes[] = {{1, 0}, {1, 1}, {1, 2}, {2, 1}, {3, 0},
                                  {4, 2}, {5, 1}, {8, 2}, {8, 3}, {10, 4}};
constexpr Shape kShapes[] = {{1, 0}, {1, 1}, {1, 2}, {2, 1},  {3, 0},  {4, 2},
                             {5, 1}, {8, 2}, {8, 3}, {10, 4}, {16, 4}, {32, 8}};
// Around the widths of the vector code, and its tails.
constexpr uint64_t kLengths[] = {0,   1,   2,   7,   15,   16,   17,  31,
                                 32,  33,  63,  64,  65,   96,   127, 128,
                                 129, 255, 256, 257, 1000, 4096, 4097};

std::vector<const uint8_t*> ConstPointers(const std::vector<Bytes>& shards) {
  std::vector<const uint8_t*> pointers;
  for (const Bytes& shard : shards) pointers.push_back(shard.data());
  return pointers;
}

std::vector<uint8_t*> MutablePointers(std::vector<Bytes>* shards) {
  std::vector<uint8_t*> pointers;
  for (Bytes& shard : *shards) pointers.push_back(shard.data());
  return pointers;
}

std::vector<Bytes> RandomShards(uint32_t count, uint64_t length,
                                std::mt19937_64* random) {
  // One byte more than the code may touch, so that empty shards have a
  // pointer, and writes past the end show (asan, and GuardBytes below).
  std::vector<Bytes> shards(count, Bytes(length + 1));
  for (Bytes& shard : shards) {
    for (uint8_t& byte : shard) byte = static_cast<uint8_t>((*random)());
  }
  return shards;
}

std::vector<Bytes> EncodeAll(const ReedSolomon& code,
                             const std::vector<Bytes>& data, uint64_t length) {
  std::vector<Bytes> parity(code.parity_shards(), Bytes(length + 1, 0xa5));
  code.Encode(ConstPointers(data), MutablePointers(&parity), length);
  return parity;
}

class ReedSolomonShapes : public ::testing::TestWithParam<Shape> {
 protected:
  std::mt19937_64 random_{GetParam().k * 100 + GetParam().m};
};

TEST_P(ReedSolomonShapes, ParityIsThatOfTheBruteForceField) {
  const auto [k, m] = GetParam();
  const ReedSolomon code(k, m);
  for (const uint64_t length : kLengths) {
    SCOPED_TRACE(length);
    const std::vector<Bytes> data = RandomShards(k, length, &random_);
    const std::vector<Bytes> parity = EncodeAll(code, data, length);
    for (uint32_t i = 0; i < m; ++i) {
      Bytes expected = SlowParity(k + i, data);
      expected[length] = 0xa5;  // Not a byte of the shard: left alone.
      ASSERT_EQ(parity[i], expected) << "parity " << i;
    }
  }
}

TEST_P(ReedSolomonShapes, UpdateOfEachDataShardInAnyOrderEqualsEncode) {
  const auto [k, m] = GetParam();
  const ReedSolomon code(k, m);
  for (const uint64_t length : kLengths) {
    SCOPED_TRACE(length);
    const std::vector<Bytes> data = RandomShards(k, length, &random_);
    std::vector<Bytes> parity(m, Bytes(length + 1, 0));
    for (Bytes& shard : parity) shard[length] = 0xa5;
    std::vector<uint32_t> order;
    for (uint32_t j = 0; j < k; ++j) order.push_back(j);
    std::shuffle(order.begin(), order.end(), random_);
    for (const uint32_t j : order) {
      code.EncodeUpdate(j, data[j].data(), MutablePointers(&parity), length);
    }
    ASSERT_EQ(parity, EncodeAll(code, data, length));
  }
}

TEST_P(ReedSolomonShapes, SlicesEncodeToThePartsOfTheWhole) {
  const auto [k, m] = GetParam();
  const ReedSolomon code(k, m);
  constexpr uint64_t kLength = 1000;
  const std::vector<Bytes> data = RandomShards(k, kLength, &random_);
  const std::vector<Bytes> whole = EncodeAll(code, data, kLength);
  std::vector<Bytes> parity(m, Bytes(kLength + 1, 0xa5));
  for (uint64_t at = 0; at < kLength; at += 333) {
    std::vector<const uint8_t*> from = ConstPointers(data);
    std::vector<uint8_t*> to = MutablePointers(&parity);
    for (const uint8_t*& pointer : from) pointer += at;
    for (uint8_t*& pointer : to) pointer += at;
    code.Encode(from, to, std::min<uint64_t>(333, kLength - at));
  }
  EXPECT_EQ(parity, whole);
}

// Loses the shards of `lost` (a bit each) and rebuilds them.
void ExpectRebuilt(const ReedSolomon& code, const std::vector<Bytes>& shards,
                   uint64_t lost, uint64_t length) {
  std::vector<const uint8_t*> present = ConstPointers(shards);
  std::vector<uint32_t> wanted;
  for (uint32_t i = 0; i < present.size(); ++i) {
    if (((lost >> i) & 1) == 0) continue;
    present[i] = nullptr;
    wanted.push_back(i);
  }
  std::vector<Bytes> out(wanted.size(), Bytes(length + 1, 0x5a));
  ASSERT_OK(code.Decode(present, wanted, MutablePointers(&out), length));
  for (size_t i = 0; i < wanted.size(); ++i) {
    Bytes expected = shards[wanted[i]];
    expected[length] = 0x5a;
    ASSERT_EQ(out[i], expected) << "shard " << wanted[i] << ", lost " << lost;
  }
}

// The shapes whose patterns can all be tried.
class SmallReedSolomonShapes : public ReedSolomonShapes {};

TEST_P(SmallReedSolomonShapes, EveryLossOfUpToMShardsIsRebuilt) {
  const auto [k, m] = GetParam();
  const ReedSolomon code(k, m);
  for (const uint64_t length : {uint64_t{1}, uint64_t{77}, uint64_t{300}}) {
    std::vector<Bytes> shards = RandomShards(k, length, &random_);
    for (Bytes& parity : EncodeAll(code, shards, length)) {
      shards.push_back(std::move(parity));
    }
    for (uint64_t lost = 0; lost < uint64_t{1} << (k + m); ++lost) {
      if (static_cast<uint32_t>(std::popcount(lost)) > m) continue;
      ASSERT_NO_FATAL_FAILURE(ExpectRebuilt(code, shards, lost, length));
    }
  }
}

TEST_P(ReedSolomonShapes, DrawnLossesOfExactlyMShardsAreRebuilt) {
  const auto [k, m] = GetParam();
  const ReedSolomon code(k, m);
  std::vector<Bytes> shards = RandomShards(k, 129, &random_);
  for (Bytes& parity : EncodeAll(code, shards, 129)) {
    shards.push_back(std::move(parity));
  }
  for (uint32_t trial = 0; trial < 200; ++trial) {
    uint64_t lost = 0;
    while (static_cast<uint32_t>(std::popcount(lost)) < m) {
      lost |= uint64_t{1} << (random_() % (k + m));
    }
    ASSERT_NO_FATAL_FAILURE(ExpectRebuilt(code, shards, lost, 129));
  }
}

TEST_P(ReedSolomonShapes, FewerThanKShardsAreDataLoss) {
  const auto [k, m] = GetParam();
  const ReedSolomon code(k, m);
  const std::vector<Bytes> shards = RandomShards(k + m, 64, &random_);
  std::vector<const uint8_t*> present = ConstPointers(shards);
  for (uint32_t i = 0; i <= m; ++i) present[i] = nullptr;
  const std::vector<uint32_t> wanted = {0};
  std::vector<Bytes> out(1, Bytes(64, 0x5a));
  EXPECT_THAT(code.Decode(present, wanted, MutablePointers(&out), 64),
              StatusIs(absl::StatusCode::kDataLoss,
                       "only " + std::to_string(k - 1) + " of " +
                           std::to_string(k + m) + " shards"));
  EXPECT_EQ(out[0], Bytes(64, 0x5a));  // Never invented bytes.
}

std::string ShapeName(const ::testing::TestParamInfo<Shape>& info) {
  return "Rs" + std::to_string(info.param.k) + "Plus" +
         std::to_string(info.param.m);
}
INSTANTIATE_TEST_SUITE_P(Shapes, ReedSolomonShapes,
                         ::testing::ValuesIn(kShapes), ShapeName);
INSTANTIATE_TEST_SUITE_P(Shapes, SmallReedSolomonShapes,
                         ::testing::ValuesIn(kSmallShapes), ShapeName);

TEST(ReedSolomon, AShardThatIsPresentCanBeAskedForToo) {
  std::mt19937_64 random(1);
  const ReedSolomon code(4, 2);
  std::vector<Bytes> shards = RandomShards(4, 100, &random);
  for (Bytes& parity : EncodeAll(code, shards, 100)) {
    shards.push_back(std::move(parity));
  }
  const std::vector<uint32_t> wanted = {5, 0, 5};  // 5 is present but unused.
  std::vector<Bytes> out(3, Bytes(101));
  ASSERT_OK(
      code.Decode(ConstPointers(shards), wanted, MutablePointers(&out), 100));
  for (size_t i = 0; i < 3; ++i) {
    out[i][100] = shards[wanted[i]][100];
    EXPECT_EQ(out[i], shards[wanted[i]]);
  }
}

TEST(ReedSolomon, OnlyTheFirstKPresentShardsAreRead) {
  std::mt19937_64 random(2);
  const ReedSolomon code(2, 2);
  std::vector<Bytes> shards = RandomShards(2, 50, &random);
  for (Bytes& parity : EncodeAll(code, shards, 50)) {
    shards.push_back(std::move(parity));
  }
  const Bytes lost = shards[1];
  shards[3].assign(51, 0xff);  // Damaged, but after two good ones.
  std::vector<const uint8_t*> present = ConstPointers(shards);
  present[1] = nullptr;
  const std::vector<uint32_t> wanted = {1};
  std::vector<Bytes> out(1, Bytes(51, lost[50]));
  ASSERT_OK(code.Decode(present, wanted, MutablePointers(&out), 50));
  EXPECT_EQ(out[0], lost);
}

// Bytes on disks must decode for ever: the worked example of the document.
TEST(ReedSolomon, ParityOfTheWorkedExampleNeverChanges) {
  const ReedSolomon code(2, 2);
  const std::vector<Bytes> data = {{0x01, 0x80, 0xff}, {0x02, 0x40, 0x00}};
  std::vector<Bytes> parity(2, Bytes(3));
  code.Encode(ConstPointers(data), MutablePointers(&parity), 3);
  EXPECT_EQ(parity[0], Bytes({0x7b, 0x8b, 0xf1}));
  EXPECT_EQ(parity[1], Bytes({0xf5, 0xab, 0x55}));
}

TEST(ReedSolomonDeath, ShapesOverTheLimitsAndWrongCountsAreCaught) {
  EXPECT_DEATH(ReedSolomon(0, 1), "check failed");
  EXPECT_DEATH(ReedSolomon(kDataShardsMax + 1, 1), "check failed");
  EXPECT_DEATH(ReedSolomon(1, kParityShardsMax + 1), "check failed");
  const ReedSolomon code(2, 1);
  const std::vector<Bytes> one(1, Bytes(8));
  std::vector<Bytes> parity(1, Bytes(8));
  EXPECT_DEATH(code.Encode(ConstPointers(one), MutablePointers(&parity), 8),
               "check failed");
  EXPECT_DEATH(code.EncodeUpdate(2, one[0].data(), MutablePointers(&parity), 8),
               "check failed");
}

}  // namespace
}  // namespace cairn::format
