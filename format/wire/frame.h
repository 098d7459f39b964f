// The frame: what every message on a connection is wrapped in.
//
//   header (64 bytes) | body (protobuf) | payload (raw bytes) | trailer
//
// On the wire, little-endian: docs/format/frame.md. The trailer is made while
// the payload is sent: u64 status, then one u64 checksum per block of the
// payload (format/checksum). A frame without payload has no trailer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "format/base/bytes.h"
#include "format/base/limits.h"

namespace cairn::format {

inline constexpr uint32_t kFrameMagic = 0x314e5243;  // "CRN1".
inline constexpr uint8_t kFrameVersion = 1;

// Persisted on the wire: add values, never renumber.
enum class FrameKind : uint8_t {
  kHello = 1,     // Client's first frame: body Hello.
  kHelloAck = 2,  // Server's first frame: body HelloAck, or a status.
  kRequest = 3,
  kResponse = 4,
};

// Service classes, most urgent first (design section 4).
enum class TrafficClass : uint16_t {
  kInteractive = 0,
  kDatasetRead = 1,
  kCheckpointWrite = 2,
  kBackground = 3,
};
inline constexpr uint16_t kTrafficClasses = 4;

struct FrameHeader {
  uint32_t magic = kFrameMagic;
  uint8_t version = kFrameVersion;  // Greater ones are refused.
  uint8_t kind = 0;                 // FrameKind.
  uint16_t method = 0;              // Method (format/wire/method.h).
  uint64_t request_id = 0;          // Unique per connection and direction.
  uint32_t body_bytes = 0;          // At most kFrameBodyBytesMax.
  uint32_t trailer_bytes = 0;       // 8 * (1 + blocks), or 0 without payload.
  uint64_t payload_bytes = 0;       // At most kFramePayloadBytesMax.
  uint32_t status = 0;              // absl::StatusCode, in responses.
  uint16_t traffic_class = 0;       // TrafficClass, in requests.
  uint16_t flags = 0;               // None defined: must be 0.
  uint32_t timeout_ms = 0;          // In requests: the caller's patience; 0 is
                                    // none.
  uint32_t reserved = 0;            // Must be 0.
  uint64_t body_xxh3 = 0;           // XXH3-64 of the body.
  uint64_t header_xxh3 = 0;         // XXH3-64 of the 56 bytes before.
};
static_assert(sizeof(FrameHeader) == 64);
static_assert(offsetof(FrameHeader, payload_bytes) == 24);
static_assert(offsetof(FrameHeader, header_xxh3) == 56);
static_assert(std::has_unique_object_representations_v<FrameHeader>);

// Fills in both checksums. `body` is header->body_bytes long (checked).
void SealFrameHeader(FrameHeader* header, ConstBytes body);

// Reads and validates 64 bytes: magic, version, checksum, kind, every length
// against its limit, trailer length against payload, reserved fields zero.
// kFailedPrecondition: a newer version. kDataLoss: anything else.
absl::StatusOr<FrameHeader> ParseFrameHeader(ConstBytes bytes);

// kDataLoss: the body is not the one the header was sealed with.
absl::Status CheckFrameBody(const FrameHeader& header, ConstBytes body);

// --- The trailer: u64 status, then u64 checksums.

// Bytes of a trailer with this many checksums.
constexpr uint32_t TrailerBytes(uint32_t checksums) {
  return 8 * (1 + checksums);
}

// Fills in a trailer of TrailerBytes(checksums.size()) bytes (checked). A
// status other than kOk (kDataLoss or kUnavailable) tells the receiver that the
// payload before it is not to be used: the sender found out while it sent.
void FillTrailer(MutableBytes trailer, absl::StatusCode status,
                 std::span<const uint64_t> checksums);

// OK: the sender stands by its payload. Otherwise the sender's status code;
// kUnavailable (send it again) if the trailer is no trailer, or has a status
// that no sender gives: no checksum covers it, and a flipped bit must not pass
// for the sender's word that data is lost.
absl::Status TrailerStatus(ConstBytes trailer);

// How many checksums a trailer holds; 0 if it is no trailer.
uint32_t TrailerChecksumCount(ConstBytes trailer);
// Checksum number `index`, below TrailerChecksumCount() (checked).
uint64_t TrailerChecksum(ConstBytes trailer, uint32_t index);

}  // namespace cairn::format
