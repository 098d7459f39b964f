// Every limit of RPC: what one peer may make the other side hold or wait for.
#pragma once

#include <cstdint>

#include "format/base/limits.h"
#include "io/executor.h"

namespace cairn::io {

// --- Server.
// 4,096 connections hold about 4,096 small coroutine frames and no buffers.
inline constexpr uint32_t kConnectionsMax = 4096;
// Then the connection is not read any more; the client's calls wait in TCP.
inline constexpr uint32_t kCallsPerConnectionMax = 256;
// From accept to the end of the handshake, both ways.
inline constexpr TimeNs kHandshakeTimeout = 5 * kSecond;
// Hello and HelloAck are small; nobody is known yet who may ask for more.
inline constexpr uint64_t kHandshakeBodyBytesMax = 4096;
// A connection without a call in flight, on which nothing came for this long,
// is closed: its client may have vanished without a FIN. One that has not
// connects again with its next call.
inline constexpr TimeNs kIdleTimeout = 600 * kSecond;
// A pause after accept failed (descriptors used up), before the next try.
inline constexpr TimeNs kAcceptRetryDelay = 100 * kMillisecond;

// --- Both sides.
// One send call (at most a piece and a header) that takes longer than this has
// a peer that does not read: the connection is dropped.
inline constexpr TimeNs kWriteStallTimeout = 30 * kSecond;
// The same for one receive call inside a frame: a peer that vanished in the
// middle of a frame, without a FIN.
inline constexpr TimeNs kReadStallTimeout = 30 * kSecond;
// Frames without payload that go out in one send call.
inline constexpr uint32_t kGatherFramesMax = 64;
inline constexpr uint64_t kGatherBytesMax = 256 * format::kKiB;
// Messages of failures are cut to this.
inline constexpr uint64_t kErrorMessageBytesMax = 4096;
// Where the bytes of unwanted payloads go.
inline constexpr uint64_t kSkipBufferBytes = 64 * format::kKiB;

// Servers read ahead by this much while only small frames come: after that
// many of them in a row, and until the next payload. One payload's first bytes
// may be copied out of the buffer then.
inline constexpr uint32_t kAdaptiveReadAheadBytes = 16 * 1024;
inline constexpr uint32_t kAdaptiveSmallFrames = 4;

// --- Client.
// Reconnect: the delay doubles from least to most; half of it is random, so
// that the clients of a restarted server do not come in step.
inline constexpr TimeNs kReconnectDelayMin = 10 * kMillisecond;
inline constexpr TimeNs kReconnectDelayMax = 1 * kSecond;
// A call that waited this long, to its deadline, on a connection on which
// nothing at all arrived meanwhile takes the connection for dead.
inline constexpr TimeNs kSilentPeerTimeout = 3 * kSecond;

// --- Log: warnings about peers, per server.
inline constexpr TimeNs kPeerLogInterval = 1 * kSecond;

static_assert(kHandshakeBodyBytesMax <= format::kFrameBodyBytesMax);
static_assert(kReconnectDelayMin <= kReconnectDelayMax);
static_assert(kAdaptiveReadAheadBytes >= 64);
static_assert(kIdleTimeout > kReadStallTimeout);

}  // namespace cairn::io
