// Every limit of a target, with the relations between them.
#pragma once

#include <array>
#include <cstdint>

#include "format/base/limits.h"
#include "format/target/index_log.h"
#include "format/wire/frame.h"
#include "io/executor.h"

namespace cairn::server {

// Each chunk costs about 130 bytes of memory (chunk_table.h), so this many
// cost half a GiB; a target that has them is full, however much space is left.
inline constexpr uint64_t kChunksPerTargetMax = 4ull << 20;

// Of the fault point that answers late.
inline constexpr io::TimeNs kLateAnswerNs = 50 * io::kMillisecond;

// How long Open() waits for the lock of a process that is just dying.
inline constexpr io::TimeNs kLockPatienceNs = 3 * io::kSecond;
inline constexpr io::TimeNs kLockPauseNs = 20 * io::kMillisecond;

// Never given to slabs, so that the index can always grow for deletes and
// recovery: 1/32 of the file system, at most this much.
inline constexpr uint64_t kIndexReserveBytesMax = 256 * format::kMiB;
inline constexpr uint64_t kIndexReserveFraction = 32;

// One synced batch of the index. A put is one operation of at most 700 bytes.
inline constexpr uint64_t kGroupCommitBytesMax = 512 * format::kKiB;
// Chunks that one batch of a delete order erases.
inline constexpr uint32_t kErasesPerCommitMax = 4096;
inline constexpr uint32_t kIndexScanPage = 1024;

// RocksDB, of each target.
inline constexpr uint64_t kIndexWriteBufferBytes = 4 * format::kMiB;
inline constexpr uint32_t kIndexWriteBuffers = 2;
inline constexpr uint64_t kIndexBlockCacheBytes = 4 * format::kMiB;
inline constexpr uint64_t kIndexWalBytesMax = 16 * format::kMiB;
inline constexpr uint32_t kIndexOpenFilesMax = 64;
inline constexpr uint32_t kIndexInfoLogBytesMax = 256 * 1024;

// Requests.
inline constexpr uint32_t kListChunksMax = 4096;
inline constexpr uint32_t kDeleteBlobsMax = 4096;
inline constexpr uint64_t kCursorBytesMax = 64;

// Rebuilding, of all targets of a process together: shards that are being made
// (each has a page of every source's list in memory), and chunks at once (each
// has up to two large buffers).
inline constexpr uint32_t kRebuildTasksMax = 64;
inline constexpr uint32_t kRebuildChunksAtOnce = 4;
// Of the pool's large buffers, so that most are left to those who ask: targets
// that rebuild from each other must not wait for each other's buffers.
inline constexpr uint64_t kRebuildPoolShare = 4;
// A pool of so many gives a large one to each decoding.
inline constexpr uint64_t kRebuildLargePoolBuffers = 16;
// Finished ones whose outcome is kept until metadata asks for it.
inline constexpr uint32_t kRebuildsKeptMax = 256;
inline constexpr uint32_t kRebuildListPage = 1024;
inline constexpr uint32_t kLostStripesMax = 1024;
// One read or list of a source; waiting for a buffer.
inline constexpr io::TimeNs kRebuildReadTimeout = 10 * io::kSecond;
inline constexpr io::TimeNs kRebuildBufferTimeout = 30 * io::kSecond;

// Scrubbing, of each target.
// What a server reads again of each target, if not told otherwise.
inline constexpr uint64_t kScrubRateDefault = 20 * format::kMiB;
// Damaged chunks that are remembered (about 100 bytes each), and those of them
// that a status names.
inline constexpr uint64_t kDamagedChunksMax = 1ull << 14;
inline constexpr uint32_t kDamagedShown = 64;
// Read at a time: a block, so that it takes a small buffer and delays nobody.
inline constexpr uint64_t kScrubPieceBytes = format::kBlockBytes;
inline constexpr uint32_t kScrubPage = 1024;
// Between two pages of which nothing is read.
inline constexpr io::TimeNs kScrubPagePause = io::kMillisecond;
// One turn at the disk; then a pause, and again, so many times for one chunk.
inline constexpr io::TimeNs kScrubTurnTimeout = 30 * io::kSecond;
inline constexpr io::TimeNs kScrubBusyPause = 5 * io::kSecond;
inline constexpr uint32_t kScrubTriesMax = 5;
// Before it looks again whether a disk that failed or hangs is well.
inline constexpr io::TimeNs kScrubFailedPause = 30 * io::kSecond;

// Stripes of one order to repair a shard.
inline constexpr uint32_t kRepairStripesMax = 1024;

// Disk operations of requests in flight at one target. 8 writes and 16 reads
// of 4 MiB reach the disk's limit here; more only wait in the device.
inline constexpr uint32_t kDiskOpsInFlightMax = 16;
// Requests that wait for one of those; beyond, kUnavailable: try later.
inline constexpr uint32_t kDiskOpsWaitingMax = 4096;
// A turn at the disk that takes longer means that the disk hangs; the target
// then says so in its status.
inline constexpr io::TimeNs kDiskStuckAfter = 30 * io::kSecond;
// What an operation costs beside its bytes, in bytes: small ones are not free.
inline constexpr uint64_t kDiskOpCostBytes = 64 * format::kKiB;
// By format::TrafficClass: interactive, dataset read, checkpoint write,
// background.
inline constexpr std::array<uint32_t, format::kTrafficClasses>
    kTrafficClassWeights = {8, 4, 4, 1};

static_assert(kGroupCommitBytesMax * 2 <= format::kIndexFrameBodyBytesMax);
static_assert(kErasesPerCommitMax * (7 + format::kIndexKeyBytesMax) <=
              kGroupCommitBytesMax);
static_assert(kRebuildListPage <= kListChunksMax);
static_assert(kLostStripesMax * 300 <= format::kFrameBodyBytesMax);
static_assert(kListChunksMax * 100 <= format::kFrameBodyBytesMax);

}  // namespace cairn::server
