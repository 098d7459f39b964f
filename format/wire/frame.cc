#include "format/wire/frame.h"

#include <cstring>

#include "format/base/status.h"
#include "format/checksum/block_checksum.h"

namespace cairn::format {
namespace {

constexpr uint32_t kStatusCodeMax =
    static_cast<uint32_t>(absl::StatusCode::kUnauthenticated);

absl::Status Malformed(const char* what) {
  return absl::DataLossError(absl::StrCat("malformed frame: ", what));
}

ConstBytes ChecksummedPart(const FrameHeader& header) {
  return {reinterpret_cast<const uint8_t*>(&header),
          offsetof(FrameHeader, header_xxh3)};
}

// A range of `payload_bytes` touches between these numbers of blocks, depending
// on where in a block it starts.
bool IsTrailerLength(uint64_t trailer_bytes, uint64_t payload_bytes) {
  if (payload_bytes == 0) return trailer_bytes == 0;
  if (trailer_bytes % 8 != 0 || trailer_bytes < 16) return false;
  const uint64_t checksums = trailer_bytes / 8 - 1;
  const uint64_t least = (payload_bytes + kBlockBytes - 1) / kBlockBytes;
  const uint64_t most = (payload_bytes + kBlockBytes - 2) / kBlockBytes + 1;
  return checksums >= least && checksums <= most;
}

absl::Status CheckLengths(const FrameHeader& header) {
  if (header.body_bytes > kFrameBodyBytesMax) return Malformed("body length");
  if (header.payload_bytes > kFramePayloadBytesMax) {
    return Malformed("payload length");
  }
  if (header.trailer_bytes > kFrameTrailerBytesMax ||
      !IsTrailerLength(header.trailer_bytes, header.payload_bytes)) {
    return Malformed("trailer length");
  }
  return absl::OkStatus();
}

// Fields that only some kinds of frame have are zero in the others.
absl::Status CheckKind(const FrameHeader& header) {
  const auto kind = static_cast<FrameKind>(header.kind);
  const bool is_hello =
      kind == FrameKind::kHello || kind == FrameKind::kHelloAck;
  const bool is_request = kind == FrameKind::kRequest;
  const bool is_answer =
      kind == FrameKind::kHelloAck || kind == FrameKind::kResponse;
  if (!is_hello && !is_request && !is_answer) return Malformed("kind");
  if (is_hello && (header.payload_bytes != 0 || header.method != 0 ||
                   header.request_id != 0)) {
    return Malformed("handshake with a request's fields");
  }
  if (!is_answer && header.status != 0) return Malformed("status in a request");
  if (header.status > kStatusCodeMax) return Malformed("status");
  if (header.status != 0 && header.payload_bytes != 0) {
    return Malformed("payload after a failure");
  }
  if (!is_request && (header.traffic_class != 0 || header.timeout_ms != 0)) {
    return Malformed("request's fields in an answer");
  }
  if (header.traffic_class >= kTrafficClasses) return Malformed("class");
  return absl::OkStatus();
}

}  // namespace

void SealFrameHeader(FrameHeader* header, ConstBytes body) {
  CAIRN_CHECK(body.size() == header->body_bytes);
  CAIRN_CHECK(CheckKind(*header).ok() && CheckLengths(*header).ok());
  header->body_xxh3 = Xxh3(body);
  header->header_xxh3 = Xxh3(ChecksummedPart(*header));
}

absl::StatusOr<FrameHeader> ParseFrameHeader(ConstBytes bytes) {
  if (bytes.size() != sizeof(FrameHeader)) return Malformed("short header");
  const FrameHeader header = LoadLe<FrameHeader>(bytes.data());
  if (header.magic != kFrameMagic) return Malformed("magic");
  if (header.header_xxh3 != Xxh3(ChecksummedPart(header))) {
    return Malformed("header checksum");
  }
  // All versions keep magic, version and checksum where they are.
  if (header.version > kFrameVersion) {
    return absl::FailedPreconditionError(
        absl::StrCat("frame version ", header.version,
                     ": this side knows up to ", kFrameVersion));
  }
  if (header.version == 0) return Malformed("version");
  if (header.flags != 0 || header.reserved != 0) return Malformed("flags");
  CAIRN_RETURN_IF_ERROR(CheckKind(header));
  CAIRN_RETURN_IF_ERROR(CheckLengths(header));
  return header;
}

absl::Status CheckFrameBody(const FrameHeader& header, ConstBytes body) {
  if (body.size() != header.body_bytes || Xxh3(body) != header.body_xxh3) {
    return Malformed("body checksum");
  }
  return absl::OkStatus();
}

void FillTrailer(MutableBytes trailer, absl::StatusCode status,
                 std::span<const uint64_t> checksums) {
  CAIRN_CHECK(trailer.size() ==
              TrailerBytes(static_cast<uint32_t>(checksums.size())));
  StoreLe(trailer.data(), static_cast<uint64_t>(status));
  if (!checksums.empty()) {
    std::memcpy(trailer.data() + 8, checksums.data(), checksums.size_bytes());
  }
}

absl::Status TrailerStatus(ConstBytes trailer) {
  if (trailer.size() < 8 || trailer.size() % 8 != 0) {
    return absl::UnavailableError("malformed frame: trailer");
  }
  const uint64_t code = LoadLe<uint64_t>(trailer.data());
  if (code == 0) return absl::OkStatus();
  const auto status = static_cast<absl::StatusCode>(code);
  if (status != absl::StatusCode::kDataLoss &&
      status != absl::StatusCode::kUnavailable) {
    return absl::UnavailableError("malformed frame: trailer status");
  }
  return absl::Status(status, "the sender failed while it sent the payload");
}

uint32_t TrailerChecksumCount(ConstBytes trailer) {
  if (trailer.size() < 8) return 0;
  return static_cast<uint32_t>(trailer.size() / 8 - 1);
}

uint64_t TrailerChecksum(ConstBytes trailer, uint32_t index) {
  CAIRN_CHECK(index < TrailerChecksumCount(trailer));
  return LoadLe<uint64_t>(trailer.data() + 8 * (1 + size_t{index}));
}

}  // namespace cairn::format
