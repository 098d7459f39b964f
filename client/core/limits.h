// Every limit of the client, with its reason.
#pragma once

#include <cstdint>

#include "format/base/limits.h"
#include "io/executor.h"

namespace cairn::client {

// Buffers of the client's pool: parities of a few stripes, decode scratch.
inline constexpr uint32_t kPoolLargeBuffers = 20;
static_assert(kPoolLargeBuffers * format::kChunkBytesMax <= 80 * format::kMiB,
              "a rank's extra memory stays under 96 MiB");
static_assert(kPoolLargeBuffers > 2 * format::kParityShardsMax,
              "two stripes with all their parities fit");

// One attempt of a metadata call. A half-open connection is given up after
// this, and the call repeated on a new one (mutations are idempotent).
inline constexpr io::TimeNs kMetaAttemptTimeout = 15 * io::kSecond;
// One attempt at a chunk before another shard, copy or connection is tried.
inline constexpr io::TimeNs kChunkAttemptTimeout = 10 * io::kSecond;
// And it takes at most this part of the time that its read has left, so that
// there is time for the others.
inline constexpr uint64_t kChunkAttemptDivisor = 4;
// A put takes at most this part of what its stripe has left, so that there is
// time for another place.
inline constexpr uint64_t kPutAttemptDivisor = 2;
static_assert(kPutAttemptDivisor < kChunkAttemptDivisor);
// A target that left a call without an answer for so long is a silent one: a
// machine without power says nothing, and each read would wait for it anew.
inline constexpr io::TimeNs kSilentTargetAfter = 2 * io::kSecond;
static_assert(kSilentTargetAfter < kChunkAttemptTimeout);
// Sooner for a client whose own timeout is short: after this part of it.
inline constexpr uint64_t kSilentTargetDivisor = 8;
static_assert(kSilentTargetDivisor > kChunkAttemptDivisor,
              "an attempt given up makes its target a silent one");
// Beside a target that takes so many times as long as the median one, it is
// quicker to write elsewhere, or to read other shards.
inline constexpr uint64_t kSlowFactor = 8;
// Shorter waits are no sign of illness, whatever the others take: on a machine
// with more to do than it has cores for, any process may stand still so long.
inline constexpr io::TimeNs kSlowAfterMin = 1 * io::kSecond;
static_assert(kSlowAfterMin < kSilentTargetAfter);
// With fewer targets nobody can tell which of them is the odd one out.
inline constexpr uint64_t kSlowPeersMin = 3;
// If more than one of so many is slow it is not the targets that are ill, and
// going around them would only add to the load.
inline constexpr uint64_t kSlowShare = 4;
// Patience with a slow put doubles with each attempt, so often at most.
inline constexpr int kPatienceDoublingsMax = 8;
// How much of a mean a new value makes, and how old the median may get.
inline constexpr uint64_t kSpeedWeight = 8;
inline constexpr uint32_t kNotesPerMedian = 32;
// Reads go around a silent target; one in so long asks it all the same.
inline constexpr io::TimeNs kSilentTargetPause = 10 * io::kSecond;
// New stripes go around a target that was full for so long.
inline constexpr io::TimeNs kFullTargetPause = 30 * io::kSecond;
// Of the fault points that give an attempt up almost at once.
inline constexpr io::TimeNs kNoPatience = 2 * io::kMillisecond;
// Of the fault point that gives a blob up early: no commit can have too many.
inline constexpr uint32_t kStripesOfShortBlob = 4;
// Pause between attempts: doubles from the first to the second value.
inline constexpr io::TimeNs kRetryPauseMin = 5 * io::kMillisecond;
inline constexpr io::TimeNs kRetryPauseMax = 1 * io::kSecond;
// A chunk whose checksum fails on arrival is sent again this often.
inline constexpr int kPutCorruptRetries = 3;
// Renewal happens at this fraction of the lease.
inline constexpr uint64_t kLeaseRenewDivisor = 3;
// The map is asked for again at most this often because of failures.
inline constexpr io::TimeNs kMapRefreshPause = 100 * io::kMillisecond;
// A newer map helps, but retries go on with the old one while the metadata
// service is away: data must stay readable without it.
inline constexpr io::TimeNs kMapRefreshTimeout = 1 * io::kSecond;

// Metadata connections carry many small frames: read them in bulk.
inline constexpr uint32_t kMetaReadAheadBytes = 64 * 1024;

// One question about a set waits at the server at most this long, well below
// kMetaAttemptTimeout.
inline constexpr io::TimeNs kWaitSetPause = 5 * io::kSecond;
static_assert(kWaitSetPause * 2 < kMetaAttemptTimeout);

// Extents in one commit; the service takes no more.
inline constexpr uint64_t kExtentsPerCommit = 100;
inline constexpr uint32_t kExtentsPerPage = 1000;
inline constexpr uint32_t kEntriesPerPage = 1000;
inline constexpr int kSymlinksMax = 40;  // As Linux.

// Encoding works through a stripe in columns of this many bytes a shard, so
// that k + m columns stay in L2.
inline constexpr uint64_t kEncodeColumnBytes = 32 * format::kKiB;

// Windows start here and never shrink below: two large chunks keep a
// connection busy while the first is being acknowledged.
inline constexpr uint64_t kWindowFloorBytes = 2 * format::kChunkBytesMax;

// Tensor runs shorter than this are gathered through pool memory instead of
// being named one by one to the kernel.
inline constexpr uint64_t kGatherRunBytes = 4 * format::kKiB;

// Pool buffers that one stripe may gather strided tensors into. Stripes that
// hold some and wait for parity never starve each other: see the assertion on
// the pool below and the window on stripes in flight.
inline constexpr uint64_t kStagingBuffersMax = 4;

// Short runs of a load closer together than this are read as one range.
inline constexpr uint64_t kScatterGapBytes = 16 * format::kKiB;
// Manifest blocks that a reader keeps, and fetches at once.
inline constexpr uint32_t kManifestBlocksKept = 8;
// Files of a set that a load reads at once.
inline constexpr uint64_t kFilesInParallel = 8;

// Each holds one pool buffer at a time.
inline constexpr uint64_t kStripesVerifiedAtOnce = 8;
static_assert(kStripesVerifiedAtOnce + kStagingBuffersMax < kPoolLargeBuffers);

inline constexpr uint64_t kRepairExamplesMax = 16;

}  // namespace cairn::client
