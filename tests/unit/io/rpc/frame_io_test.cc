// FrameWriter and FrameReader over a stream that records its calls: how many
// there are, and whose memory they are for.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "io/rpc/frame_reader.h"
#include "io/rpc/frame_writer.h"
#include "io/rpc/limits.h"
#include "io/rpc/log_limiter.h"
#include "tests/sim/world.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/io/rpc/rig.h"

namespace cairn::io {
namespace {

using ::cairn::testing::IsOk;
using ::cairn::testing::StatusIs;
using format::FrameHeader;
using format::FrameKind;
using format::Method;
using internal::Frame;
using internal::FrameReader;
using internal::FrameWriter;
using internal::LogLimiter;
using internal::PayloadResult;
using internal::ReadAhead;
using internal::SendTicket;
using internal::StallWatch;

class ScriptedStream final : public Stream {
 public:
  struct Send {
    std::string bytes;
    size_t spans = 0;
    bool more = false;
  };
  explicit ScriptedStream(Executor* executor) : broken(executor) {}

  Task<absl::Status> ReceiveAll(std::span<const MutableBytes> to) override {
    for (const MutableBytes part : to) {
      if (input.size() - taken < part.size()) {
        co_return absl::UnavailableError("end of stream");
      }
      std::copy_n(input.begin() + static_cast<std::ptrdiff_t>(taken),
                  part.size(), part.begin());
      taken += part.size();
      received_into.push_back(part);
    }
    ++receives;
    co_return absl::OkStatus();
  }
  Task<absl::StatusOr<uint64_t>> ReceiveSome(MutableBytes to) override {
    const size_t size = std::min(to.size(), input.size() - taken);
    std::copy_n(input.begin() + static_cast<std::ptrdiff_t>(taken), size,
                to.begin());
    taken += size;
    ++receives;
    co_return uint64_t{size};
  }
  Task<absl::Status> SendAll(std::span<const ConstBytes> from,
                             bool more) override {
    Send send;
    send.spans = from.size();
    send.more = more;
    for (const ConstBytes part : from) send.bytes += format::AsText(part);
    sends.push_back(std::move(send));
    if (hang) {
      co_await broken.Wait();
      co_return absl::UnavailableError("shut down");
    }
    co_return absl::OkStatus();
  }
  void Shutdown() override { broken.Set(); }
  std::string peer() const override { return "script"; }
  Task<void> Close() override { co_return; }

