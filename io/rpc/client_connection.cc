#include "io/rpc/client_connection.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "format/wire/common.pb.h"
#include "io/rpc/limits.h"

namespace cairn::io::internal {
namespace {

using format::FrameHeader;
using format::FrameKind;

// The caller's patience on the wire: rounded up, 0 for none.
uint32_t TimeoutMs(TimeNs now, TimeNs deadline) {
  if (deadline == kNoDeadline) return 0;
  const TimeNs left = deadline > now ? deadline - now : 0;
  constexpr TimeNs kMost = std::numeric_limits<uint32_t>::max();
  const TimeNs rounded = (left + kMillisecond - 1) / kMillisecond;
  return static_cast<uint32_t>(std::clamp<TimeNs>(rounded, 1, kMost));
}

absl::Status ErrorOf(const Frame& frame) {
  wire::Error error;
  if (!error.ParseFromString(frame.body)) error.set_message("no message");
  return absl::Status(static_cast<absl::StatusCode>(frame.header.status),
                      error.message());
}

}  // namespace

std::string Describe(format::Method method, const ChannelOptions& options) {
  std::string name(format::MethodName(method));
  if (name.empty()) {
    name = absl::StrCat("method ", static_cast<uint16_t>(method));
  }
  return absl::StrCat(name, " to ", options.server_name, " (", options.address,
                      ")");
}

// Lives in Exchange()'s frame; in pending_ until it is answered or given up.
struct ClientConnection::PendingCall {
  PendingCall(Env* env, const CallOptions& options)
      : wake(env),
        sink(options.sink),
        deadline(options.deadline),
        queued_at(env->NowNs()) {}
  WaitQueue wake;
  PayloadSink* const sink;
  const TimeNs deadline;
  const TimeNs queued_at;
  uint64_t id = 0;
  bool done = false;       // status and body are set.
  bool lost = false;       // With the connection.
  bool receiving = false;  // The kernel may have the sink's memory.
  absl::Status status;
  std::string body;

