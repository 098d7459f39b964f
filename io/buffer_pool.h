// A BufferPool hands out the memory that disks and sockets work on.
//
// One pool per loop, allocated once (2 MiB aligned, huge pages, populated, so
// that steady state has no page faults) and registered with the loop's ring.
// Two sizes: large buffers (format::kChunkBytesMax) and small ones
// (format::kBlockBytes), cut from large ones when needed. Free buffers are
// handed out last-in-first-out, so that they are still in cache.
//
// Threads:  belongs to one loop.
// Lifetime: every Buffer is returned before the pool is destroyed (checked).
//           A buffer under I/O belongs to the kernel until completion: keep the
//           Buffer in the coroutine frame that awaits the I/O.
#pragma once

#include <cstdint>
#include <list>
#include <utility>
#include <vector>

#include "format/base/bytes.h"
#include "format/base/limits.h"
#include "io/wait.h"

namespace cairn::io {

class BufferPool;

// Move-only handle of one pool buffer; returns it when destroyed.
class Buffer {
 public:
  Buffer() = default;
  Buffer(Buffer&& other) noexcept
      : pool_(std::exchange(other.pool_, nullptr)),
        bytes_(std::exchange(other.bytes_, {})) {}
  Buffer& operator=(Buffer&& other) noexcept;
  ~Buffer() { Release(); }

  // The whole buffer: kBlockBytes or kChunkBytesMax bytes, aligned to
  // format::kDiskAlignBytes. Contents are what the last owner left.
  format::MutableBytes bytes() const { return bytes_; }
  explicit operator bool() const { return pool_ != nullptr; }
  void Release();

 private:
  friend class BufferPool;
  Buffer(BufferPool* pool, format::MutableBytes bytes)
      : pool_(pool), bytes_(bytes) {}
  BufferPool* pool_ = nullptr;
  format::MutableBytes bytes_;
};

class BufferPool {
 public:
  // `large_count` buffers of kChunkBytesMax bytes; memory is populated here
  // unless `lazy` (then each page is touched on first use: for clients, whose
  // small pools may never be needed).
  BufferPool(Executor* executor, uint32_t large_count, bool lazy);
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;
  ~BufferPool();

  // Waits for a buffer of at least `size_bytes` (1 to kChunkBytesMax), first
  // come first served. An empty Buffer: the deadline passed.
  Task<Buffer> Acquire(uint64_t size_bytes, TimeNs deadline = kNoDeadline);
  // An empty Buffer when none is free, or when others wait for one.
  Buffer TryAcquire(uint64_t size_bytes);

  // The one region all buffers come from, for registration with a ring.
  format::MutableBytes region() const { return region_; }
  uint64_t free_bytes() const;
  bool Contains(const void* address) const;

 private:
  friend class Buffer;
  struct Pending;  // One waiting Acquire().
  Buffer Take(uint64_t size_bytes);
  Buffer TakeSmall();
  void Return(format::MutableBytes bytes);
  void ReturnSmall(uint32_t large, uint8_t* address);
  void Grant();  // Hands free buffers to the head of the line.
  uint8_t* AddressOf(uint32_t large) const;
  uint32_t IndexOf(const uint8_t* address) const;

  Executor* const executor_;
  format::MutableBytes region_;
  std::list<Pending*> waiting_;
  std::vector<uint32_t> free_large_;       // LIFO of indices.
  std::vector<uint64_t> small_free_mask_;  // Per large: free small slots.
  std::vector<bool> is_cut_;               // Per large: cut into small ones.
  std::vector<uint32_t> partly_free_;      // Cut, with at least one free slot.
  uint64_t in_use_bytes_ = 0;
};

}  // namespace cairn::io
