#include "tests/sim/sim_env.h"

#include <algorithm>
#include <utility>

#include "tests/sim/connection.h"
#include "tests/sim/sim_file.h"
#include "tests/sim/sim_stream.h"

namespace cairn::sim {
namespace {

constexpr io::TimeNs kBlockingNsMax = io::kMillisecond;
// As Linux: a connection attempt is sent again, and given up after a while.
constexpr io::TimeNs kConnectRetryNs = io::kSecond;
constexpr io::TimeNs kConnectTimeoutNs = 127 * io::kSecond;

}  // namespace

SimEnv::SimEnv(World* world, NodeId node, uint64_t process, uint64_t seed,
               uint32_t pool_large_buffers)
    : world_(world),
      node_(node),
      process_(process),
      random_(seed),
      hung_(this),
      pool_(this, pool_large_buffers, /*lazy=*/true) {}

absl::Status SimEnv::CheckAlive() const {
  if (alive_) return absl::OkStatus();
  return absl::UnavailableError("the simulated process is dead");
}

void SimEnv::MarkDead() {
  alive_ = false;
  WakeHung();
}

io::TimeNs SimEnv::NowNs() {
  return world_->clock(node_)->ToLocal(world_->NowNs());
}

void SimEnv::AddTimer(io::TimeNs deadline, io::Timer* timer) {
  world_->AddTimerFor(process_, world_->clock(node_)->ToWorld(deadline), timer);
}

io::TimeNs SimEnv::WallNs() {
  return world_->clock(node_)->Wall(world_->NowNs());
}

void SimEnv::Post(std::function<void()> work) {
  world_->At(world_->NowNs(), Trace::kPost, process_, std::move(work));
}

io::Task<void> SimEnv::RunBlocking(std::function<void()> work) {
  co_await io::SleepFor(this, random_.Below(kBlockingNsMax));
  work();
}

io::Task<absl::Status> SimEnv::PassDiskTime(io::TimeNs duration) {
  co_await io::SleepFor(this, duration);
  if (alive_ && disk()->hung()) disk()->NoteHung();
  while (alive_ && disk()->hung()) co_await hung_.Wait();
  co_return CheckAlive();
}

io::Task<absl::Status> SimEnv::ReachName(std::string path) {
  CAIRN_CO_RETURN_IF_ERROR(co_await PassDiskTime(disk()->Latency(0)));
  world_->Note(Trace::kName, process_, 0, 0);
  co_return Annotate(disk()->NameFault(path), path);
}

io::Task<absl::StatusOr<std::unique_ptr<io::File>>> SimEnv::OpenFile(
    std::string path, io::OpenOptions options) {
  CAIRN_CO_RETURN_IF_ERROR(co_await ReachName(path));
  absl::StatusOr<InodePtr> inode = disk()->Open(path, options);
  if (!inode.ok()) co_return inode.status();
  std::unique_ptr<io::File> file = std::make_unique<SimFile>(
      this, *std::move(inode), std::move(path), options);
  co_return file;
}

io::Task<absl::Status> SimEnv::MakeDirectory(std::string path) {
  CAIRN_CO_RETURN_IF_ERROR(co_await ReachName(path));
  co_return disk()->MakeDirectory(path);
}

io::Task<absl::StatusOr<std::vector<std::string>>> SimEnv::ListDirectory(
    std::string path) {
  CAIRN_CO_RETURN_IF_ERROR(co_await ReachName(path));
  co_return disk()->List(path);
}

io::Task<absl::StatusOr<std::optional<io::FileInfo>>> SimEnv::Stat(
    std::string path) {
  CAIRN_CO_RETURN_IF_ERROR(co_await ReachName(path));
  co_return disk()->Stat(path);
}

io::Task<absl::Status> SimEnv::Rename(std::string from, std::string to) {
  CAIRN_CO_RETURN_IF_ERROR(co_await ReachName(from));
  co_return disk()->Rename(from, to);
}

io::Task<absl::Status> SimEnv::Remove(std::string path) {
  CAIRN_CO_RETURN_IF_ERROR(co_await ReachName(path));
  co_return disk()->Remove(path);
}

io::Task<absl::Status> SimEnv::SyncDirectory(std::string path) {
  CAIRN_CO_RETURN_IF_ERROR(co_await PassDiskTime(disk()->SyncLatency()));
  world_->Note(Trace::kSync, process_, 0, 0);
  co_return disk()->FaultySyncDirectory(path);
}

io::Task<absl::StatusOr<io::DiskSpace>> SimEnv::Space(std::string path) {
  CAIRN_CO_RETURN_IF_ERROR(co_await ReachName(path));
  const absl::StatusOr<std::optional<io::FileInfo>> info = disk()->Stat(path);
  CAIRN_CO_RETURN_IF_ERROR(info.status());
  if (!info->has_value()) co_return absl::NotFoundError(path);
  co_return disk()->Space();
}

io::Task<absl::StatusOr<std::unique_ptr<io::Listener>>> SimEnv::Listen(
    std::string address) {
  CAIRN_CO_RETURN_IF_ERROR(CheckAlive());
  absl::StatusOr<Endpoint> endpoint = network()->Parse(node_, address);
  if (!endpoint.ok()) co_return endpoint.status();
  if (endpoint->node != node_) {
    co_return absl::InvalidArgumentError(
        absl::StrCat(address, ": EADDRNOTAVAIL"));
  }
  CAIRN_CO_RETURN_IF_ERROR(network()->ClaimPort(&*endpoint));
  std::unique_ptr<io::Listener> listener =
      std::make_unique<SimListener>(this, *std::move(endpoint));
  co_return listener;
}

// Waits until a packet to `to` arrives.
io::Task<absl::Status> SimEnv::AwaitPath(NodeId from, NodeId to,
                                         io::TimeNs deadline) {
  bool cut_noted = false;
  while (true) {
    const io::TimeNs arrives = NowNs() + network()->Latency(from, to);
    co_await io::SleepUntil(this, std::min(arrives, deadline));
    CAIRN_CO_RETURN_IF_ERROR(CheckAlive());
    if (arrives > deadline) {
      network()->Fired(FaultKind::kConnectTimeout, to.value);
      co_return absl::DeadlineExceededError("no answer before the deadline");
    }
    const bool is_cut = network()->is_cut(from, to);
    if (!is_cut && network()->powered(to)) break;
    if (is_cut && !std::exchange(cut_noted, true)) {
      network()->Fired(FaultKind::kLinkCut, to.value);
    }
    co_await io::SleepUntil(this,
                            std::min(NowNs() + kConnectRetryNs, deadline));
  }
  co_return absl::OkStatus();
}

io::Task<absl::StatusOr<std::shared_ptr<Connection>>> SimEnv::Dial(
    Endpoint to, io::TimeNs deadline) {
  CAIRN_CO_RETURN_IF_ERROR(co_await AwaitPath(node_, to.node, deadline));
  SimListener* const listener = network()->FindListener(to);
  std::shared_ptr<Connection> connection;
  if (listener != nullptr && !network()->DrawRefusal()) {
    Endpoint from;
    from.node = node_;
    from.port = to.unix_path.empty() ? network()->TakePort(node_) : uint16_t{0};
    connection =
        network()->MakeConnection(this, listener->env(), std::move(from), to);
    if (!listener->Offer(connection)) connection = nullptr;
  }
  const absl::Status answered = co_await AwaitPath(to.node, node_, deadline);
  if (connection == nullptr) {
    CAIRN_CO_RETURN_IF_ERROR(answered);
    network()->Fired(FaultKind::kConnectRefused, node_.value);
    co_return absl::UnavailableError("ECONNREFUSED");
  }
  if (!answered.ok()) {
    connection->Die(0, /*silent=*/false);
    co_return answered;
  }
  co_return connection;
}

io::Task<absl::StatusOr<std::unique_ptr<io::Stream>>> SimEnv::Connect(
    std::string address, io::TimeNs deadline) {
  CAIRN_CO_RETURN_IF_ERROR(CheckAlive());
  absl::StatusOr<Endpoint> to = network()->Parse(node_, address);
  if (!to.ok()) co_return to.status();
  const io::TimeNs give_up = NowNs() + kConnectTimeoutNs;
  absl::StatusOr<std::shared_ptr<Connection>> connection =
      co_await Dial(*std::move(to), std::min(deadline, give_up));
  if (!connection.ok()) {
    if (absl::IsDeadlineExceeded(connection.status()) && deadline > give_up) {
      co_return absl::UnavailableError(absl::StrCat(address, ": ETIMEDOUT"));
    }
    co_return Annotate(connection.status(), address);
  }
  std::unique_ptr<io::Stream> stream =
      std::make_unique<SimStream>(*std::move(connection), 0);
  co_return stream;
}

}  // namespace cairn::sim