  void Finish(absl::Status result) {
    status = std::move(result);
    done = true;
    receiving = false;
    wake.WakeAll();
  }
};

ClientConnection::ClientConnection(Env* env, const ChannelOptions* options,
                                   std::unique_ptr<Stream> stream)
    : env_(env),
      options_(options),
      stream_(std::move(stream)),
      reader_(env, stream_.get(), ReadAhead{options->read_ahead_bytes, false}),
      writer_(env, stream_.get()),
      calls_(env),
      writing_(env) {}

ClientConnection::~ClientConnection() { CAIRN_CHECK(pending_.empty()); }

Task<absl::StatusOr<ServerIdentity>> ClientConnection::Handshake(
    TimeNs timeout) {
  StallWatch watch(env_, stream_.get(), timeout);
  watch.Begin();
  absl::StatusOr<ServerIdentity> server = co_await ShakeHands();
  watch.End();
  if (!server.ok() || broken_) {
    stream_->Shutdown();
    co_await stream_->Close();
  }
  if (watch.stalled()) {
    server = absl::UnavailableError("the handshake took too long");
  } else if (broken_) {
    server = absl::UnavailableError(why_broken_);
  }
  co_return server;
}

Task<absl::StatusOr<ServerIdentity>> ClientConnection::ShakeHands() {
  const std::string body = EncodeHello(*options_);
  FrameHeader header;
  header.kind = static_cast<uint8_t>(FrameKind::kHello);
  header.body_bytes = static_cast<uint32_t>(body.size());
  format::SealFrameHeader(&header, format::AsBytes(body));
  const ConstBytes header_bytes(reinterpret_cast<const uint8_t*>(&header),
                                sizeof(header));
  const std::array<ConstBytes, 2> parts = {header_bytes, format::AsBytes(body)};
  CAIRN_CO_RETURN_IF_ERROR(co_await stream_->SendAll(parts));
  absl::StatusOr<Frame> answer =
      co_await reader_.ReadFrame(kHandshakeBodyBytesMax);
  if (!answer.ok()) co_return answer.status();
  co_return AcceptHelloAck(answer->header, answer->body, *options_);
}

Task<void> ClientConnection::Run(std::function<void()> on_break) {
  CAIRN_CHECK(!broken_);
  on_break_ = std::move(on_break);
  writing_.Spawn(writer_.Run());
  const absl::Status why = co_await ReadLoop();
  if (writer_.stalled()) {
    Break("the server does not read");
  } else {
    Break(std::string(why.message()));
  }
  co_await writing_.Close();
  co_await calls_.Close();
  co_await stream_->Close();
}

Task<absl::Status> ClientConnection::ReadLoop() {
  while (true) {
    absl::StatusOr<Frame> frame =
        co_await reader_.ReadFrame(format::kFrameBodyBytesMax);
    if (!frame.ok()) co_return frame.status();
    last_arrival_ = env_->NowNs();
    if (frame->header.kind != static_cast<uint8_t>(FrameKind::kResponse)) {
      co_return absl::DataLossError("the server sent no response");
    }
    absl::Status taken = co_await TakeResponse(*std::move(frame));
    if (!taken.ok()) co_return taken;
  }
}

Task<absl::Status> ClientConnection::TakeResponse(Frame frame) {
  const FrameHeader header = frame.header;
  const auto found = pending_.find(header.request_id);
  if (found == pending_.end()) {
    // Late, or a duplicate: whoever asked has left.
    co_return co_await reader_.SkipPayload(header);
  }
  PendingCall* const call = found->second;
  answered_ = true;
  PayloadResult result;
  if (header.status != 0) {
    result.sink = ErrorOf(frame);
  } else if (call->sink != nullptr) {
    call->receiving = true;
    result = co_await reader_.ReadPayload(header, frame.body, call->sink);
  } else if (header.payload_bytes > 0) {
    // Meanwhile the call may give up: it must not be touched after this.
    pending_.erase(found);
    call->body = std::move(frame.body);
    call->Finish(absl::OkStatus());
    co_return co_await reader_.SkipPayload(header);
  }
  pending_.erase(header.request_id);
  call->body = std::move(frame.body);
  call->lost = !result.stream.ok();
  if (call->lost) {
    Break(std::string(result.stream.message()));
    result.sink = Lost();
  }
  call->Finish(result.sink);
  co_return result.stream;
}

Task<absl::StatusOr<std::string>> ClientConnection::Exchange(
    format::Method method, std::string body, CallOptions options) {
  const Gate::Hold hold = calls_.Enter();
  if (broken_) co_return Annotate(Lost(), Describe(method, *options_));
  PendingCall call(env_, options);
  call.id = next_id_++;
  SendTicket ticket(&call.wake);
  FrameHeader header;
  header.kind = static_cast<uint8_t>(FrameKind::kRequest);
  header.method = static_cast<uint16_t>(method);
  header.request_id = call.id;
  header.traffic_class = static_cast<uint16_t>(options.traffic_class);
  header.timeout_ms = TimeoutMs(call.queued_at, options.deadline);
  pending_.emplace(call.id, &call);
  writer_.Queue(header, std::move(body), options.source, &ticket);
  const bool in_time = co_await Await(&call, &ticket);
  if (!in_time) {
    co_await Abandon(&call, &ticket);
    co_return absl::DeadlineExceededError(
        absl::StrCat(Describe(method, *options_), ": no answer within ",
                     (env_->NowNs() - call.queued_at) / kMillisecond, " ms"));
  }
  if (call.lost) co_return Annotate(call.status, Describe(method, *options_));
  if (!call.status.ok()) co_return call.status;
  co_return std::move(call.body);
}

Task<bool> ClientConnection::Await(PendingCall* call, SendTicket* ticket) {
  WaitResult woken = WaitResult::kWoken;
  while (true) {
    // An answered call still has to get its source's memory back.
    if (call->done && writer_.GiveUp(ticket)) co_return true;
    if (woken != WaitResult::kWoken) co_return false;
    woken = co_await call->wake.Wait(call->deadline);
  }
}

Task<void> ClientConnection::Abandon(PendingCall* call, SendTicket* ticket) {
  const bool unsent = writer_.GiveUp(ticket);
  if (!unsent || call->receiving) {
    Break("a call's deadline passed in the middle of its payload");
  } else if (PeerIsSilent(*call)) {
    Break("nothing arrived while a call waited to its deadline");
  }
  while (!ticket->done() || call->receiving) co_await call->wake.Wait();
  pending_.erase(call->id);
}

bool ClientConnection::PeerIsSilent(const PendingCall& call) const {
  return !reader_.inside_frame() && last_arrival_ <= call.queued_at &&
         env_->NowNs() - call.queued_at >= kSilentPeerTimeout;
}

void ClientConnection::Break(std::string why) {
  if (broken_) return;
  broken_ = true;
  why_broken_ = std::move(why);
  writer_.Stop();
  if (on_break_) on_break_();
  // A call that is being received is finished by the read loop, when the kernel
  // has given its memory back.
  std::vector<uint64_t> lost;
  for (const auto& [id, call] : pending_) {
    if (!call->receiving) lost.push_back(id);
  }
  // A hash table's order changes from run to run; a seed's must not.
  std::sort(lost.begin(), lost.end());
  for (const uint64_t id : lost) {
    PendingCall* const call = pending_.extract(id).mapped();
    call->lost = true;
    call->Finish(Lost());
  }
}

absl::Status ClientConnection::Lost() const {
  return absl::UnavailableError(absl::StrCat("connection lost: ", why_broken_));
}

}  // namespace cairn::io::internal
