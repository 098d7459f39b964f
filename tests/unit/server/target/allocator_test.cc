#include "server/target/allocator.h"

#include <vector>

#include "format/base/ids.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace cairn::server {
namespace {

using ::cairn::testing::StatusIs;
using format::ChunkPlace;

constexpr uint64_t kUnit = format::kDiskAlignBytes;

ChunkPlace Place(uint32_t slab, uint64_t unit, uint64_t units) {
  return {slab, unit * kUnit, static_cast<uint32_t>(units * kUnit)};
}

TEST(ExtentAllocator, SmallestHoleThatFitsIsTakenFirst) {
  ExtentAllocator allocator;
  allocator.AddSlab(0, 100 * kUnit);
  ASSERT_OK(allocator.Reserve(Place(0, 0, 100)));
  allocator.Free(Place(0, 10, 8));
  allocator.Free(Place(0, 30, 4));
  allocator.Free(Place(0, 50, 6));
  EXPECT_EQ(allocator.Allocate(4 * kUnit), Place(0, 30, 4));
  EXPECT_EQ(allocator.Allocate(5 * kUnit), Place(0, 50, 5));
  EXPECT_EQ(allocator.Allocate(9 * kUnit), std::nullopt);
}

TEST(ExtentAllocator, NeighboursFreedInAnyOrderBecomeOneHole) {
  ExtentAllocator allocator;
  allocator.AddSlab(0, 30 * kUnit);
  const auto a = allocator.Allocate(10 * kUnit);
  const auto b = allocator.Allocate(10 * kUnit);
  const auto c = allocator.Allocate(10 * kUnit);
  allocator.Free(*a);
  allocator.Free(*c);
  EXPECT_EQ(allocator.largest_free_bytes(), 10 * kUnit);
  allocator.Free(*b);
  EXPECT_EQ(allocator.largest_free_bytes(), 30 * kUnit);
}

TEST(ExtentAllocator, SlabIsUnusedUntilSomethingIsInItAndAfterItIsGone) {
  ExtentAllocator allocator;
  allocator.AddSlab(0, 10 * kUnit);
  EXPECT_TRUE(allocator.IsUnused(0));
  ASSERT_OK(allocator.Reserve(Place(0, 9, 1)));
  EXPECT_FALSE(allocator.IsUnused(0));
  allocator.Free(Place(0, 9, 1));
  EXPECT_TRUE(allocator.IsUnused(0));
}

TEST(ExtentAllocator, HolesOfTwoSlabsNeverMerge) {
  ExtentAllocator allocator;
  allocator.AddSlab(0, 10 * kUnit);
  allocator.AddSlab(1, 10 * kUnit);
  EXPECT_EQ(allocator.largest_free_bytes(), 10 * kUnit);
  EXPECT_EQ(allocator.Allocate(11 * kUnit), std::nullopt);
}

TEST(ExtentAllocator, OverlapOfTwoRecordsIsDataLoss) {
  ExtentAllocator allocator;
  allocator.AddSlab(0, 100 * kUnit);
  ASSERT_OK(allocator.Reserve(Place(0, 10, 10)));
  for (const ChunkPlace& place :
       {Place(0, 10, 10), Place(0, 5, 6), Place(0, 19, 2), Place(0, 12, 1),
        Place(0, 0, 100)}) {
    EXPECT_THAT(allocator.Reserve(place),
                StatusIs(absl::StatusCode::kDataLoss, "two records"));
  }
  EXPECT_OK(allocator.Reserve(Place(0, 0, 10)));
  EXPECT_OK(allocator.Reserve(Place(0, 20, 80)));
}

TEST(ExtentAllocator, PlaceOutsideItsSlabIsDataLoss) {
  ExtentAllocator allocator;
  allocator.AddSlab(0, 10 * kUnit);
  allocator.AddSlab(1, 10 * kUnit);
  EXPECT_FALSE(allocator.Reserve(Place(0, 8, 4)).ok());
  EXPECT_FALSE(allocator.Reserve(Place(0, 10, 1)).ok());
  EXPECT_FALSE(allocator.Reserve(Place(2, 0, 1)).ok());
  EXPECT_FALSE(allocator.Reserve(Place(0, ~0ull / kUnit, 1)).ok());
}

TEST(ExtentAllocator, FreedPlaceIsNotHandedOutBeforeItsLastReaderLeft) {
  ExtentAllocator allocator;
  allocator.AddSlab(0, 10 * kUnit);
  const auto place = allocator.Allocate(10 * kUnit);
  allocator.Pin(*place);
  allocator.Pin(*place);
  allocator.Free(*place);
  allocator.Unpin(*place);
  EXPECT_EQ(allocator.used_bytes(), 10 * kUnit);
  EXPECT_EQ(allocator.Allocate(kUnit), std::nullopt);
  allocator.Unpin(*place);
  EXPECT_EQ(allocator.used_bytes(), 0u);
  EXPECT_EQ(allocator.Allocate(10 * kUnit), *place);
}

TEST(ExtentAllocator, PinWithoutFreeChangesNothing) {
  ExtentAllocator allocator;
  allocator.AddSlab(0, 10 * kUnit);
  const auto place = allocator.Allocate(4 * kUnit);
  allocator.Pin(*place);
  allocator.Unpin(*place);
  EXPECT_EQ(allocator.used_bytes(), 4 * kUnit);
}

// One bool per unit of each slab: in use or not.
class Model {
 public:
  void AddSlab(uint64_t units) {
    used_.push_back(std::vector<bool>(units, false));
  }
  bool IsFree(const ChunkPlace& place) const {
    const std::vector<bool>& slab = used_[place.slab];
    const uint64_t from = place.offset_bytes / kUnit;
    const uint64_t count = place.allocated_bytes / kUnit;
    if (from + count > slab.size()) return false;
    for (uint64_t i = 0; i < count; ++i) {
      if (slab[from + i]) return false;
    }
    return true;
  }
  void Set(const ChunkPlace& place, bool used) {
    const uint64_t from = place.offset_bytes / kUnit;
    for (uint64_t i = 0; i < place.allocated_bytes / kUnit; ++i) {
      used_[place.slab][from + i] = used;
    }
  }
  uint64_t FreeUnits() const {
    uint64_t units = 0;
    for (const auto& slab : used_) {
      for (const bool used : slab) units += used ? 0 : 1;
    }
    return units;
  }
  uint64_t LargestFree() const {
    uint64_t largest = 0;
    for (const auto& slab : used_) {
      uint64_t run = 0;
      for (const bool used : slab) {
        run = used ? 0 : run + 1;
        largest = std::max(largest, run);
      }
    }
    return largest;
  }

