// A FrameWriter sends frames over one stream, in the order they were queued.
//
// Frames without payload that wait together go out in one send call. A payload
// is sent piece by piece as its source makes it; header, body and first piece
// share a call, and so do last piece and trailer.
//
// Threads:  belongs to the stream's loop.
// Lifetime: the stream outlives it; Run() has ended before it is destroyed.
// Memory:   header and body are the writer's. A source's memory is in use from
//           Queue() until its ticket is done.
#pragma once

#include <list>
#include <string>
#include <vector>

#include "format/wire/frame.h"
#include "io/env.h"
#include "io/rpc/payload.h"
#include "io/rpc/stall_watch.h"

namespace cairn::io::internal {

class FrameWriter;
struct OutgoingFrame;

// What the owner of a queued frame looks at. It stays alive until it is done,
// or the frame was withdrawn or detached.
class SendTicket {
 public:
  // `wake` is woken when the frame is done.
  explicit SendTicket(WaitQueue* wake) : wake_(wake) {}
  SendTicket(const SendTicket&) = delete;
  SendTicket& operator=(const SendTicket&) = delete;
  ~SendTicket() { CAIRN_CHECK(frame_ == nullptr); }

  // Sent, or never to be: the writer uses nothing of it any more.
  bool done() const { return frame_ == nullptr; }

 private:
  friend class FrameWriter;
  WaitQueue* const wake_;
  OutgoingFrame* frame_ = nullptr;  // In the writer's lists.
};

struct OutgoingFrame {
  format::FrameHeader header;
  std::string body;
  PayloadSource* source = nullptr;
  SendTicket* ticket = nullptr;  // Null: nobody waits for it.
  bool sending = false;
};

class FrameWriter {
 public:
  FrameWriter(Executor* executor, Stream* stream);
  ~FrameWriter();

  // Takes a frame; fills in the header's lengths and checksums. `source` may be
  // null; an empty one is no payload. After Stop() the ticket is done at once.
  void Queue(format::FrameHeader header, std::string body,
             PayloadSource* source, SendTicket* ticket);

  // Gives the frame up if that needs no waiting: one that was not begun is
  // dropped, one without a payload goes out unwatched. Then the ticket is done.
  // False: its payload is being sent.
  bool GiveUp(SendTicket* ticket);

  // Sends until Stop().
  Task<void> Run();
  // Breaks the stream and drops what is queued. What is being sent is done
  // when the kernel has returned it. Idempotent.
  void Stop();
  bool stalled() const { return watch_.stalled(); }

 private:
  using Frames = std::list<OutgoingFrame>;
  void Begin();  // Moves the first frame from queue_ to sending_.
  void Finish(Frames* frames);
  Task<absl::Status> SendGathered();
  Task<absl::Status> SendWithPayload();
  Task<absl::Status> SendSpans(bool more);
  uint64_t AddPiece(OutgoingFrame* frame, uint64_t left);

  Stream* const stream_;
  StallWatch watch_;
  WaitQueue wake_;
  Frames queue_;
  Frames sending_;
  std::vector<ConstBytes> spans_;  // Of the send call in progress.
  bool stopped_ = false;
};

}  // namespace cairn::io::internal