  std::string input;
  size_t taken = 0;
  int receives = 0;
  std::vector<MutableBytes> received_into;
  std::vector<Send> sends;
  bool hang = false;
  Event broken;
};

struct Bench {
  Bench() : world(sim::WorldOptions()), stream(&world), gate(&world) {}
  sim::World world;
  ScriptedStream stream;
  Gate gate;
};

TEST(FrameWriter, SmallFramesThatWaitTogetherShareOneSend) {
  Bench b;
  FrameWriter writer(&b.world, &b.stream);
  WaitQueue wake(&b.world);
  std::vector<std::unique_ptr<SendTicket>> tickets;
  for (uint64_t id = 0; id < 10; ++id) {
    tickets.push_back(std::make_unique<SendTicket>(&wake));
    writer.Queue(RequestOf(Method::kPing, id), "body", nullptr,
                 tickets.back().get());
  }
  b.gate.Spawn(writer.Run());
  b.world.RunUntilIdle();
  ASSERT_EQ(b.stream.sends.size(), 1u);
  EXPECT_EQ(b.stream.sends[0].bytes.size(), 10 * (64u + 4));
  EXPECT_FALSE(b.stream.sends[0].more);
  for (const auto& ticket : tickets) EXPECT_TRUE(ticket->done());
  writer.Stop();
  b.world.Run(b.gate.Close());
}

TEST(FrameWriter, PayloadGoesOutAsItLiesWithHeaderAndTrailerInItsPieces) {
  Bench b;
  FrameWriter writer(&b.world, &b.stream);
  WaitQueue wake(&b.world);
  const std::vector<uint8_t> bytes = Pattern(250'000, 1);
  MemorySource source(bytes, 100'000);
  SendTicket ticket(&wake);
  writer.Queue(RequestOf(Method::kPutChunk, 1), "b", &source, &ticket);
  b.gate.Spawn(writer.Run());
  b.world.RunUntilIdle();
  EXPECT_TRUE(ticket.done());
  ASSERT_EQ(b.stream.sends.size(), 3u);  // One for each piece.
  EXPECT_EQ(b.stream.sends[0].bytes.size(), 64u + 1 + 100'000);
  EXPECT_TRUE(b.stream.sends[0].more);
  EXPECT_TRUE(b.stream.sends[1].more);
  EXPECT_FALSE(b.stream.sends[2].more);
  EXPECT_EQ(b.stream.sends[2].bytes.size(), 50'000 + source.trailer_bytes());
  writer.Stop();
  b.world.Run(b.gate.Close());
}

TEST(FrameWriter, WithdrawnFrameIsNeverSent) {
  Bench b;
  FrameWriter writer(&b.world, &b.stream);
  WaitQueue wake(&b.world);
  const std::vector<uint8_t> bytes = Pattern(1000, 1);
  MemorySource source(bytes);
  SendTicket ticket(&wake);
  writer.Queue(RequestOf(Method::kPutChunk, 1), "", &source, &ticket);
  EXPECT_TRUE(writer.GiveUp(&ticket));
  EXPECT_TRUE(ticket.done());
  b.gate.Spawn(writer.Run());
  b.world.RunUntilIdle();
  EXPECT_TRUE(b.stream.sends.empty());
  writer.Stop();
  b.world.Run(b.gate.Close());
}

TEST(FrameWriter, PayloadInTheKernelIsNotGivenUp) {
  Bench b;
  FrameWriter writer(&b.world, &b.stream);
  WaitQueue wake(&b.world);
  const std::vector<uint8_t> bytes = Pattern(1000, 1);
  MemorySource source(bytes);
  SendTicket ticket(&wake);
  b.stream.hang = true;
  writer.Queue(RequestOf(Method::kPutChunk, 1), "", &source, &ticket);
  b.gate.Spawn(writer.Run());
  EXPECT_FALSE(writer.GiveUp(&ticket));
  writer.Stop();
  EXPECT_FALSE(ticket.done());  // Not before the send call has ended.
  b.world.Run(b.gate.Close());
  EXPECT_TRUE(ticket.done());
}

TEST(FrameWriter, SmallFrameInTheKernelIsGivenUpAtOnce) {
  Bench b;
  FrameWriter writer(&b.world, &b.stream);
  WaitQueue wake(&b.world);
  b.stream.hang = true;
  {
    SendTicket ticket(&wake);
    writer.Queue(RequestOf(Method::kPing, 1), "body", nullptr, &ticket);
    b.gate.Spawn(writer.Run());
    EXPECT_TRUE(writer.GiveUp(&ticket));
  }
  writer.Stop();
  b.world.Run(b.gate.Close());
}

TEST(FrameWriter, SendWithoutProgressBreaksTheStream) {
  Bench b;
  FrameWriter writer(&b.world, &b.stream);
  WaitQueue wake(&b.world);
  SendTicket ticket(&wake);
  b.stream.hang = true;
  writer.Queue(RequestOf(Method::kPing, 1), "", nullptr, &ticket);
  b.gate.Spawn(writer.Run());
  b.world.RunUntil(b.world.NowNs() + kWriteStallTimeout - kSecond);
  EXPECT_FALSE(b.stream.broken.is_set());
  b.world.RunUntil(b.world.NowNs() + 2 * kSecond);
  EXPECT_TRUE(b.stream.broken.is_set());
  EXPECT_TRUE(writer.stalled());
  EXPECT_TRUE(ticket.done());
  // Later frames end at once.
  writer.Queue(RequestOf(Method::kPing, 2), "", nullptr, &ticket);
  EXPECT_TRUE(ticket.done());
  b.world.Run(b.gate.Close());
}

TEST(StallWatch, ManyQuickOperationsAreNotAStall) {
  Bench b;
  StallWatch watch(&b.world, &b.stream, kSecond);
  for (int i = 0; i < 20; ++i) {
    watch.Begin();
    b.world.RunUntil(b.world.NowNs() + 900 * kMillisecond);
    watch.End();
  }
  EXPECT_FALSE(b.stream.broken.is_set());
  watch.Begin();
  b.world.RunUntil(b.world.NowNs() + 1100 * kMillisecond);
  EXPECT_TRUE(watch.stalled());
  watch.End();
}

// Reads frames to the end of the script; payloads go to `memory`.
Task<void> ReadAll(FrameReader* reader, std::vector<uint8_t>* memory,
                   std::vector<std::string>* bodies, absl::Status* end) {
  while (true) {
    absl::StatusOr<Frame> frame =
        co_await reader->ReadFrame(format::kFrameBodyBytesMax);
    if (!frame.ok()) {
      *end = frame.status();
      co_return;
    }
    bodies->push_back(frame->body);
    if (frame->header.payload_bytes == 0) continue;
    MemorySink sink(*memory, 100'000);
    const PayloadResult result =
        co_await reader->ReadPayload(frame->header, frame->body, &sink);
    EXPECT_THAT(result.stream, IsOk());
    EXPECT_THAT(result.sink, IsOk());
  }
}

std::string PayloadFrame(const std::vector<uint8_t>& bytes) {
  MemorySource source(bytes, bytes.size());
  source.Next();
  FrameHeader header = RequestOf(Method::kPutChunk, 2);
  header.payload_bytes = source.size_bytes();
  header.trailer_bytes = source.trailer_bytes();
  std::string wire = Wire(header, "with payload");
  wire += format::AsText(bytes);
  wire += format::AsText(source.Trailer());
  return wire;
}

TEST(FrameReader, PayloadIsReceivedStraightIntoTheSinksMemory) {
  Bench b;
  const std::vector<uint8_t> bytes = Pattern(250'000, 1);
  b.stream.input = PayloadFrame(bytes);
  FrameReader reader(&b.world, &b.stream, ReadAhead());
  std::vector<uint8_t> memory(bytes.size());
  std::vector<std::string> bodies;
  absl::Status end;
  b.world.Run(ReadAll(&reader, &memory, &bodies, &end));
  EXPECT_TRUE(memory == bytes);
  uint64_t direct = 0;
  for (const MutableBytes part : b.stream.received_into) {
    const bool inside = part.data() >= memory.data() &&
                        part.data() < memory.data() + memory.size();
    if (inside) direct += part.size();
  }
  EXPECT_EQ(direct, bytes.size());
  // Header, body, three pieces; the trailer comes with the last.
  EXPECT_EQ(b.stream.receives, 5);
  EXPECT_TRUE(reader.ended());
}

std::string SmallFrames(int count) {
  std::string wire;
  for (int i = 0; i < count; ++i) {
    wire += Wire(RequestOf(Method::kPing, 1), std::to_string(i));
  }
  return wire;
}

TEST(FrameReader, ReadAheadTakesManySmallFramesAtOnce) {
  Bench b;
  b.stream.input = SmallFrames(50);
  FrameReader reader(&b.world, &b.stream, ReadAhead{65536, false});
  std::vector<uint8_t> memory;
  std::vector<std::string> bodies;
  absl::Status end;
  b.world.Run(ReadAll(&reader, &memory, &bodies, &end));
  EXPECT_EQ(bodies.size(), 50u);
  EXPECT_EQ(b.stream.receives, 2);  // The second finds the end.
  EXPECT_TRUE(reader.ended());
}

TEST(FrameReader, AdaptiveReadAheadStopsAtAPayload) {
  Bench b;
  const std::vector<uint8_t> bytes = Pattern(250'000, 1);
  // Small ones, payload in the middle of what is read ahead, payload, small.
  b.stream.input = SmallFrames(20) + PayloadFrame(bytes) + PayloadFrame(bytes) +
                   SmallFrames(20);
  FrameReader reader(&b.world, &b.stream, ReadAhead{0, true});
  std::vector<uint8_t> memory(bytes.size());
  std::vector<std::string> bodies;
  absl::Status end;
  b.world.Run(ReadAll(&reader, &memory, &bodies, &end));
  EXPECT_EQ(bodies.size(), 42u);
  EXPECT_TRUE(memory == bytes);
  uint64_t direct = 0;
  for (const MutableBytes part : b.stream.received_into) {
    const bool inside = part.data() >= memory.data() &&
                        part.data() < memory.data() + memory.size();
    if (inside) direct += part.size();
  }
  EXPECT_GE(direct, 2 * bytes.size() - kAdaptiveReadAheadBytes);
  EXPECT_LT(b.stream.receives, 35);
}

TEST(FrameReader, EndInsideAFrameIsUnavailable) {
  for (const size_t cut : {size_t{1}, size_t{63}, size_t{64}, size_t{65}}) {
    for (const uint32_t read_ahead : {0u, 65536u}) {
      Bench b;
      b.stream.input = SmallFrames(1).substr(0, cut);
      FrameReader reader(&b.world, &b.stream, ReadAhead{read_ahead, false});
      std::vector<uint8_t> memory;
      std::vector<std::string> bodies;
      absl::Status end;
      b.world.Run(ReadAll(&reader, &memory, &bodies, &end));
      if (cut == 65) continue;  // The whole frame.
      EXPECT_THAT(end, StatusIs(absl::StatusCode::kUnavailable, ""));
    }
  }
}

TEST(LogLimiter, CountsWhatItHoldsBack) {
  LogLimiter limiter(kSecond);
  EXPECT_EQ(limiter.Admit(kSecond), 0u);
  EXPECT_EQ(limiter.Admit(kSecond + 1), std::nullopt);
  EXPECT_EQ(limiter.Admit(2 * kSecond - 1), std::nullopt);
  EXPECT_EQ(limiter.Admit(2 * kSecond), 2u);
  EXPECT_EQ(limiter.Admit(5 * kSecond), 0u);
}

}  // namespace
}  // namespace cairn::io