 private:
  std::vector<std::vector<bool>> used_;
};

class AllocatorRun {
 public:
  explicit AllocatorRun(uint64_t seed) : state_(seed) {}

  void Step() {
    const uint64_t choice = Next(10);
    if (slabs_ == 0 || (choice == 0 && slabs_ < 5)) {
      const uint64_t units = 1 + Next(60);
      allocator_.AddSlab(slabs_++, units * kUnit);
      model_.AddSlab(units);
    } else if (choice < 6) {
      Allocate(1 + Next(12));
    } else if (!held_.empty()) {
      const size_t victim = Next(held_.size());
      allocator_.Free(held_[victim]);
      model_.Set(held_[victim], false);
      held_.erase(held_.begin() + static_cast<ptrdiff_t>(victim));
    }
    ASSERT_EQ(allocator_.free_bytes(), model_.FreeUnits() * kUnit);
    ASSERT_EQ(allocator_.largest_free_bytes(), model_.LargestFree() * kUnit);
  }

 private:
  uint64_t Next(uint64_t below) {
    state_ = format::Mix64(state_ + 0x9e3779b97f4a7c15);
    return state_ % below;
  }
  void Allocate(uint64_t units) {
    const auto place =
        allocator_.Allocate(static_cast<uint32_t>(units * kUnit));
    if (!place) {
      ASSERT_LT(model_.LargestFree(), units);
      return;
    }
    ASSERT_EQ(place->allocated_bytes, units * kUnit);
    ASSERT_TRUE(model_.IsFree(*place));
    model_.Set(*place, true);
    held_.push_back(*place);
  }

  uint64_t state_;
  ExtentAllocator allocator_;
  Model model_;
  uint32_t slabs_ = 0;
  std::vector<ChunkPlace> held_;
};

TEST(ExtentAllocator, AgreesWithAMapOfEveryUnit) {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE(seed);
    AllocatorRun run(seed);
    for (int step = 0; step < 400; ++step) {
      run.Step();
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
}

TEST(ExtentAllocator, RebuiltFromWhatIsHeldHasTheSameHoles) {
  ExtentAllocator first;
  first.AddSlab(0, 64 * kUnit);
  std::vector<ChunkPlace> held;
  for (uint32_t units : {3u, 5u, 7u, 11u, 13u}) {
    held.push_back(*first.Allocate(static_cast<uint32_t>(units * kUnit)));
  }
  first.Free(held[1]);
  first.Free(held[3]);
  ExtentAllocator second;
  second.AddSlab(0, 64 * kUnit);
  for (size_t i : {4u, 0u, 2u}) ASSERT_OK(second.Reserve(held[i]));
  EXPECT_EQ(second.free_bytes(), first.free_bytes());
  for (uint32_t units : {5u, 11u, 25u}) {
    const auto size = static_cast<uint32_t>(units * kUnit);
    EXPECT_EQ(second.Allocate(size), first.Allocate(size));
  }
}

}  // namespace
}  // namespace cairn::server
