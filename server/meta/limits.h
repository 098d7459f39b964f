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
// With less than this free on its file system the engine takes only commits
// that delete something, with less than half of it only deletes: RocksDB needs
// room to flush its buffers and to compact, and a metadata store
// that hits the end of the disk in the middle of that cannot even free space.
inline constexpr uint64_t kKvReserveBytes = 256 * format::kMiB;
static_assert(kKvReserveBytes >=
              4 * kRocksWriteBuffersMax * kRocksWriteBufferBytes);

// Pause between two writes of the high-water mark, in nanoseconds: commits go
// on meanwhile, and a mark after each would double the disk's flushes.
inline constexpr uint64_t kMarkIntervalNs = 10'000'000;

// What fault points wait: a mark that is written late, an answer that is.
inline constexpr uint64_t kLateCommitNs = 50'000'000;
// Long enough for a newer attempt to come in between.
inline constexpr uint64_t kLatePublicationNs = 500'000'000;

// How far an operator's "accept the loss" moves the sequence past the newest
// mark: more than any commits that can have been in flight or unmarked.
inline constexpr uint64_t kKvSequenceGap = 1ULL << 24;

// --- The service.
// Tries of one transaction that conflicts, and the wait between them at most
// (doubling from the least, with jitter).
inline constexpr uint32_t kTxnAttemptsMax = 24;
inline constexpr uint64_t kTxnBackoffNsMin = 100'000;
inline constexpr uint64_t kTxnBackoffNsMax = 20'000'000;
// Ids are taken from the store this many at a time.
inline constexpr uint64_t kIdsPerRange = 1024;

inline constexpr uint32_t kSessionsMax = 1u << 17;
inline constexpr uint64_t kClientNameBytesMax = 1024;
inline constexpr uint32_t kBlobsPerAllocationMax = 48;
// Stored results that one mutation may forget on its way.
inline constexpr uint32_t kResultsForgottenPerTxn = 8;
// Mutations of one session being carried out or waiting for a twin.
inline constexpr uint32_t kMutationsInFlightMax = 4096;

inline constexpr uint32_t kDirectoryDepthMax = 512;
inline constexpr uint32_t kSymlinksFollowedMax = 40;
inline constexpr uint32_t kLinksMax = 65'000;
inline constexpr uint32_t kReadDirEntriesMax = 1024;
inline constexpr uint32_t kExtentsPerAnswerMax = 4096;
inline constexpr uint64_t kAnswerBytesMax = 1 * format::kMiB;

inline constexpr uint32_t kExtentsPerCommitMax = 100;
inline constexpr uint64_t kFileBytesMax = 1ULL << 62;
// Records that one transaction takes apart at most: each costs up to six
// operations (record, reference and blob with their expectations, garbage).
inline constexpr uint32_t kExtentsFreedPerTxn = 16;
inline constexpr uint32_t kKeysErasedPerTxn = 100;
// Operations that a transaction keeps for what is not extents.
inline constexpr uint32_t kTxnOpsReserved = 20;
static_assert(6 * kExtentsFreedPerTxn + kTxnOpsReserved <= kKvOpsMax);
static_assert(2 * kBlobsPerAllocationMax + kTxnOpsReserved <= kKvOpsMax);
static_assert(kKeysErasedPerTxn + kTxnOpsReserved <= kKvOpsMax);

// Checkpoint sets.
inline constexpr uint64_t kSetIdBytesMax = 255;
inline constexpr uint64_t kManifestPieceBytes = 256 * format::kKiB;
inline constexpr uint64_t kManifestPartBytesMax = 3 * format::kMiB;
inline constexpr uint32_t kManifestPiecesPerTxn = 3;
// The header travels in one message.
inline constexpr uint64_t kManifestHeaderBytesMax = 3 * format::kMiB;
inline constexpr uint64_t kManifestAnswerBytesMax = 2 * format::kMiB;
inline constexpr uint64_t kManifestTxnBytesMax = 768 * format::kKiB;
inline constexpr uint32_t kMissingRanksShown = 64;
inline constexpr uint32_t kSetsPerAnswerMax = 256;
inline constexpr uint32_t kSetFilesShown = 4096;
inline constexpr uint32_t kWaitSetMsMax = 60'000;
static_assert(kManifestPiecesPerTxn * kManifestPieceBytes <=
              kManifestTxnBytesMax);
static_assert(kManifestTxnBytesMax < kKvBytesMax);
static_assert(kManifestPartBytesMax < format::kFrameBodyBytesMax);
static_assert(kManifestHeaderBytesMax < format::kFrameBodyBytesMax);

// Places in quarantine that are remembered.
inline constexpr uint32_t kQuarantinedMax = 256;
// How long a process that serves a target may take to say so, before another
// one that claims the target is let in.
inline constexpr uint64_t kHolderAnswerNs = 2'000'000'000;

// The brake never engages for so few targets that are down.
inline constexpr uint64_t kBrakeTargetsMin = 2;

// Rebuild: rows that one map switches (each is up to three operations beside
// the map's); problems shown in ClusterStatus.
inline constexpr uint32_t kSwitchesPerMap = 30;
inline constexpr uint32_t kMovesPerTxn = 40;
inline constexpr uint32_t kRebuildProblemsShown = 16;
// Before a move whose target could not finish is ordered again.
inline constexpr uint64_t kMoveRetryNs = 2'000'000'000;
// A move whose new target itself failed so often in a row goes elsewhere.
inline constexpr uint32_t kHomeFailuresMax = 3;
// Of the rows of a pool, one in so many may be closed while a shard of it moves
// from a target that lives; one always.
inline constexpr uint32_t kClosedRowsShare = 8;
// Between two looks at how even the slots of the targets are.
inline constexpr uint64_t kBalancePauseNs = 3'000'000'000;
// How many inodes may refer to a blob for its stripes to be looked up.
inline constexpr uint32_t kInodesOfBlobMax = 4096;
// Chores looked at in one pass; keys of one sweep's transaction.
inline constexpr uint32_t kChoresPerPass = 1024;
static_assert(4 * kSwitchesPerMap + 4 <= kKvOpsMax);
static_assert(2 * kMovesPerTxn <= kKvOpsMax);

// Scrub: chunks that are suspect at once, about 200 bytes each; problems shown.
inline constexpr uint32_t kSuspectsMax = 4096;
inline constexpr uint32_t kScrubProblemsShown = 16;
// Of one target's list at a time; rows compared, and orders to repair, between
// two looks at the targets; chunks of one order.
inline constexpr uint32_t kComparePage = 1024;
inline constexpr uint32_t kComparesPerRound = 16;
inline constexpr uint32_t kRepairsPerRound = 64;
inline constexpr uint32_t kRepairsPerOrder = 256;
// Before what could not be compared or repaired now is tried again, and how
// long one order is waited for.
inline constexpr uint64_t kScrubRetryNs = 30'000'000'000;
inline constexpr uint64_t kRepairPatienceNs = 600'000'000'000;

// Trash and garbage: entries looked at in one pass, blobs in one order.
inline constexpr uint32_t kTrashPerPass = 64;
inline constexpr uint32_t kGarbagePerPass = 256;
// Counting for status stops here and shows this much.
inline constexpr uint32_t kStatusCountMax = 100'000;

}  // namespace cairn::server
