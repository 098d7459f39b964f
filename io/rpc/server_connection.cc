#include "io/rpc/server_connection.h"

#include <array>
#include <utility>

#include "format/wire/common.pb.h"
#include "io/rpc/limits.h"
#include "spdlog/spdlog.h"

namespace cairn::io::internal {
namespace {

using format::FrameHeader;
using format::FrameKind;

std::string NameOf(format::Method method) {
  const std::string_view name = format::MethodName(method);
  if (!name.empty()) return std::string(name);
  return absl::StrCat("method ", static_cast<uint16_t>(method));
}

// What a peer may cause by leaving; it needs no warning.
bool IsDeparture(const absl::Status& why) {
  return why.ok() || why.code() == absl::StatusCode::kUnavailable;
}

}  // namespace

void ServerShared::Warn(const std::string& peer, const absl::Status& what) {
  const std::optional<uint64_t> held_back = log.Admit(env->NowNs());
  if (!held_back.has_value()) return;
  spdlog::warn("rpc: connection from {} closed: {} ({} more not shown)", peer,
               CleanText(StdText(what.message())), *held_back);
}

class ServerConnection::Call final : public ServerCall {
 public:
  Call(ServerConnection* connection, Frame frame)
      : connection_(connection),
        frame_(std::move(frame)),
        arrived_at_(connection->shared_->env->NowNs()),
        sent_(connection->shared_->env) {}

  format::Method method() const override {
    return static_cast<format::Method>(frame_.header.method);
  }
  std::string_view body() const override { return frame_.body; }
  uint64_t payload_bytes() const override {
    return frame_.header.payload_bytes;
  }
  format::TrafficClass traffic_class() const override {
    return static_cast<format::TrafficClass>(frame_.header.traffic_class);
  }
  TimeNs deadline() const override {
    const TimeNs patience = frame_.header.timeout_ms * kMillisecond;
    return patience == 0 ? kNoDeadline : arrived_at_ + patience;
  }
  std::string peer() const override { return connection_->peer_; }
  uint32_t role() const override { return connection_->client_.role; }
  uint64_t connection_id() const override { return connection_->id_; }

  Task<absl::Status> ReceivePayload(PayloadSink* sink) override;
  Task<void> Reply(std::string body, PayloadSource* source) override;
  Task<void> Fail(absl::Status status) override;

  bool answered() const { return answered_; }

 private:
  Task<void> Send(uint32_t status, std::string body, PayloadSource* source);
  bool MayReply(const std::string& body, PayloadSource* source) const;

