// A FrameReader takes frames off one stream: header and body into memory of its
// own, the payload straight to where a sink wants it.
//
// Without read-ahead every receive call is for exactly the bytes that come
// next, so that no payload byte is copied. With it, many small frames come with
// one call, and the part of a payload that was read ahead is copied.
//
// Threads:  belongs to the stream's loop; one call at a time.
// Lifetime: the stream outlives it.
// Errors:   kUnavailable: the stream ended or broke. kDataLoss,
//           kFailedPrecondition: what arrived is no frame, or a newer one;
//           nothing after it can be trusted, close the stream.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "format/wire/frame.h"
#include "io/env.h"
#include "io/rpc/payload.h"
#include "io/rpc/stall_watch.h"

namespace cairn::io::internal {

struct ReadAhead {
  uint32_t bytes = 0;     // 0: none.
  bool adaptive = false;  // With 0: some while only small frames come.
};

struct Frame {
  format::FrameHeader header;
  std::string body;
};

struct PayloadResult {
  absl::Status
      stream;         // Not OK: the stream is broken, the payload is not here.
  absl::Status sink;  // What the sink, or the sender, said of the payload.
};

class FrameReader {
 public:
  FrameReader(Executor* executor, Stream* stream, ReadAhead read_ahead);
  FrameReader(const FrameReader&) = delete;
  FrameReader& operator=(const FrameReader&) = delete;

  // The next header and body, both verified. The payload of the frame before
  // was read or skipped.
  Task<absl::StatusOr<Frame>> ReadFrame(uint64_t body_bytes_max);

  // After ReadFrame(); `body` is the frame's. The sink's memory is in use until
  // this ends, also when it fails.
  Task<PayloadResult> ReadPayload(format::FrameHeader header,
                                  std::string_view body, PayloadSink* sink);
  Task<absl::Status> SkipPayload(format::FrameHeader header);

  // True from a frame's header to the end of its trailer.
  bool inside_frame() const { return inside_frame_; }
  // The peer closed the stream where a frame would begin.
  bool ended() const { return ended_; }

 private:
  bool reads_ahead() const;
  Task<absl::Status> ReadHeader();
  Task<absl::Status> Receive(MutableBytes to);
  // Fills spans_: from the buffer, then from the stream.
  Task<absl::Status> ReceiveSpans();
  // Reads ahead until the buffer has `size` bytes (at most its capacity).
  Task<absl::Status> FillBuffer(uint64_t size);
  uint64_t AddPiece(PayloadSink* sink, uint64_t left, MutableBytes trailer);
  void DrainBuffer();

  Stream* const stream_;
  const ReadAhead read_ahead_;
  StallWatch watch_;
  std::vector<uint8_t> buffer_;  // Read-ahead; bytes [begin_, end_) are unread.
  uint64_t begin_ = 0;
  uint64_t end_ = 0;
  uint32_t small_frames_ = 0;  // In a row.
  bool inside_frame_ = false;
  bool ended_ = false;
  std::vector<MutableBytes> spans_;  // Of the receive call in progress.
  std::array<uint8_t, sizeof(format::FrameHeader)> header_;
  std::array<uint8_t, format::kFrameTrailerBytesMax> trailer_;
  std::vector<uint8_t> skipped_;
};

}  // namespace cairn::io::internal
