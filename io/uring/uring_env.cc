#include "io/uring/uring_env.h"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <string>
#include <utility>

#include "io/loop/loop_core.h"
#include "io/posix/basic_file.h"
#include "io/posix/basic_stream.h"
#include "io/posix/sockets.h"
#include "io/uring/uring_ports.h"

namespace cairn::io {
namespace {

class UringEnv final : public LoopCore {
 public:
  explicit UringEnv(const LoopOptions& options)
      : LoopCore(options, /*extra_threads=*/0), mail_gate_(this) {}
  ~UringEnv() override;

  absl::Status Init(const LoopOptions& options, RingOptions ring_options);

  Task<absl::StatusOr<std::unique_ptr<Listener>>> Listen(
      std::string address) override;
  Task<absl::StatusOr<std::unique_ptr<Stream>>> Connect(
      std::string address, TimeNs deadline) override;
  const char* name() const override { return "io_uring"; }

 private:
  void Poll(TimeNs timeout_ns) override;
  std::unique_ptr<File> MakeFile(posix::OpenedFile opened, OpenOptions options,
                                 std::string path) override;
  Task<void> ReadMail();

  std::unique_ptr<Ring> ring_;
  uint32_t turns_without_poll_ = 0;
  const RingOp* mail_read_ = nullptr;  // In flight.
  bool is_stopping_ = false;
  Gate mail_gate_;
};

UringEnv::~UringEnv() {
  if (ring_ == nullptr) return;
  is_stopping_ = true;
  if (mail_read_ != nullptr) ring_->Cancel(mail_read_);
  while (mail_gate_.in_flight() > 0) Turn();
}

absl::Status UringEnv::Init(const LoopOptions& options,
                            RingOptions ring_options) {
  CAIRN_ASSIGN_OR_RETURN(ring_, Ring::Make(this, ring_options));
  // Registering would make a lazy pool resident, which it is meant not to be.
  if (!options.pool_lazy) {
    const absl::Status status = ring_->RegisterBuffers(pool()->region());
    if (!status.ok()) {
      spdlog::warn(
          "buffers are not registered with io_uring, disk I/O costs a little "
          "more; raise RLIMIT_MEMLOCK: {}",
          std::string(status.message()));
    }
  }
  mail_gate_.Spawn(ReadMail());
  return absl::OkStatus();
}

Task<void> UringEnv::ReadMail() {
  while (!is_stopping_) {
    uint64_t count = 0;
    RingOp read(ring_.get());
    io_uring_prep_read(read.sqe(), mailbox()->event_fd(), &count, sizeof(count),
                       0);
    mail_read_ = &read;
    const int64_t result = co_await read;
    mail_read_ = nullptr;
    if (result == sizeof(count)) {
      mailbox()->Drain(this);
    } else {
      CAIRN_CHECK(result == -ECANCELED || result == -EINTR ||
                  result == -EAGAIN);
    }
  }
}

void UringEnv::Poll(TimeNs timeout_ns) {
  // Coroutines that only wake each other need no system call a turn.
  if (timeout_ns == 0 && !ring_->has_unsubmitted() &&
      ++turns_without_poll_ < kTurnsWithoutPollMax) {
    return;
  }
  turns_without_poll_ = 0;
  ring_->Poll(timeout_ns);
}

std::unique_ptr<File> UringEnv::MakeFile(posix::OpenedFile opened,
                                         OpenOptions options,
                                         std::string path) {
  UringFilePort port(ring_.get(), blocking(), opened.fd);
  return std::make_unique<BasicFile<UringFilePort>>(std::move(port), opened,
                                                    options, std::move(path));
}

Task<absl::StatusOr<std::unique_ptr<Listener>>> UringEnv::Listen(
    std::string address) {
  CAIRN_CO_ASSIGN_OR_RETURN(
      const posix::ListeningSocket socket,
      posix::ListenOn(address, posix::SocketMode::kBlocking));
  co_return std::make_unique<BasicListener<UringSocket>>(
      UringSocket(ring_.get(), socket.fd), socket);
}

// Ends a connect that takes too long.
class ConnectDeadline final : public Timer {
 public:
  ConnectDeadline(Ring* ring, const RingOp* op) : ring_(ring), op_(op) {}
  void Fire() override {
    has_fired_ = true;
    ring_->Cancel(op_);
  }
  bool has_fired() const { return has_fired_; }

 private:
  Ring* const ring_;
  const RingOp* const op_;
  bool has_fired_ = false;
};

Task<absl::StatusOr<std::unique_ptr<Stream>>> UringEnv::Connect(
    std::string address, TimeNs deadline) {
  CAIRN_CO_ASSIGN_OR_RETURN(const posix::SocketAddress peer,
                            posix::ParseAddress(address));
  if (NowNs() >= deadline) {
    co_return absl::DeadlineExceededError("connect to " + address);
  }
  CAIRN_CO_ASSIGN_OR_RETURN(
      const int fd,
      posix::MakeSocket(peer.family(), posix::SocketMode::kBlocking));
  UringSocket socket(ring_.get(), fd);
  posix::TuneConnected(fd, peer.family());
  for (;;) {
    RingOp connect = socket.Connect(&peer);
    ConnectDeadline timer(ring_.get(), &connect);
    if (deadline != kNoDeadline) AddTimer(deadline, &timer);
    const int64_t result = co_await connect;
    RemoveTimer(&timer);
    if (result == 0 || result == -EISCONN) break;
    if (result == -EINTR && !timer.has_fired()) continue;
    socket.Close();
    if (timer.has_fired()) {
      co_return absl::DeadlineExceededError("connect to " + address);
    }
    co_return posix::ConnectStatus(static_cast<int>(-result), address);
  }
  co_return std::make_unique<BasicStream<UringSocket>>(socket,
                                                       std::move(address));
}

}  // namespace

absl::StatusOr<std::unique_ptr<RealEnv>> MakeUringEnv(
    const LoopOptions& options, RingOptions ring_options) {
  auto env = std::make_unique<UringEnv>(options);
  CAIRN_RETURN_IF_ERROR(env->Init(options, ring_options));
  return env;
}

}  // namespace cairn::io
