// Limits of the event loops and their backends, with the reasons.
#pragma once

#include <cstdint>

#include "format/base/limits.h"

namespace cairn::io {

// --- Rings.
// Submission entries: what one turn of a loop queues before it has to submit
// early. A turn with hundreds of connections stays below this.
inline constexpr uint32_t kRingSubmitEntries = 512;
// Where locked memory is scarce, rings shrink down to this.
inline constexpr uint32_t kRingSubmitEntriesMin = 32;
// Completion entries: operations that may be in flight before the kernel must
// keep completions on its overflow list (slower, nothing is lost).
inline constexpr uint32_t kRingCompletionEntries = 4096;
// Files with a slot in the ring's table; more files than this work, unfixed.
inline constexpr uint32_t kRingFilesMax = 1024;
// The kernel takes at most 1 GiB as one registered buffer.
inline constexpr uint64_t kRingBufferBytesMax = 1 * format::kGiB;

// --- Operations.
// Linux moves at most 2^31 - 4096 bytes a call; stay aligned and below.
inline constexpr uint64_t kIoBytesMax = 1 * format::kGiB;
// Pieces of memory per socket operation; longer lists take several.
inline constexpr uint32_t kIoVectorsMax = 32;
// EINTR and EAGAIN in a row on one file operation before it fails.
inline constexpr uint32_t kTransientRetriesMax = 1000;

// --- Loops.
// Turns that only resume coroutines before the kernel is asked for news.
inline constexpr uint32_t kTurnsWithoutPollMax = 16;
inline constexpr uint32_t kEpollEventsMax = 256;
inline constexpr uint32_t kBlockingThreadsMax = 64;
// The plain backend reads and writes files on this many threads more.
inline constexpr uint32_t kPlainFileThreads = 4;
inline constexpr uint32_t kRandomWordsBuffered = 32;

// --- Network.
inline constexpr int kListenBacklog = 1024;
// A peer that vanished without a word (power, cable) is noticed after this long
// without an answer: keepalive probes while idle, and for bytes under way.
inline constexpr int kKeepaliveIdleSeconds = 10;
inline constexpr int kKeepaliveIntervalSeconds = 5;
inline constexpr int kKeepaliveProbes = 4;
inline constexpr unsigned kUnackedTimeoutMs =
    1000 *
    (kKeepaliveIdleSeconds + kKeepaliveIntervalSeconds * kKeepaliveProbes);
// sockaddr_un has room for 108 bytes with the terminating zero.
inline constexpr uint64_t kUnixPathBytesMax = 107;
// A Unix socket whose backlog is full has no event to wait for: ask again.
inline constexpr uint64_t kConnectRetryNs = 1'000'000;

static_assert(kRingCompletionEntries >= 2 * kRingSubmitEntries);
static_assert(kIoBytesMax % format::kDiskAlignBytes == 0);
static_assert(kRingBufferBytesMax % format::kChunkBytesMax == 0);

}  // namespace cairn::io
