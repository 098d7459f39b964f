// SimEnv: the Env of one simulated process (see tests/sim/world.h for death).
//
// Deviations from the real ones that tests may rely on: RunBlocking() works
// inline after a virtual delay; operations of a dead process end with
// kUnavailable; the O_DIRECT rules are enforced with kInvalidArgument.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "io/env.h"
#include "tests/sim/disk.h"
#include "tests/sim/network.h"
#include "tests/sim/node_id.h"
#include "tests/sim/random.h"
#include "tests/sim/world.h"

namespace cairn::sim {

class SimEnv final : public io::Env {
 public:
  SimEnv(World* world, NodeId node, uint64_t process, uint64_t seed,
         uint32_t pool_large_buffers);

  NodeId node() const { return node_; }
  uint64_t process() const { return process_; }
  bool alive() const { return alive_; }
  World* world() const { return world_; }
  Disk* disk() const { return world_->disk(node_); }
  Network* network() const { return world_->network(); }
  // "10.0.0.2:7400" for this node.
  std::string Address(uint16_t port) const {
    return World::Address(node_, port);
  }
  // OK, or what every operation of a dead process says.
  absl::Status CheckAlive() const;
  void MarkDead();  // World::Kill() and Crash().
  // Lets the time of a disk operation pass, and waits while the disk hangs;
  // then CheckAlive().
  io::Task<absl::Status> PassDiskTime(io::TimeNs duration);
  void WakeHung() { hung_.WakeAll(); }

  // On the node's clock, which may drift from the World's.
  io::TimeNs NowNs() override;
  void Schedule(std::coroutine_handle<> handle) override {
    world_->ScheduleFor(process_, handle);
  }
  void AddTimer(io::TimeNs deadline, io::Timer* timer) override;
  bool RemoveTimer(io::Timer* timer) override {
    return world_->RemoveTimer(timer);
  }

  io::TimeNs WallNs() override;
  uint64_t Random() override { return random_.Next(); }
  void Post(std::function<void()> work) override;
  io::Task<void> RunBlocking(std::function<void()> work) override;

  io::Task<absl::StatusOr<std::unique_ptr<io::File>>> OpenFile(
      std::string path, io::OpenOptions options) override;
  io::Task<absl::Status> MakeDirectory(std::string path) override;
  io::Task<absl::StatusOr<std::vector<std::string>>> ListDirectory(
      std::string path) override;
  io::Task<absl::StatusOr<std::optional<io::FileInfo>>> Stat(
      std::string path) override;
  io::Task<absl::Status> Rename(std::string from, std::string to) override;
  io::Task<absl::Status> Remove(std::string path) override;
  io::Task<absl::Status> SyncDirectory(std::string path) override;
  io::Task<absl::StatusOr<io::DiskSpace>> Space(std::string path) override;

  io::Task<absl::StatusOr<std::unique_ptr<io::Listener>>> Listen(
      std::string address) override;
  io::Task<absl::StatusOr<std::unique_ptr<io::Stream>>> Connect(
      std::string address, io::TimeNs deadline) override;

  io::BufferPool* pool() override { return &pool_; }
  const char* name() const override { return "sim"; }

 private:
  // The time and the faults of an operation on names.
  io::Task<absl::Status> ReachName(std::string path);
  io::Task<absl::Status> AwaitPath(NodeId from, NodeId to, io::TimeNs deadline);
  io::Task<absl::StatusOr<std::shared_ptr<Connection>>> Dial(
      Endpoint to, io::TimeNs deadline);

  World* const world_;
  const NodeId node_;
  const uint64_t process_;
  bool alive_ = true;
  class Random random_;
  io::WaitQueue hung_;  // Operations on a disk that hangs.
  io::BufferPool pool_;
};

}  // namespace cairn::sim
