#include "io/rpc/channel.h"

#include <algorithm>
#include <utility>

#include "io/rpc/client_connection.h"
#include "io/rpc/limits.h"

namespace cairn::io {
namespace {

using internal::ClientConnection;
using internal::Describe;
using internal::ServerIdentity;

using Connected = absl::StatusOr<std::unique_ptr<ClientConnection>>;

class ChannelImpl final : public Channel {
 public:
  ChannelImpl(Env* env, ChannelOptions options)
      : env_(env),
        options_(std::move(options)),
        gate_(env),
        attempt_over_(env) {}
  ~ChannelImpl() override { CAIRN_CHECK(closed_ && gate_.in_flight() == 0); }

  Task<absl::StatusOr<std::string>> Call(format::Method method,
                                         std::string body,
                                         CallOptions options) override;
  format::ClusterId cluster_id() const override { return server_.cluster_id; }
  uint64_t boot_epoch() const override { return server_.boot_epoch; }
  const std::string& address() const override { return options_.address; }
  Task<void> Close() override;

 private:
  // OK: current_ is a connection.
  Task<absl::Status> EnsureConnected(TimeNs deadline);
  Task<void> Attempt();
  Task<Connected> Connect();
  Task<void> Serve(std::unique_ptr<ClientConnection> connection);
  void DelayNextAttempt();
  absl::Status CheckSizes(const std::string& body,
                          const CallOptions& options) const;

  Env* const env_;
  const ChannelOptions options_;
  Gate gate_;
  WaitQueue attempt_over_;
  CancelToken closing_;
  ClientConnection* current_ = nullptr;  // Owned by Serve()'s frame.
  ClientConnection* greeting_ =
      nullptr;  // In its handshake; Connect() owns it.
  ServerIdentity server_;
  absl::Status last_attempt_;
  TimeNs next_attempt_at_ = 0;
  uint32_t failures_ = 0;  // Since a call was last answered.
  bool attempting_ = false;
  bool closed_ = false;
};

Task<absl::StatusOr<std::string>> ChannelImpl::Call(format::Method method,
                                                    std::string body,
                                                    CallOptions options) {
  const Gate::Hold hold = gate_.Enter();
  absl::Status ready = CheckSizes(body, options);
  if (ready.ok()) ready = co_await EnsureConnected(options.deadline);
  if (!ready.ok()) {
    co_return Annotate(std::move(ready), Describe(method, options_));
  }
  co_return co_await current_->Exchange(method, std::move(body), options);
}

absl::Status ChannelImpl::CheckSizes(const std::string& body,
                                     const CallOptions& options) const {
  if (body.size() > format::kFrameBodyBytesMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("a request of ", body.size(), " bytes is too large"));
  }
  if (options.source != nullptr &&
      options.source->size_bytes() > format::kFramePayloadBytesMax) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a payload of ", options.source->size_bytes(), " bytes is too large"));
  }
  return absl::OkStatus();
}

Task<absl::Status> ChannelImpl::EnsureConnected(TimeNs deadline) {
  if (closed_) co_return absl::UnavailableError("the channel is closed");
  if (current_ != nullptr) co_return absl::OkStatus();
  if (!attempting_) {
    attempting_ = true;
    gate_.Spawn(Attempt());
  }
  // Attempt() may have finished at once.
  if (attempting_) {
    const WaitResult waited = co_await attempt_over_.Wait(deadline);
    if (waited != WaitResult::kWoken) {
      co_return absl::DeadlineExceededError("no connection in time");
    }
  }
  if (current_ != nullptr) co_return absl::OkStatus();
  if (!last_attempt_.ok()) co_return last_attempt_;
  co_return absl::UnavailableError("connection lost right after it was made");
}

Task<void> ChannelImpl::Attempt() {
  if (next_attempt_at_ > env_->NowNs()) {
    co_await SleepUntil(env_, next_attempt_at_, &closing_);
  }
  Connected made = absl::UnavailableError("the channel is closed");
  if (!closed_) made = co_await Connect();
  attempting_ = false;
  last_attempt_ = made.status();
  if (made.ok()) {
    current_ = made->get();
    gate_.Spawn(Serve(*std::move(made)));
  } else {
    DelayNextAttempt();
  }
  attempt_over_.WakeAll();
}

Task<Connected> ChannelImpl::Connect() {
  const TimeNs deadline = env_->NowNs() + options_.connect_timeout;
  absl::StatusOr<std::unique_ptr<Stream>> stream =
      co_await env_->Connect(options_.address, deadline);
  if (!stream.ok()) {
    const absl::Status& why = stream.status();
    if (why.code() == absl::StatusCode::kInvalidArgument) co_return why;
    co_return absl::UnavailableError(
        absl::StrCat("cannot connect: ", why.message()));
  }
  auto connection =
      std::make_unique<ClientConnection>(env_, &options_, *std::move(stream));
  if (closed_) connection->Break("the channel is closed");
  greeting_ = connection.get();
  const TimeNs now = env_->NowNs();
  absl::StatusOr<ServerIdentity> server =
      co_await connection->Handshake(deadline > now ? deadline - now : 1);
  greeting_ = nullptr;
  if (server.ok()) {
    server_ = *std::move(server);
    co_return std::move(connection);
  }
  absl::Status why = Annotate(server.status(), "handshake refused");
  if (why.code() == absl::StatusCode::kFailedPrecondition) co_return why;
  co_return absl::UnavailableError(
      absl::StrCat("handshake failed: ", server.status().message()));
}

Task<void> ChannelImpl::Serve(std::unique_ptr<ClientConnection> connection) {
  ClientConnection* const served = connection.get();
  std::function<void()> on_break = [this, served] {
    CAIRN_CHECK(current_ == served);
    current_ = nullptr;
    if (served->answered()) failures_ = 0;
    DelayNextAttempt();
  };
  co_await served->Run(std::move(on_break));
}

// Doubles from the least to the most; the random half keeps many clients of one
// server from coming back in step.
void ChannelImpl::DelayNextAttempt() {
  const uint32_t doublings = std::min<uint32_t>(failures_, 20);
  ++failures_;
  const TimeNs delay =
      std::min(kReconnectDelayMin << doublings, kReconnectDelayMax);
  const TimeNs jitter = env_->Random() % (delay / 2);
  next_attempt_at_ = env_->NowNs() + delay / 2 + jitter;
}

Task<void> ChannelImpl::Close() {
  closed_ = true;
  closing_.Cancel();
  if (greeting_ != nullptr) greeting_->Break("the channel is closed");
  if (current_ != nullptr) current_->Break("the channel is closed");
  co_await gate_.Close();
}

}  // namespace

std::unique_ptr<Channel> Channel::Create(Env* env, ChannelOptions options) {
  return std::make_unique<ChannelImpl>(env, std::move(options));
}

}  // namespace cairn::io
