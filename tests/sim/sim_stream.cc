#include "tests/sim/sim_stream.h"

#include <utility>

namespace cairn::sim {
namespace {

constexpr size_t kBacklogMax = 1024;

// One operation per direction at a time, as io/env.h says.
class Exclusive {
 public:
  explicit Exclusive(bool* busy) : busy_(busy) {
    CAIRN_CHECK(!*busy_);
    *busy_ = true;
  }
  Exclusive(const Exclusive&) = delete;
  Exclusive& operator=(const Exclusive&) = delete;
  ~Exclusive() { *busy_ = false; }

 private:
  bool* const busy_;
};

}  // namespace

SimStream::~SimStream() { CAIRN_CHECK(closed_ && !receiving_ && !sending_); }

io::Task<absl::Status> SimStream::ReceiveAll(
    std::span<const io::MutableBytes> to) {
  const Exclusive exclusive(&receiving_);
  uint64_t received = 0;
  for (io::MutableBytes piece : to) {
    while (!piece.empty()) {
      const absl::StatusOr<uint64_t> count =
          co_await connection_->Receive(side_, piece);
      if (!count.ok()) co_return Annotate(count.status(), peer());
      if (*count == 0 && received == 0) {
        co_return absl::UnavailableError("end of stream");
      }
      if (*count == 0) {
        co_return absl::UnavailableError(
            absl::StrCat(peer(), " closed after ", received, " bytes"));
      }
      received += *count;
      piece = piece.subspan(*count);
    }
  }
  co_return absl::OkStatus();
}

io::Task<absl::StatusOr<uint64_t>> SimStream::ReceiveSome(io::MutableBytes to) {
  const Exclusive exclusive(&receiving_);
  CAIRN_CHECK(!to.empty());
  co_return co_await connection_->Receive(side_, to);
}

io::Task<absl::Status> SimStream::SendAll(std::span<const io::ConstBytes> from,
                                          bool /*more*/) {
  const Exclusive exclusive(&sending_);
  for (const io::ConstBytes piece : from) {
    absl::Status sent = co_await connection_->Send(side_, piece);
    if (!sent.ok()) co_return Annotate(std::move(sent), peer());
  }
  co_return absl::OkStatus();
}

std::string SimStream::peer() const {
  return ToString(connection_->endpoint(1 - side_));
}

io::Task<void> SimStream::Close() {
  CAIRN_CHECK(!closed_ && !receiving_ && !sending_);
  Shutdown();
  closed_ = true;
  co_return;
}

SimListener::SimListener(SimEnv* env, Endpoint endpoint)
    : env_(env), endpoint_(std::move(endpoint)), arrivals_(env) {
  env_->network()->Register(endpoint_, this);
}

SimListener::~SimListener() { CAIRN_CHECK(closed_); }

bool SimListener::Offer(std::shared_ptr<Connection> connection) {
  if (shut_down_ || backlog_.size() >= kBacklogMax) return false;
  backlog_.push_back(std::move(connection));
  arrivals_.WakeOne();
  return true;
}

io::Task<absl::StatusOr<std::unique_ptr<io::Stream>>> SimListener::Accept() {
  while (backlog_.empty()) {
    CAIRN_CO_RETURN_IF_ERROR(env_->CheckAlive());
    if (shut_down_) {
      co_return absl::UnavailableError(
          absl::StrCat("listener on ", address(), " was shut down"));
    }
    co_await arrivals_.Wait();
  }
  std::unique_ptr<io::Stream> stream =
      std::make_unique<SimStream>(std::move(backlog_.front()), 1);
  backlog_.pop_front();
  co_return stream;
}

void SimListener::Shutdown() {
  if (std::exchange(shut_down_, true)) return;
  env_->network()->Unregister(endpoint_);
  for (const auto& connection : std::exchange(backlog_, {})) {
    connection->Die(1, /*silent=*/!env_->network()->powered(env_->node()));
  }
  arrivals_.WakeAll();
}

io::Task<void> SimListener::Close() {
  CAIRN_CHECK(!closed_ && arrivals_.empty());
  Shutdown();
  closed_ = true;
  co_return;
}

}  // namespace cairn::sim
