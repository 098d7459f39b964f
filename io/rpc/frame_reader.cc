#include "io/rpc/frame_reader.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "io/rpc/limits.h"

namespace cairn::io::internal {
namespace {

constexpr uint64_t kHeaderBytes = sizeof(format::FrameHeader);

}  // namespace

FrameReader::FrameReader(Executor* executor, Stream* stream,
                         ReadAhead read_ahead)
    : stream_(stream),
      read_ahead_(read_ahead),
      watch_(executor, stream, kReadStallTimeout) {}

bool FrameReader::reads_ahead() const {
  if (read_ahead_.bytes > 0) return true;
  return read_ahead_.adaptive && small_frames_ >= kAdaptiveSmallFrames;
}

Task<absl::StatusOr<Frame>> FrameReader::ReadFrame(uint64_t body_bytes_max) {
  inside_frame_ = false;
  CAIRN_CO_RETURN_IF_ERROR(co_await ReadHeader());
  inside_frame_ = true;
  Frame frame;
  CAIRN_CO_ASSIGN_OR_RETURN(frame.header, format::ParseFrameHeader(header_));
  if (frame.header.body_bytes > body_bytes_max) {
    co_return absl::DataLossError("malformed frame: body length");
  }
  frame.body.resize(frame.header.body_bytes);
  auto* const body = reinterpret_cast<uint8_t*>(frame.body.data());
  const MutableBytes to(body, frame.body.size());
  CAIRN_CO_RETURN_IF_ERROR(co_await Receive(to));
  CAIRN_CO_RETURN_IF_ERROR(format::CheckFrameBody(frame.header, to));
  if (frame.header.payload_bytes > 0) {
    small_frames_ = 0;
  } else {
    inside_frame_ = false;
    if (small_frames_ < kAdaptiveSmallFrames) ++small_frames_;
  }
  co_return frame;
}

Task<absl::Status> FrameReader::ReadHeader() {
  // Waiting for a frame to begin may take any time: the watch is off.
  if (reads_ahead()) {
    absl::Status buffered = co_await FillBuffer(kHeaderBytes);
    if (!buffered.ok()) co_return buffered;
  }
  spans_.assign(1, MutableBytes(header_));
  DrainBuffer();
  if (spans_.empty()) co_return absl::OkStatus();
  const bool at_start = spans_.front().size() == kHeaderBytes;
  absl::Status received = co_await stream_->ReceiveAll(spans_);
  ended_ = at_start && !received.ok() && received.message() == "end of stream";
  co_return received;
}

Task<absl::Status> FrameReader::Receive(MutableBytes to) {
  if (to.empty()) co_return absl::OkStatus();
  watch_.Begin();
  absl::Status received;
  if (reads_ahead() && to.size() <= buffer_.size()) {
    received = co_await FillBuffer(to.size());
  }
  watch_.End();
  if (!received.ok()) co_return received;
  spans_.assign(1, to);
  co_return co_await ReceiveSpans();
}

Task<absl::Status> FrameReader::ReceiveSpans() {
  DrainBuffer();
  if (spans_.empty()) co_return absl::OkStatus();
  watch_.Begin();
  absl::Status received = co_await stream_->ReceiveAll(spans_);
  watch_.End();
  co_return received;
}

// Moves what was read ahead into the first of spans_, and drops the filled.
void FrameReader::DrainBuffer() {
  size_t filled = 0;
  for (MutableBytes& span : spans_) {
    const uint64_t part = std::min<uint64_t>(span.size(), end_ - begin_);
    if (part > 0) std::memcpy(span.data(), buffer_.data() + begin_, part);
    begin_ += part;
    span = span.subspan(part);
    if (!span.empty()) break;
    ++filled;
  }
  spans_.erase(spans_.begin(),
               spans_.begin() + static_cast<std::ptrdiff_t>(filled));
}

Task<absl::Status> FrameReader::FillBuffer(uint64_t size) {
  if (buffer_.empty()) {
    const uint64_t wanted =
        read_ahead_.bytes > 0 ? read_ahead_.bytes : kAdaptiveReadAheadBytes;
    buffer_.resize(std::max(wanted, kHeaderBytes));
  }
  CAIRN_CHECK(size <= buffer_.size());
  if (begin_ == end_) begin_ = end_ = 0;
  if (buffer_.size() - begin_ < size) {
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= std::exchange(begin_, 0);
  }
  while (end_ - begin_ < size) {
    absl::StatusOr<uint64_t> received =
        co_await stream_->ReceiveSome(MutableBytes(buffer_).subspan(end_));
    if (!received.ok()) co_return received.status();
    if (*received == 0) {
      ended_ = begin_ == end_ && !inside_frame_;
      co_return absl::UnavailableError("end of stream");
    }
    end_ += *received;
  }
  co_return absl::OkStatus();
}

Task<PayloadResult> FrameReader::ReadPayload(format::FrameHeader header,
                                             std::string_view body,
                                             PayloadSink* sink) {
  PayloadResult result;
  result.sink = sink->Begin(header.payload_bytes, header.trailer_bytes, body);
  if (header.payload_bytes == 0) co_return result;
  if (!result.sink.ok()) {
    result.stream = co_await SkipPayload(header);
    co_return result;
  }
  const MutableBytes trailer =
      MutableBytes(trailer_).first(header.trailer_bytes);
  uint64_t left = header.payload_bytes;
  while (left > 0) {
    left -= AddPiece(sink, left, trailer);
    result.stream = co_await ReceiveSpans();
    if (!result.stream.ok()) co_return result;
    sink->Arrived();
  }
  inside_frame_ = false;
  result.sink = format::TrailerStatus(trailer);
  if (result.sink.ok()) result.sink = sink->Finish(trailer);
  co_return result;
}

// Puts the sink's next piece into spans_, and the trailer behind the last one,
// which saves a receive call. Returns the piece's length.
uint64_t FrameReader::AddPiece(PayloadSink* sink, uint64_t left,
                               MutableBytes trailer) {
  const std::span<const MutableBytes> piece = sink->Next(left);
  CAIRN_CHECK(piece.size() <= kPieceSpansMax);
  spans_.clear();
  uint64_t bytes = 0;
  for (const MutableBytes part : piece) {
    if (!part.empty()) spans_.push_back(part);
    bytes += part.size();
  }
  CAIRN_CHECK(bytes > 0 && bytes <= left);
  if (bytes == left) spans_.push_back(trailer);
  return bytes;
}

Task<absl::Status> FrameReader::SkipPayload(format::FrameHeader header) {
  uint64_t left = header.payload_bytes + header.trailer_bytes;
  if (skipped_.empty()) skipped_.resize(kSkipBufferBytes);
  while (left > 0) {
    const uint64_t part = std::min<uint64_t>(left, skipped_.size());
    spans_.assign(1, MutableBytes(skipped_).first(part));
    absl::Status received = co_await ReceiveSpans();
    if (!received.ok()) co_return received;
    left -= part;
  }
  inside_frame_ = false;
  co_return absl::OkStatus();
}

}  // namespace cairn::io::internal
