#include "io/buffer_pool.h"

#include <set>
#include <vector>

#include "gtest/gtest.h"
#include "tests/support/manual_executor.h"

namespace cairn::io {
namespace {

using format::kBlockBytes;
using format::kChunkBytesMax;
using format::kDiskAlignBytes;
using testing::ManualExecutor;

Task<void> AcquireInto(BufferPool* pool, uint64_t size_bytes, TimeNs deadline,
                       int id, std::vector<int>* order,
                       std::vector<Buffer>* held) {
  Buffer buffer = co_await pool->Acquire(size_bytes, deadline);
  order->push_back(buffer ? id : -id);
  if (buffer) held->push_back(std::move(buffer));
}

TEST(BufferPool, BuffersAreAlignedDisjointAndInsideTheRegion) {
  ManualExecutor loop;
  BufferPool pool(&loop, 3, /*lazy=*/false);
  EXPECT_EQ(pool.region().size(), 3 * kChunkBytesMax);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(pool.region().data()) % (2u << 20), 0u);
  std::vector<Buffer> held;
  std::set<const uint8_t*> blocks;
  uint64_t blocks_expected = 0;
  for (const uint64_t size :
       {kChunkBytesMax, uint64_t{1}, kBlockBytes, kBlockBytes + 1}) {
    held.push_back(pool.TryAcquire(size));
    ASSERT_TRUE(held.back());
    const format::MutableBytes bytes = held.back().bytes();
    EXPECT_EQ(bytes.size(), size <= kBlockBytes ? kBlockBytes : kChunkBytesMax);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(bytes.data()) % kDiskAlignBytes, 0u);
    EXPECT_TRUE(pool.Contains(bytes.data()));
    EXPECT_TRUE(pool.Contains(&bytes.back()));
    for (uint64_t at = 0; at < bytes.size(); at += kBlockBytes) {
      blocks.insert(&bytes[at]);
      ++blocks_expected;
    }
  }
  EXPECT_EQ(blocks.size(), blocks_expected);
  EXPECT_FALSE(pool.Contains(pool.region().data() + pool.region().size()));
  EXPECT_FALSE(pool.Contains(&loop));
}

TEST(BufferPool, LastReturnedBufferIsHandedOutFirst) {
  ManualExecutor loop;
  BufferPool pool(&loop, 3, /*lazy=*/true);
  Buffer first = pool.TryAcquire(kChunkBytesMax);
  Buffer second = pool.TryAcquire(kChunkBytesMax);
  const uint8_t* const hot = first.bytes().data();
  second.Release();
  first.Release();
  EXPECT_EQ(pool.TryAcquire(kChunkBytesMax).bytes().data(), hot);
}

TEST(BufferPool, LargeBufferCutIntoSmallOnesIsWholeAgainWhenAllCameBack) {
  ManualExecutor loop;
  BufferPool pool(&loop, 1, /*lazy=*/true);
  std::vector<Buffer> small;
  for (uint64_t i = 0; i < kChunkBytesMax / kBlockBytes; ++i) {
    small.push_back(pool.TryAcquire(kBlockBytes));
    ASSERT_TRUE(small.back()) << i;
  }
  EXPECT_EQ(pool.free_bytes(), 0u);
  EXPECT_FALSE(pool.TryAcquire(1));
  Buffer kept = std::move(small[17]);
  small.clear();
  EXPECT_EQ(pool.free_bytes(), kChunkBytesMax - kBlockBytes);
  EXPECT_FALSE(pool.TryAcquire(kChunkBytesMax));
  kept.Release();
  EXPECT_EQ(pool.free_bytes(), kChunkBytesMax);
  EXPECT_TRUE(pool.TryAcquire(kChunkBytesMax));
}

TEST(BufferPool, SmallBufferComesFromAnAlreadyCutLargeOne) {
  ManualExecutor loop;
  BufferPool pool(&loop, 2, /*lazy=*/true);
  const Buffer a = pool.TryAcquire(1);
  const Buffer b = pool.TryAcquire(1);
  EXPECT_TRUE(pool.TryAcquire(kChunkBytesMax));
}

TEST(BufferPool, WaitersAreServedInOrderWhateverTheirSize) {
  ManualExecutor loop;
  Gate gate(&loop);
  BufferPool pool(&loop, 1, /*lazy=*/true);
  std::vector<int> order;
  std::vector<Buffer> held;
  Buffer small = pool.TryAcquire(1);
  gate.Spawn(AcquireInto(&pool, kChunkBytesMax, kNoDeadline, 1, &order, &held));
  gate.Spawn(AcquireInto(&pool, 1, kNoDeadline, 2, &order, &held));
  loop.Drain();
  EXPECT_TRUE(order.empty());  // Though small ones are free.
  EXPECT_FALSE(pool.TryAcquire(1));
  small.Release();
  loop.Drain();
  EXPECT_EQ(order, (std::vector<int>{1}));
  held.clear();
  loop.Drain();
  EXPECT_EQ(order, (std::vector<int>{1, 2}));
}

TEST(BufferPool, WaiterThatGivesUpGetsNothingAndLetsTheNextOneIn) {
  ManualExecutor loop;
  Gate gate(&loop);
  BufferPool pool(&loop, 1, /*lazy=*/true);
  std::vector<int> order;
  std::vector<Buffer> held;
  Buffer small = pool.TryAcquire(1);
  gate.Spawn(AcquireInto(&pool, kChunkBytesMax, 100, 1, &order, &held));
  gate.Spawn(AcquireInto(&pool, 1, kNoDeadline, 2, &order, &held));
  loop.AdvanceTo(100);
  EXPECT_EQ(order, (std::vector<int>{-1, 2}));
}

TEST(BufferPool, BufferThatComesBackJustAfterADeadlineGoesToTheNext) {
  ManualExecutor loop;
  Gate gate(&loop);
  BufferPool pool(&loop, 1, /*lazy=*/true);
  std::vector<int> order;
  std::vector<Buffer> held;
  Buffer all = pool.TryAcquire(kChunkBytesMax);
  gate.Spawn(AcquireInto(&pool, 1, 100, 1, &order, &held));
  gate.Spawn(AcquireInto(&pool, 1, kNoDeadline, 2, &order, &held));
  loop.FireTo(100);
  all.Release();
  loop.Drain();
  EXPECT_EQ(order, (std::vector<int>{-1, 2}));
}

TEST(BufferPool, MovedBufferIsReturnedOnce) {
  ManualExecutor loop;
  BufferPool pool(&loop, 2, /*lazy=*/true);
  Buffer a = pool.TryAcquire(kChunkBytesMax);
  Buffer b = pool.TryAcquire(kChunkBytesMax);
  b = std::move(a);
  EXPECT_EQ(pool.free_bytes(), kChunkBytesMax);
  EXPECT_FALSE(a);
  EXPECT_TRUE(a.bytes().empty());
  b.Release();
  b.Release();
  EXPECT_EQ(pool.free_bytes(), 2 * kChunkBytesMax);
}

TEST(BufferPoolDeathTest, PoolDestroyedBeforeItsBufferIsABug) {
  ManualExecutor loop;
  EXPECT_DEATH(
      {
        Buffer outlives;
        BufferPool pool(&loop, 1, /*lazy=*/true);
        outlives = pool.TryAcquire(1);
      },
      "in_use_bytes_");
}

}  // namespace
}  // namespace cairn::io
