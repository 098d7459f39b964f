#include "io/rpc/server.h"

#include <map>
#include <utility>

#include "io/rpc/limits.h"
#include "io/rpc/server_connection.h"
#include "spdlog/spdlog.h"

namespace cairn::io {
namespace {

using internal::LogLimiter;
using internal::ServerConnection;
using internal::ServerShared;

class RpcServerImpl final : public RpcServer {
 public:
  RpcServerImpl(Env* env, ServerOptions options)
      : shared_{env, std::move(options), {}, LogLimiter(kPeerLogInterval)},
        accepting_(env),
        serving_(env) {}
  ~RpcServerImpl() override {
    CAIRN_CHECK(listeners_.empty() && connections_.empty());
  }

  void Handle(format::Method method, Handler handler) override {
    CAIRN_CHECK(accepting_.in_flight() == 0 && handler != nullptr);
    const bool is_new =
        shared_.handlers
            .emplace(static_cast<uint16_t>(method), std::move(handler))
            .second;
    CAIRN_CHECK(is_new);
  }
  void Serve(std::unique_ptr<Listener> listener) override {
    CAIRN_CHECK(!closed_ && listener != nullptr);
    accepting_.Spawn(Accept(std::move(listener)));
  }
  uint64_t connections() const override { return connections_.size(); }
  Task<void> Close() override;

 private:
  Task<void> Accept(std::unique_ptr<Listener> listener);
  void Admit(std::unique_ptr<Stream> stream);
  Task<void> RunConnection(uint64_t id, ServerConnection* connection);
  Task<void> TurnAway(std::unique_ptr<Stream> stream);

  ServerShared shared_;
  Gate accepting_;
  Gate serving_;
  CancelToken closing_;
  std::map<uint64_t, Listener*> listeners_;  // Accept() owns them.
  std::map<uint64_t, std::unique_ptr<ServerConnection>> connections_;
  uint64_t next_id_ = 1;
  bool closed_ = false;
};

Task<void> RpcServerImpl::Accept(std::unique_ptr<Listener> listener) {
  const uint64_t id = next_id_++;
  listeners_.emplace(id, listener.get());
  while (!closed_) {
    absl::StatusOr<std::unique_ptr<Stream>> stream =
        co_await listener->Accept();
    if (stream.ok()) {
      Admit(*std::move(stream));
      continue;
    }
    if (closed_) break;
    // Out of descriptors, say: those who have a connection are served on.
    spdlog::error("rpc: accept on {} failed: {}", listener->address(),
                  std::string(stream.status().message()));
    co_await SleepFor(shared_.env, kAcceptRetryDelay, &closing_);
  }
  listeners_.erase(id);
  co_await listener->Close();
}

void RpcServerImpl::Admit(std::unique_ptr<Stream> stream) {
  if (closed_ || connections_.size() >= kConnectionsMax) {
    if (!closed_) {
      shared_.Warn(stream->peer(),
                   absl::ResourceExhaustedError("too many connections"));
    }
    serving_.Spawn(TurnAway(std::move(stream)));
    return;
  }
  const uint64_t id = next_id_++;
  auto connection =
      std::make_unique<ServerConnection>(&shared_, std::move(stream), id);
  ServerConnection* const running = connection.get();
  connections_.emplace(id, std::move(connection));
  serving_.Spawn(RunConnection(id, running));
}

Task<void> RpcServerImpl::TurnAway(std::unique_ptr<Stream> stream) {
  stream->Shutdown();
  co_await stream->Close();
}

Task<void> RpcServerImpl::RunConnection(uint64_t id,
                                        ServerConnection* connection) {
  co_await connection->Run();
  connections_.erase(id);
}

Task<void> RpcServerImpl::Close() {
  closed_ = true;
  closing_.Cancel();
  for (const auto& [id, listener] : listeners_) listener->Shutdown();
  for (const auto& [id, connection] : connections_) connection->Break();
  co_await accepting_.Close();
  co_await serving_.Close();
}

}  // namespace

std::unique_ptr<RpcServer> RpcServer::Create(Env* env, ServerOptions options) {
  return std::make_unique<RpcServerImpl>(env, std::move(options));
}

}  // namespace cairn::io
