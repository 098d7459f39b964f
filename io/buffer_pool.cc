#include "io/buffer_pool.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>

#if defined(__SANITIZE_ADDRESS__)
#define CAIRN_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define CAIRN_ASAN 1
#endif
#endif
#ifdef CAIRN_ASAN
#include <sanitizer/asan_interface.h>
#endif

namespace cairn::io {
namespace {

using format::kBlockBytes;
using format::kChunkBytesMax;
using format::MutableBytes;

constexpr uint64_t kHugePageBytes = 2 * format::kMiB;
constexpr uint64_t kPageBytes = 4 * format::kKiB;
constexpr uint64_t kSmallPerLarge = kChunkBytesMax / kBlockBytes;
constexpr uint64_t kAllFree = ~uint64_t{0};
static_assert(kSmallPerLarge == 64, "a large buffer's slots are one mask");
static_assert(kChunkBytesMax % kHugePageBytes == 0);

// With the address sanitizer, touching a free buffer is reported.
void MarkFree([[maybe_unused]] MutableBytes bytes) {
#ifdef CAIRN_ASAN
  ASAN_POISON_MEMORY_REGION(bytes.data(), bytes.size());
#endif
}

void MarkUsed([[maybe_unused]] MutableBytes bytes) {
#ifdef CAIRN_ASAN
  ASAN_UNPOISON_MEMORY_REGION(bytes.data(), bytes.size());
#endif
}

MutableBytes MapAligned(uint64_t size_bytes) {
  if (size_bytes == 0) return {};
  const uint64_t mapped_bytes = size_bytes + kHugePageBytes;
  void* const mapped = mmap(nullptr, mapped_bytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  CAIRN_CHECK(mapped != MAP_FAILED);
  uint8_t* const start = static_cast<uint8_t*>(mapped);
  const uint64_t misaligned =
      reinterpret_cast<uintptr_t>(start) % kHugePageBytes;
  const uint64_t head = misaligned == 0 ? 0 : kHugePageBytes - misaligned;
  const uint64_t tail = kHugePageBytes - head;
  if (head > 0) CAIRN_CHECK(munmap(start, head) == 0);
  CAIRN_CHECK(munmap(start + head + size_bytes, tail) == 0);
  return {start + head, size_bytes};
}

// Makes every page resident and writable now.
void Populate(MutableBytes region) {
#ifdef MADV_POPULATE_WRITE
  if (madvise(region.data(), region.size(), MADV_POPULATE_WRITE) == 0) return;
#endif
  // A kernel before 5.14: touch the pages one by one.
  for (uint64_t at = 0; at < region.size(); at += kPageBytes) {
    *static_cast<volatile uint8_t*>(&region[at]) = 0;
  }
}

}  // namespace

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  if (this != &other) {
    Release();
    pool_ = std::exchange(other.pool_, nullptr);
    bytes_ = std::exchange(other.bytes_, {});
  }
  return *this;
}

void Buffer::Release() {
  if (pool_ == nullptr) return;
  std::exchange(pool_, nullptr)->Return(std::exchange(bytes_, {}));
}

struct BufferPool::Pending {
  Pending(Executor* executor, uint64_t wanted_bytes)
      : wake(executor), size_bytes(wanted_bytes) {}
  WaitQueue wake;
  const uint64_t size_bytes;
  Buffer granted;
};

BufferPool::BufferPool(Executor* executor, uint32_t large_count, bool lazy)
    : executor_(executor),
      region_(MapAligned(large_count * kChunkBytesMax)),
      small_free_mask_(large_count, 0),
      is_cut_(large_count, false) {
  if (large_count == 0) return;
  // Best effort: without huge pages everything works, at half the rate.
  madvise(region_.data(), region_.size(), MADV_HUGEPAGE);
  if (!lazy) Populate(region_);
  free_large_.reserve(large_count);
  partly_free_.reserve(large_count);
  // Lowest address on top, so that a lazy pool touches few pages.
  for (uint32_t i = large_count; i > 0; --i) free_large_.push_back(i - 1);
  MarkFree(region_);
}

BufferPool::~BufferPool() {
  CAIRN_CHECK(in_use_bytes_ == 0);
  CAIRN_CHECK(waiting_.empty());
  if (region_.empty()) return;
  MarkUsed(region_);
  munmap(region_.data(), region_.size());
}

Task<Buffer> BufferPool::Acquire(uint64_t size_bytes, TimeNs deadline) {
  Buffer buffer = TryAcquire(size_bytes);
  if (buffer) co_return std::move(buffer);
  Pending pending(executor_, size_bytes);
  const auto place = waiting_.insert(waiting_.end(), &pending);
  const WaitResult result = co_await pending.wake.Wait(deadline);
  if (result != WaitResult::kWoken) {
    waiting_.erase(place);
    Grant();  // Whoever stood behind us may fit where we did not.
  }
  co_return std::move(pending.granted);
}

Buffer BufferPool::TryAcquire(uint64_t size_bytes) {
  if (!waiting_.empty()) return {};  // First come, first served.
  return Take(size_bytes);
}

Buffer BufferPool::Take(uint64_t size_bytes) {
  CAIRN_CHECK(size_bytes > 0 && size_bytes <= kChunkBytesMax);
  if (size_bytes <= kBlockBytes) return TakeSmall();
  if (free_large_.empty()) return {};
  const MutableBytes bytes(AddressOf(free_large_.back()), kChunkBytesMax);
  free_large_.pop_back();
  in_use_bytes_ += kChunkBytesMax;
  MarkUsed(bytes);
  return Buffer(this, bytes);
}

Buffer BufferPool::TakeSmall() {
  if (partly_free_.empty()) {
    if (free_large_.empty()) return {};
    const uint32_t cut = free_large_.back();
    free_large_.pop_back();
    is_cut_[cut] = true;
    small_free_mask_[cut] = kAllFree;
    partly_free_.push_back(cut);
  }
  const uint32_t large = partly_free_.back();
  uint64_t& mask = small_free_mask_[large];
  CAIRN_CHECK(is_cut_[large] && mask != 0);
  const int slot = std::countr_zero(mask);
  mask &= mask - 1;
  if (mask == 0) partly_free_.pop_back();
  const MutableBytes bytes(
      AddressOf(large) + static_cast<uint64_t>(slot) * kBlockBytes,
      kBlockBytes);
  in_use_bytes_ += kBlockBytes;
  MarkUsed(bytes);
  return Buffer(this, bytes);
}

void BufferPool::Return(MutableBytes bytes) {
  CAIRN_CHECK(Contains(bytes.data()) && in_use_bytes_ >= bytes.size());
  MarkFree(bytes);
  in_use_bytes_ -= bytes.size();
  const uint32_t large = IndexOf(bytes.data());
  if (bytes.size() == kBlockBytes) {
    ReturnSmall(large, bytes.data());
  } else {
    CAIRN_CHECK(!is_cut_[large]);
    free_large_.push_back(large);
  }
  Grant();
}

void BufferPool::ReturnSmall(uint32_t large, uint8_t* address) {
  const uint64_t offset = static_cast<uint64_t>(address - AddressOf(large));
  const uint64_t bit = uint64_t{1} << (offset / kBlockBytes);
  uint64_t& mask = small_free_mask_[large];
  CAIRN_CHECK(is_cut_[large] && (mask & bit) == 0);
  if (mask == 0) partly_free_.push_back(large);
  mask |= bit;
  if (mask != kAllFree) return;
  is_cut_[large] = false;
  mask = 0;
  partly_free_.erase(
      std::find(partly_free_.begin(), partly_free_.end(), large));
  free_large_.push_back(large);
}

void BufferPool::Grant() {
  for (auto place = waiting_.begin(); place != waiting_.end();) {
    Pending* const next = *place;
    if (next->wake.empty()) {  // Its deadline is over: it leaves by itself.
      ++place;
      continue;
    }
    Buffer buffer = Take(next->size_bytes);
    if (!buffer) return;
    place = waiting_.erase(place);
    next->granted = std::move(buffer);
    CAIRN_CHECK(next->wake.WakeOne());
  }
}

uint64_t BufferPool::free_bytes() const {
  return region_.size() - in_use_bytes_;
}

bool BufferPool::Contains(const void* address) const {
  const uintptr_t at = reinterpret_cast<uintptr_t>(address);
  const uintptr_t start = reinterpret_cast<uintptr_t>(region_.data());
  return at >= start && at - start < region_.size();
}

uint8_t* BufferPool::AddressOf(uint32_t large) const {
  return region_.data() + large * kChunkBytesMax;
}

uint32_t BufferPool::IndexOf(const uint8_t* address) const {
  return static_cast<uint32_t>(static_cast<uint64_t>(address - region_.data()) /
                               kChunkBytesMax);
}

}  // namespace cairn::io
