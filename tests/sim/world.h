// World: a whole cluster in one thread, in virtual time, from one seed.
//
//   sim::World world({.seed = 7});
//   const sim::NodeId node = world.AddNode();
//   sim::SimEnv* env = world.Start(node);
//   world.Run(TheTest(env));
//
// A node is a machine: a disk and an address (10.0.0.1 is the first). A process
// runs on a node and sees the world through its own SimEnv.
//
// Time:     stands still while code runs; moves to the next event when all that
//           is runnable has run. Events are ordered by (time, order of making).
// Determinism: no real clock, thread or randomness, nothing ordered by address.
//           The same program and seed give the same trace_hash().
// Death:    Kill() ends one process, Crash() takes a node's power. The code of
// a
//           dead process is not cut off: its coroutines must unwind. So its
//           SimEnv stays valid until the World goes; files, sockets and the
//           disk refuse it with kUnavailable; whatever waited on a socket wakes
//           with that; timers and Post() go on. It cannot change the disk or
//           send a byte any more. Close and destroy its objects as always (a
//           Close() of a dead process ends with OK), at any time: a new process
//           may Start() on the node at once, and finds what the disk kept.
// Failure:  Run() prints seed, task, virtual time and who waits for what, then
//           ends the program, when nothing can happen any more (deadlock), the
//           virtual time limit passes, or time stands still for too long.
#pragma once

#include <cstdint>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "format/base/ids.h"
#include "io/executor.h"
#include "io/task.h"
#include "tests/sim/disk.h"
#include "tests/sim/network.h"
#include "tests/sim/node_id.h"
#include "tests/sim/random.h"

namespace cairn::sim {

class SimEnv;

struct WorldOptions {
  uint64_t seed = 1;
  // Runnable coroutines run in seeded, not first-come, order.
  bool shuffle_ready = false;
  io::TimeNs run_limit_ns = 3600 * io::kSecond;  // Of one Run().
  uint32_t pool_large_buffers = 16;              // Of each process.
  DiskOptions disk;
  NetworkOptions network;
};

// What an event or a trace entry is; part of the trace hash.
enum class Trace : uint8_t {
  kResume,
  kTimer,
  kPost,
  kArrival,
  kRead,
  kWrite,
  kSync,
  kName,  // Open, rename, remove, directories.
  kStart,
  kDeath,
};

class World : public io::Executor {
 public:
  // Before an event: when, ties drawn from the seed, and order of making.
  struct EventKey {
    io::TimeNs time = 0;
    uint64_t tie = 0;
    uint64_t sequence = 0;
    auto operator<=>(const EventKey&) const = default;
  };

  explicit World(WorldOptions options);
  // All processes' files, sockets and buffers must be gone.
  ~World() override;

  NodeId AddNode();
  // A new process on `node`; lives as long as the World.
  SimEnv* Start(NodeId node) {
    return Start(node, options_.pool_large_buffers);
  }
  SimEnv* Start(NodeId node, uint32_t pool_large_buffers);
  // As kill -9: locks and sockets go, what was written stays in the cache.
  void Kill(SimEnv* process);
  // Kills every process of the node and loses what was not flushed.
  void Crash(NodeId node, CrashOptions options = {});

  Disk* disk(NodeId node);
  Network* network() { return network_.get(); }
  // "10.0.0.3:7400".
  static std::string Address(NodeId node, uint16_t port);

  // Runs the world until `task` has finished. `name` is for the message.
  void Run(io::Task<void> task, std::string_view name = "task");
  // Runs all events up to and at `time`; the clock is `time` afterwards.
  void RunUntil(io::TimeNs time);
  // Runs until no event is left: not for worlds with periodic timers.
  void RunUntilIdle();
  // Runs one event; false if there is none. For tests that stop at each event.
  bool Step();
  uint64_t events_run() const { return events_run_; }

  uint64_t seed() const { return options_.seed; }
  uint64_t trace_hash() const { return trace_hash_; }
  // Prints every trace entry from now on; null stops it.
  void TraceTo(std::FILE* out) { trace_out_ = out; }

  // Executor of the test itself, outside all processes.
  io::TimeNs NowNs() override { return now_; }
  void Schedule(std::coroutine_handle<> handle) override;
  void AddTimer(io::TimeNs deadline, io::Timer* timer) override;
  bool RemoveTimer(io::Timer* timer) override;

  // --- For the parts of the simulator.
  EventKey At(io::TimeNs time, Trace what, uint64_t process,
              std::function<void()> action);
  void Note(Trace what, uint64_t process, uint64_t a, uint64_t b);
  void ScheduleFor(uint64_t process, std::coroutine_handle<> handle);
  void AddTimerFor(uint64_t process, io::TimeNs deadline, io::Timer* timer);

 private:
  struct Event {
    Trace what;
    uint64_t process;
    std::function<void()> action;
  };
  struct Node {
    std::unique_ptr<Disk> disk;
  };

  [[noreturn]] void Fail(std::string_view why, std::string_view task);
  void CheckProgress(std::string_view task);

  const WorldOptions options_;
  Random random_;
  io::TimeNs now_ = io::kSecond;
  io::TimeNs instant_ = 0;          // The last time that events ran at...
  uint64_t events_at_instant_ = 0;  // ...and how many did.
  uint64_t sequence_ = 0;
  uint64_t events_run_ = 0;
  uint64_t trace_hash_;
  std::FILE* trace_out_ = nullptr;
  std::map<EventKey, Event> events_;
  std::map<io::Timer*, EventKey> timers_;  // Looked up, never iterated.
  std::vector<Node> nodes_;
  std::unique_ptr<Network> network_;
  std::vector<std::unique_ptr<SimEnv>> processes_;  // Dead ones too.
};

}  // namespace cairn::sim
