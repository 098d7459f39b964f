// Limits of the metadata service, in bytes and counts, with the relations
// between them.
#pragma once

#include <cstdint>

#include "format/base/limits.h"

namespace cairn::server {

// --- KV engines. As etcd's defaults, so that a service that works on the
// embedded engine works on etcd too.
// Operations of one transaction: expectations, empty ranges and writes.
inline constexpr uint64_t kKvOpsMax = 128;
// Keys and values of one transaction, of expectations too.
inline constexpr uint64_t kKvBytesMax = 1 * format::kMiB;
// Longest key: a parent, a name and a set's path fit with room.
inline constexpr uint64_t kKvKeyBytesMax = 8 * format::kKiB;

static_assert(kKvKeyBytesMax >= format::kPathBytesMax + format::kNameBytesMax);
static_assert(kKvBytesMax >= 2 * kKvKeyBytesMax);

// Bytes that wait for the disk at most; a commit that would add to more waits.
inline constexpr uint64_t kKvQueuedBytesMax = 16 * format::kMiB;
static_assert(kKvQueuedBytesMax >= 2 * kKvBytesMax);

// RocksDB: memory for cached blocks, and for writes not yet in a table file.
inline constexpr uint64_t kRocksBlockCacheBytes = 64 * format::kMiB;
inline constexpr uint64_t kRocksWriteBufferBytes = 32 * format::kMiB;
inline constexpr int kRocksWriteBuffersMax = 2;
// Longest line of RocksDB's in our log.
inline constexpr uint64_t kRocksLogLineBytesMax = 512;
// With less than this free on its file system the engine takes deletes only:
// RocksDB needs room to flush its buffers and to compact, and a metadata store
// that hits the end of the disk in the middle of that cannot even free space.
inline constexpr uint64_t kKvReserveBytes = 256 * format::kMiB;
static_assert(kKvReserveBytes >=
              4 * kRocksWriteBuffersMax * kRocksWriteBufferBytes);

// Pause between two writes of the high-water mark, in nanoseconds: commits go
// on meanwhile, and a mark after each would double the disk's flushes.
inline constexpr uint64_t kMarkIntervalNs = 10'000'000;

// How far an operator's "accept the loss" moves the sequence past the newest
// mark: more than any commits that can have been in flight or unmarked.
inline constexpr uint64_t kKvSequenceGap = 1ULL << 24;

}  // namespace cairn::server
