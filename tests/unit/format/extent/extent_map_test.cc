#include "format/extent/extent_map.h"

#include <algorithm>
#include <map>
#include <ostream>
#include <random>
#include <utility>
#include <vector>

#include "format/base/limits.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace cairn::format {

void PrintTo(const Extent& extent, std::ostream* out) {
  *out << "[" << extent.file_offset << ", " << extent.file_end() << ") of blob "
       << extent.blob.value << " at " << extent.blob_offset;
}

namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr BlobId kA{1};
constexpr BlobId kB{2};

// Replays a change as a transaction does: deletes, then puts.
void Replay(const ExtentMap::Change& change,
            std::map<uint64_t, Extent>* records) {
  for (const Extent& extent : change.removed) {
    const auto found = records->find(extent.file_offset);
    ASSERT_NE(found, records->end()) << "removes what was never stored";
    ASSERT_EQ(found->second, extent);
    records->erase(found);
  }
  for (const Extent& extent : change.added) {
    ASSERT_TRUE(records->emplace(extent.file_offset, extent).second);
  }
}

// A file as the byte array that it stands for: the blob and offset of each.
class Model {
 public:
  using Byte = std::pair<uint64_t, uint64_t>;  // Blob 0: a hole.

  void Write(const Extent& extent) {
    if (bytes_.size() < extent.file_end()) bytes_.resize(extent.file_end());
    for (uint64_t i = 0; i < extent.length; ++i) {
      bytes_[extent.file_offset + i] = {extent.blob.value,
                                        extent.blob_offset + i};
    }
  }
  void Truncate(uint64_t size) {
    if (size < bytes_.size()) bytes_.resize(size);
  }

  // What Find() must answer: maximal runs, clipped to the range.
  std::vector<Extent> Find(uint64_t offset, uint64_t length) const {
    std::vector<Extent> runs;
    const uint64_t end = std::min<uint64_t>(offset + length, bytes_.size());
    for (uint64_t at = offset; at < end; ++at) {
      const auto [blob, blob_offset] = bytes_[at];
      if (blob == 0) continue;
      const Extent one{at, 1, BlobId(blob), blob_offset};
      if (!runs.empty() && Continues(runs.back(), one)) {
        ++runs.back().length;
      } else {
        runs.push_back(one);
      }
    }
    return runs;
  }

 private:
  std::vector<Byte> bytes_;
};

// Small numbers, so that overlaps, exact touches and continuations are common.
Extent DrawExtent(std::mt19937_64* random) {
  const uint64_t file_offset = (*random)() % 200;
  const uint64_t blob = 1 + (*random)() % 2;
  // Half of the time the blob offset follows the file offset, so that pieces
  // written apart continue each other.
  const uint64_t blob_offset =
      (*random)() % 2 == 0 ? file_offset + 1000 * blob : (*random)() % 50;
  return {file_offset, 1 + (*random)() % 40, BlobId(blob), blob_offset};
}

void ExpectInvariants(const ExtentMap& map) {
  const std::vector<Extent> all = map.All();
  for (size_t i = 0; i < all.size(); ++i) {
    ASSERT_GT(all[i].length, 0u);
    if (i == 0) continue;
    ASSERT_LE(all[i - 1].file_end(), all[i].file_offset);
    ASSERT_FALSE(Continues(all[i - 1], all[i]));
  }
}

TEST(ExtentMap, IsTheByteArrayUnderRandomWritesAndTruncates) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    std::mt19937_64 random(seed);
    ExtentMap map;
    Model model;
    std::map<uint64_t, Extent> records;
    for (uint32_t step = 0; step < 200; ++step) {
      SCOPED_TRACE(::testing::Message() << "seed " << seed << " step " << step);
      ExtentMap::Change change;
      if (random() % 12 == 0) {
        const uint64_t size = random() % 240;
        change = map.Truncate(size);
        model.Truncate(size);
      } else {
        const Extent extent = DrawExtent(&random);
        change = map.Write(extent);
        model.Write(extent);
      }
      ASSERT_NO_FATAL_FAILURE(Replay(change, &records));
      ASSERT_NO_FATAL_FAILURE(ExpectInvariants(map));
      ASSERT_EQ(map.All(), model.Find(0, 1000));
      ASSERT_EQ(map.count(), records.size());
      const uint64_t offset = random() % 250;
      const uint64_t length = random() % 100;
      ASSERT_EQ(map.Find(offset, length), model.Find(offset, length));
      std::vector<Extent> stored;
      for (const auto& [key, extent] : records) stored.push_back(extent);
      ASSERT_EQ(map.All(), stored);
    }
  }
}

