#include "io/rpc/frame_writer.h"

#include <utility>

#include "io/rpc/limits.h"

namespace cairn::io::internal {
namespace {

ConstBytes HeaderBytes(const OutgoingFrame& frame) {
  return {reinterpret_cast<const uint8_t*>(&frame.header),
          sizeof(frame.header)};
}

}  // namespace

FrameWriter::FrameWriter(Executor* executor, Stream* stream)
    : stream_(stream),
      watch_(executor, stream, kWriteStallTimeout),
      wake_(executor) {
  spans_.reserve(2 * kGatherFramesMax);
}

FrameWriter::~FrameWriter() { CAIRN_CHECK(queue_.empty() && sending_.empty()); }

void FrameWriter::Queue(format::FrameHeader header, std::string body,
                        PayloadSource* source, SendTicket* ticket) {
  CAIRN_CHECK(ticket == nullptr || ticket->done());
  if (stopped_) return;
  if (source != nullptr && source->size_bytes() == 0) source = nullptr;
  header.body_bytes = static_cast<uint32_t>(body.size());
  if (source != nullptr) {
    header.payload_bytes = source->size_bytes();
    header.trailer_bytes = source->trailer_bytes();
  }
  format::SealFrameHeader(&header, format::AsBytes(body));
  OutgoingFrame& frame = queue_.emplace_back();
  frame.header = header;
  frame.body = std::move(body);
  frame.source = source;
  frame.ticket = ticket;
  if (ticket != nullptr) ticket->frame_ = &frame;
  wake_.WakeOne();
}

bool FrameWriter::GiveUp(SendTicket* ticket) {
  OutgoingFrame* const frame = ticket->frame_;
  if (frame == nullptr) return true;
  if (frame->sending && frame->source != nullptr) return false;
  frame->ticket = nullptr;
  ticket->frame_ = nullptr;
  if (!frame->sending) {
    queue_.remove_if([frame](const OutgoingFrame& f) { return &f == frame; });
  }
  return true;
}

Task<void> FrameWriter::Run() {
  while (!stopped_) {
    if (queue_.empty()) {
      co_await wake_.Wait();
      continue;
    }
    absl::Status sent;
    if (queue_.front().source == nullptr) {
      sent = co_await SendGathered();
    } else {
      sent = co_await SendWithPayload();
    }
    Finish(&sending_);
    if (!sent.ok()) Stop();
  }
}

void FrameWriter::Stop() {
  if (stopped_) return;
  stopped_ = true;
  stream_->Shutdown();
  Finish(&queue_);
  wake_.WakeAll();
}

void FrameWriter::Begin() {
  queue_.front().sending = true;
  sending_.splice(sending_.end(), queue_, queue_.begin());
}

void FrameWriter::Finish(Frames* frames) {
  for (OutgoingFrame& frame : *frames) {
    if (frame.ticket == nullptr) continue;
    frame.ticket->frame_ = nullptr;
    frame.ticket->wake_->WakeAll();
  }
  frames->clear();
}

Task<absl::Status> FrameWriter::SendGathered() {
  uint64_t bytes = 0;
  spans_.clear();
  while (!queue_.empty() && queue_.front().source == nullptr &&
         sending_.size() < kGatherFramesMax && bytes < kGatherBytesMax) {
    Begin();
    const OutgoingFrame& frame = sending_.back();
    spans_.push_back(HeaderBytes(frame));
    if (!frame.body.empty()) spans_.push_back(format::AsBytes(frame.body));
    bytes += sizeof(frame.header) + frame.body.size();
  }
  co_return co_await SendSpans(false);
}

Task<absl::Status> FrameWriter::SendWithPayload() {
  Begin();
  OutgoingFrame* const frame = &sending_.back();
  spans_.clear();
  spans_.push_back(HeaderBytes(*frame));
  if (!frame->body.empty()) spans_.push_back(format::AsBytes(frame->body));
  uint64_t left = frame->header.payload_bytes;
  while (left > 0) {
    left -= AddPiece(frame, left);
    absl::Status sent = co_await SendSpans(left > 0);
    if (!sent.ok()) co_return sent;
    spans_.clear();
  }
  co_return absl::OkStatus();
}

// Makes the next piece right before it is sent, while it is in cache from
// having been hashed. Returns its length.
uint64_t FrameWriter::AddPiece(OutgoingFrame* frame, uint64_t left) {
  const std::span<const ConstBytes> piece = frame->source->Next();
  CAIRN_CHECK(piece.size() <= kPieceSpansMax);
  uint64_t bytes = 0;
  for (const ConstBytes part : piece) {
    if (!part.empty()) spans_.push_back(part);
    bytes += part.size();
  }
  CAIRN_CHECK(bytes > 0 && bytes <= left);
  if (bytes == left) {
    const ConstBytes trailer = frame->source->Trailer();
    CAIRN_CHECK(trailer.size() == frame->header.trailer_bytes);
    spans_.push_back(trailer);
  }
  return bytes;
}

Task<absl::Status> FrameWriter::SendSpans(bool more) {
  watch_.Begin();
  absl::Status sent = co_await stream_->SendAll(spans_, more);
  watch_.End();
  co_return sent;
}

}  // namespace cairn::io::internal
