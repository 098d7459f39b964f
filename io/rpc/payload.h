// Where a frame's payload comes from and goes to, without a copy.
//
// A PayloadSource hands out user or pool memory piece by piece and makes the
// trailer (checksums) while it does; a PayloadSink says where the next bytes
// go and checks the trailer. Pieces should be about kPieceBytes, so that what
// was just hashed is sent, and what just arrived is hashed, while it is in L2.
//
// Threads:  called on the connection's loop; none of the methods suspends.
// Lifetime: source, sink and the memory they name stay until the call that got
//           them has finished.
#pragma once

#include <cstdint>
#include <span>

#include "format/base/bytes.h"
#include "format/base/status.h"

namespace cairn::io {

inline constexpr uint64_t kPieceBytes = 1024 * 1024;
// Spans per piece; more are split over several system calls.
inline constexpr uint32_t kPieceSpansMax = 256;

class PayloadSource {
 public:
  virtual ~PayloadSource() = default;
  virtual uint64_t size_bytes() const = 0;
  virtual uint32_t trailer_bytes() const = 0;
  // The next bytes to send, in order: at most kPieceSpansMax spans, at least
  // one byte until size_bytes() were handed out.
  virtual std::span<const format::ConstBytes> Next() = 0;
  // Called once, after the last Next(); trailer_bytes() long.
  virtual format::ConstBytes Trailer() = 0;
};

class PayloadSink {
 public:
  virtual ~PayloadSink() = default;
  // Called once, before any Next(), with what the frame header announces and
  // its body. An error: the payload is skipped and the call gets the error.
  virtual absl::Status Begin(uint64_t payload_bytes, uint32_t trailer_bytes,
                             std::string_view body) = 0;
  // Where the next bytes go: 1 byte to `remaining` bytes in all, at most
  // kPieceSpansMax spans.
  virtual std::span<const format::MutableBytes> Next(uint64_t remaining) = 0;
  // The bytes asked for by the last Next() have arrived, all of them.
  virtual void Arrived() = 0;
  // The whole payload is here; verify it. kDataLoss: checksums differ.
  virtual absl::Status Finish(format::ConstBytes trailer) = 0;
};

}  // namespace cairn::io
