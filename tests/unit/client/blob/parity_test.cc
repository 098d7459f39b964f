#include "client/blob/parity.h"

#include <algorithm>
#include <memory>
#include <random>
#include <string>

#include "client/core/limits.h"
#include "format/erasure/reed_solomon.h"
#include "gtest/gtest.h"
#include "tests/support/scattered_bytes.h"

namespace cairn::client {
namespace {

using format::Scheme;
using testing::RandomBytes;
using testing::ScatteredBytes;

constexpr char kGuard = '\x5a';

// What the code makes of flat copies, padded with zeros.
std::vector<std::string> FlatParity(const Scheme& scheme,
                                    std::vector<std::string> shards,
                                    uint64_t bytes) {
  std::vector<std::string> parity(scheme.parity_shards,
                                  std::string(bytes, '\0'));
  std::vector<const uint8_t*> data;
  for (std::string& shard : shards) {
    shard.resize(bytes, '\0');
    data.push_back(reinterpret_cast<const uint8_t*>(shard.data()));
  }
  std::vector<uint8_t*> out;
  for (std::string& shard : parity) {
    out.push_back(reinterpret_cast<uint8_t*>(shard.data()));
  }
  const format::ReedSolomon code(scheme.data_shards, scheme.parity_shards);
  code.Encode(data, out, bytes);
  return parity;
}

// Encodes scattered copies of `shards`; checks that nothing behind the parity
// is touched.
std::vector<std::string> GatheredParity(const Scheme& scheme,
                                        const std::vector<std::string>& shards,
                                        uint64_t bytes, uint64_t pieces,
                                        std::mt19937_64* random) {
  std::vector<std::unique_ptr<ScatteredBytes>> memory;
  std::vector<ConstGather> gathers;
  for (const std::string& shard : shards) {
    memory.push_back(std::make_unique<ScatteredBytes>(
        shard, 1 + (*random)() % pieces, random));
    gathers.push_back(memory.back()->gather());
  }
  std::vector<std::string> parity(scheme.parity_shards,
                                  std::string(bytes + 1, kGuard));
  std::vector<uint8_t*> out;
  for (std::string& shard : parity) {
    out.push_back(reinterpret_cast<uint8_t*>(shard.data()));
  }
  EncodeParity(scheme, gathers, out, bytes);
  for (std::string& shard : parity) {
    EXPECT_EQ(shard.back(), kGuard);
    shard.pop_back();
  }
  return parity;
}

Scheme RandomScheme(std::mt19937_64* random) {
  Scheme scheme;
  scheme.kind = format::SchemeKind::kReedSolomon;
  scheme.data_shards = static_cast<uint32_t>(1 + (*random)() % 10);
  scheme.parity_shards = static_cast<uint32_t>((*random)() % 5);
  return scheme;
}

void ExpectSameAsFlat(const Scheme& scheme,
                      const std::vector<std::string>& shards, uint64_t pieces,
                      std::mt19937_64* random) {
  uint64_t bytes = 0;
  for (const std::string& shard : shards) {
    bytes = std::max<uint64_t>(bytes, shard.size());
  }
  const auto expected = FlatParity(scheme, shards, bytes);
  const auto made = GatheredParity(scheme, shards, bytes, pieces, random);
  ASSERT_EQ(made.size(), expected.size());
  for (size_t i = 0; i < made.size(); ++i) {
    ASSERT_TRUE(made[i] == expected[i])
        << "parity " << i << " of " << scheme.data_shards << "+"
        << scheme.parity_shards << ", " << bytes << " bytes";
  }
}

TEST(EncodeParity, ScatteredShardsOfOneLengthEncodeAsFlatOnes) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 60; ++round) {
    const Scheme scheme = RandomScheme(&random);
    const uint64_t bytes = 1 + random() % 5000;
    std::vector<std::string> shards;
    for (uint32_t i = 0; i < scheme.data_shards; ++i) {
      shards.push_back(RandomBytes(bytes, &random));
    }
    ExpectSameAsFlat(scheme, shards, 30, &random);
  }
}

TEST(EncodeParity, ShortLastShardAndMissingOnesCountAsZeros) {
  std::mt19937_64 random(2);
  for (int round = 0; round < 60; ++round) {
    const Scheme scheme = RandomScheme(&random);
    const uint64_t full = random() % scheme.data_shards;
    const uint64_t bytes = 1 + random() % 5000;
    std::vector<std::string> shards(scheme.data_shards);
    for (uint64_t i = 0; i < full; ++i) shards[i] = RandomBytes(bytes, &random);
    shards[full] = RandomBytes(1 + random() % bytes, &random);
    ExpectSameAsFlat(scheme, shards, 10, &random);
  }
}

TEST(EncodeParity, ShardsOfAnyLengthsEncodeAsPaddedOnes) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 60; ++round) {
    const Scheme scheme = RandomScheme(&random);
    std::vector<std::string> shards;
    for (uint32_t i = 0; i < scheme.data_shards; ++i) {
      shards.push_back(RandomBytes(random() % 3000, &random));
    }
    ExpectSameAsFlat(scheme, shards, 10, &random);
  }
}

TEST(EncodeParity, ShardsLongerThanAColumnEncodeAsFlatOnes) {
  std::mt19937_64 random(4);
  for (const uint64_t bytes :
       {kEncodeColumnBytes - 1, kEncodeColumnBytes, kEncodeColumnBytes + 1,
        5 * kEncodeColumnBytes + 12345}) {
    const Scheme scheme{format::SchemeKind::kReedSolomon, 4, 2};
    // The last is empty all the way, over several columns.
    const std::vector<std::string> shards = {
        RandomBytes(bytes, &random), RandomBytes(bytes, &random),
        RandomBytes(bytes / 2, &random), ""};
    ExpectSameAsFlat(scheme, shards, 1, &random);
    ExpectSameAsFlat(scheme, shards, 7, &random);
  }
}

TEST(EncodeParity, WithoutDataThereIsNothingToMake) {
  const Scheme scheme{format::SchemeKind::kReedSolomon, 2, 1};
  uint8_t byte = 7;
  uint8_t* const parity[] = {&byte};
  EncodeParity(scheme, {{}, {}}, parity, 0);
  EXPECT_EQ(byte, 7);
}

TEST(EncodeParity, OtherNumberOfShardsThanTheSchemeHasIsABug) {
  const Scheme scheme{format::SchemeKind::kReedSolomon, 2, 1};
  uint8_t byte = 7;
  uint8_t* const parity[] = {&byte};
  EXPECT_DEATH(EncodeParity(scheme, {{}}, parity, 0), "data_shards");
  EXPECT_DEATH(EncodeParity(scheme, {{}, {}}, {}, 0), "parity_shards");
}

}  // namespace
}  // namespace cairn::client