  ServerConnection* const connection_;
  const Frame frame_;
  const TimeNs arrived_at_;
  WaitQueue sent_;
  bool answered_ = false;
};

Task<absl::Status> ServerConnection::Call::ReceivePayload(PayloadSink* sink) {
  ServerConnection* const c = connection_;
  if (payload_bytes() == 0) co_return sink->Begin(0, 0, frame_.body);
  CAIRN_CHECK(c->payload_owner_ == this &&
              c->payload_turn_ == PayloadTurn::kOffered);
  c->payload_turn_ = PayloadTurn::kTaking;
  const PayloadResult result =
      co_await c->reader_.ReadPayload(frame_.header, frame_.body, sink);
  c->payload_turn_ = PayloadTurn::kTaken;
  c->payload_owner_ = nullptr;
  c->payload_stream_ = result.stream;
  c->payload_over_.Set();
  if (!result.stream.ok()) {
    co_return Annotate(result.stream, absl::StrCat("payload from ", c->peer_));
  }
  co_return result.sink;
}

Task<void> ServerConnection::Call::Reply(std::string body,
                                         PayloadSource* source) {
  if (!MayReply(body, source)) {
    co_await Fail(absl::InternalError(
        absl::StrCat("the answer to ", NameOf(method()), " is too large")));
    co_return;
  }
  co_await Send(0, std::move(body), source);
}

bool ServerConnection::Call::MayReply(const std::string& body,
                                      PayloadSource* source) const {
  return body.size() <= format::kFrameBodyBytesMax &&
         (source == nullptr ||
          source->size_bytes() <= format::kFramePayloadBytesMax);
}

Task<void> ServerConnection::Call::Fail(absl::Status status) {
  if (status.ok()) status = absl::InternalError("failed without a reason");
  wire::Error error;
  error.set_message(
      std::string(status.message().substr(0, kErrorMessageBytesMax)));
  co_await Send(static_cast<uint32_t>(status.raw_code()),
                error.SerializeAsString(), nullptr);
}

Task<void> ServerConnection::Call::Send(uint32_t status, std::string body,
                                        PayloadSource* source) {
  CAIRN_CHECK(!answered_);
  answered_ = true;
  ServerConnection* const c = connection_;
  if (c->payload_owner_ == this) {
    CAIRN_CHECK(c->payload_turn_ == PayloadTurn::kOffered);
    c->payload_turn_ = PayloadTurn::kDeclined;
    c->payload_owner_ = nullptr;
    c->payload_over_.Set();
  }
  FrameHeader header;
  header.kind = static_cast<uint8_t>(FrameKind::kResponse);
  header.method = frame_.header.method;
  header.request_id = frame_.header.request_id;
  header.status = status;
  SendTicket ticket(&sent_);
  c->writer_.Queue(header, std::move(body), source, &ticket);
  while (!ticket.done()) co_await sent_.Wait();
}

ServerConnection::ServerConnection(ServerShared* shared,
                                   std::unique_ptr<Stream> stream, uint64_t id)
    : shared_(shared),
      stream_(std::move(stream)),
      id_(id),
      peer_(stream_->peer()),
      reader_(shared->env, stream_.get(),
              ReadAhead{shared->options.read_ahead_bytes, true}),
      writer_(shared->env, stream_.get()),
      idle_(shared->env, stream_.get(), kIdleTimeout),
      handlers_(shared->env),
      writing_(shared->env),
      slots_(shared->env, kCallsPerConnectionMax),
      payload_over_(shared->env) {}

ServerConnection::~ServerConnection() {
  CAIRN_CHECK(payload_owner_ == nullptr);
}

Task<void> ServerConnection::Run() {
  const absl::Status why = co_await Serve();
  if (writer_.stalled()) {
    shared_->Warn(peer_, absl::UnavailableError("it does not read"));
  } else if (!IsDeparture(why)) {
    shared_->Warn(peer_, why);
  }
  writer_.Stop();
  co_await handlers_.Close();
  co_await writing_.Close();
  co_await stream_->Close();
}

Task<absl::Status> ServerConnection::Serve() {
  idle_.BeginWork();
  absl::Status greeted = co_await Handshake();
  idle_.EndWork();
  if (!greeted.ok()) co_return greeted;
  writing_.Spawn(writer_.Run());
  co_return co_await ReadLoop();
}

Task<absl::Status> ServerConnection::Handshake() {
  StallWatch watch(shared_->env, stream_.get(), kHandshakeTimeout);
  watch.Begin();
  absl::Status done = co_await ShakeHands();
  watch.End();
  if (watch.stalled()) {
    co_return absl::DeadlineExceededError("no handshake in time");
  }
  co_return done;
}

Task<absl::Status> ServerConnection::ShakeHands() {
  absl::StatusOr<Frame> frame =
      co_await reader_.ReadFrame(kHandshakeBodyBytesMax);
  absl::Status refusal = frame.status();
  if (frame.ok()) {
    absl::StatusOr<ClientIdentity> client =
        AdmitHello(frame->header, frame->body, shared_->options);
    refusal = client.status();
    if (client.ok()) client_ = *std::move(client);
  }
  // To bytes that are no frame there is no answer that would be understood.
  const absl::StatusCode code = refusal.code();
  if (code == absl::StatusCode::kUnavailable ||
      code == absl::StatusCode::kDataLoss) {
    co_return refusal;
  }
  if (!client_.name.empty()) absl::StrAppend(&peer_, " (", client_.name, ")");
  absl::Status sent = co_await SendAck(refusal);
  if (!refusal.ok()) co_return refusal;
  co_return sent;
}

Task<absl::Status> ServerConnection::SendAck(absl::Status refusal) {
  const std::string body = EncodeHelloAck(shared_->options, refusal);
  FrameHeader header;
  header.kind = static_cast<uint8_t>(FrameKind::kHelloAck);
  header.status = static_cast<uint32_t>(refusal.raw_code());
  header.body_bytes = static_cast<uint32_t>(body.size());
  format::SealFrameHeader(&header, format::AsBytes(body));
  const ConstBytes header_bytes(reinterpret_cast<const uint8_t*>(&header),
                                sizeof(header));
  const std::array<ConstBytes, 2> parts = {header_bytes, format::AsBytes(body)};
  co_return co_await stream_->SendAll(parts);
}

Task<absl::Status> ServerConnection::ReadLoop() {
  while (true) {
    // With all slots in use nothing is read: the client's calls wait in TCP.
    co_await slots_.Acquire();
    absl::StatusOr<Frame> frame =
        co_await reader_.ReadFrame(format::kFrameBodyBytesMax);
    absl::Status taken = frame.status();
    if (taken.ok() &&
        frame->header.kind != static_cast<uint8_t>(FrameKind::kRequest)) {
      taken = absl::DataLossError("the client sent no request");
    }
    if (!taken.ok()) {
      slots_.Release();
      co_return taken;
    }
    idle_.BeginWork();  // RunCall() ends it.
    taken = co_await Dispatch(*std::move(frame));
    if (!taken.ok()) co_return taken;
  }
}

// Starts the handler, whose end releases the slot; returns when the next frame
// may be read.
Task<absl::Status> ServerConnection::Dispatch(Frame frame) {
  const FrameHeader header = frame.header;
  auto call = std::make_unique<Call>(this, std::move(frame));
  if (header.payload_bytes == 0) {
    handlers_.Spawn(RunCall(std::move(call)));
    co_return absl::OkStatus();
  }
  payload_owner_ = call.get();
  payload_turn_ = PayloadTurn::kOffered;
  payload_over_.Reset();
  handlers_.Spawn(RunCall(std::move(call)));
  co_await payload_over_.Wait();
  if (payload_turn_ == PayloadTurn::kTaken) co_return payload_stream_;
  CAIRN_CHECK(payload_turn_ == PayloadTurn::kDeclined);
  co_return co_await reader_.SkipPayload(header);
}

Task<void> ServerConnection::RunCall(std::unique_ptr<Call> call) {
  const auto handler =
      shared_->handlers.find(static_cast<uint16_t>(call->method()));
  if (handler == shared_->handlers.end()) {
    co_await call->Fail(absl::UnimplementedError(
        absl::StrCat(NameOf(call->method()), " is not served here")));
  } else {
    co_await handler->second(call.get());
  }
  if (!call->answered()) {
    co_await call->Fail(absl::InternalError(
        absl::StrCat(NameOf(call->method()), " was left without an answer")));
  }
  idle_.EndWork();
  slots_.Release();
}

}  // namespace cairn::io::internal