// No record may be both removed and added: a transaction would write it anew.
TEST(ExtentMap, ChangesNeverNameAnUnchangedRecord) {
  std::mt19937_64 random(99);
  ExtentMap map;
  for (uint32_t step = 0; step < 2000; ++step) {
    const ExtentMap::Change change = map.Write(DrawExtent(&random));
    for (const Extent& extent : change.removed) {
      ASSERT_EQ(std::count(change.added.begin(), change.added.end(), extent), 0)
          << "step " << step;
    }
  }
}

TEST(ExtentMap, AOneTerabyteFileWrittenInOrderStaysOneRecord) {
  constexpr uint64_t kStep = 16 * kMiB;
  constexpr uint64_t kSize = 1024 * kGiB;
  ExtentMap map;
  for (uint64_t at = 0; at < kSize; at += kStep) {
    const ExtentMap::Change change = map.Write({at, kStep, kA, at});
    ASSERT_EQ(change.removed.size(), at == 0 ? 0u : 1u);
    ASSERT_THAT(change.added, ElementsAre(Extent{0, at + kStep, kA, 0}));
  }
  EXPECT_THAT(map.All(), ElementsAre(Extent{0, kSize, kA, 0}));
}

TEST(ExtentMap, PiecesWrittenInReverseOrderJoinToOne) {
  ExtentMap map;
  map.Write({20, 10, kA, 120});
  map.Write({0, 10, kA, 100});
  const ExtentMap::Change change = map.Write({10, 10, kA, 110});
  EXPECT_THAT(change.removed,
              ElementsAre(Extent{0, 10, kA, 100}, Extent{20, 10, kA, 120}));
  EXPECT_THAT(change.added, ElementsAre(Extent{0, 30, kA, 100}));
  EXPECT_EQ(map.count(), 1u);
}

TEST(ExtentMap, NeighboursOfOtherBlobsOrBlobOffsetsStayApart) {
  ExtentMap map;
  map.Write({0, 10, kA, 0});
  map.Write({10, 10, kB, 10});
  map.Write({20, 10, kB, 999});
  EXPECT_EQ(map.count(), 3u);
}

TEST(ExtentMap, AWriteInsideAnExtentCutsItInTwo) {
  ExtentMap map;
  map.Write({0, 100, kA, 1000});
  const ExtentMap::Change change = map.Write({40, 20, kB, 7});
  EXPECT_THAT(change.removed, ElementsAre(Extent{0, 100, kA, 1000}));
  EXPECT_THAT(change.added,
              ElementsAre(Extent{0, 40, kA, 1000}, Extent{40, 20, kB, 7},
                          Extent{60, 40, kA, 1060}));
}

TEST(ExtentMap, RewritingTheSameBytesIsNoChange) {
  ExtentMap map;
  map.Write({0, 100, kA, 1000});
  const ExtentMap::Change change = map.Write({40, 20, kA, 1040});
  EXPECT_THAT(change.removed, IsEmpty());
  EXPECT_THAT(change.added, IsEmpty());
  EXPECT_THAT(map.All(), ElementsAre(Extent{0, 100, kA, 1000}));
}

TEST(ExtentMap, TruncateBeyondTheEndIsNoChange) {
  ExtentMap map;
  map.Write({0, 100, kA, 0});
  const ExtentMap::Change change = map.Truncate(100);
  EXPECT_THAT(change.removed, IsEmpty());
  EXPECT_THAT(change.added, IsEmpty());
  EXPECT_EQ(map.end(), 100u);
}

TEST(ExtentMap, TruncateToZeroLeavesNothing) {
  ExtentMap map;
  map.Write({5, 100, kA, 0});
  map.Write({300, 5, kA, 500});
  const ExtentMap::Change change = map.Truncate(0);
  EXPECT_EQ(change.removed.size(), 2u);
  EXPECT_THAT(change.added, IsEmpty());
  EXPECT_TRUE(map.empty());
  EXPECT_EQ(map.end(), 0u);
}

TEST(ExtentMap, TheLastOffsetsOf64BitsAreWrittenAndFound) {
  constexpr uint64_t kMax = ~uint64_t{0};
  ExtentMap map;
  map.Write({kMax - 10, 10, kA, 0});
  map.Write({kMax - 5, 5, kB, 0});
  EXPECT_THAT(
      map.Find(kMax - 7, kMax),
      ElementsAre(Extent{kMax - 7, 2, kA, 3}, Extent{kMax - 5, 5, kB, 0}));
  EXPECT_EQ(map.end(), kMax);
}

TEST(ExtentMapDeath, EmptyOrOverflowingExtentsAreCaught) {
  ExtentMap map;
  EXPECT_DEATH(map.Write({0, 0, kA, 0}), "check failed");
  EXPECT_DEATH(map.Write({2, ~uint64_t{0}, kA, 0}), "check failed");
  EXPECT_DEATH(map.Write({0, ~uint64_t{0}, kA, 2}), "check failed");
}

}  // namespace
}  // namespace cairn::format
