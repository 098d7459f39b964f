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
//           a dead process is not cut off: its coroutines must unwind. So its
//           SimEnv stays valid until the World goes; files, sockets and the
//           disk refuse it with kUnavailable; whatever waited on a socket or a
//           hung disk wakes with that; timers and Post() go on. It cannot
//           change the disk or send a byte any more. Close and destroy its
//           objects as always (a Close() of a dead process ends with OK), at
//           any time: a new process may Start() on the node at once, and finds
//           what the disk kept.
// Pause:    as SIGSTOP. None of the process's coroutines, timers and posts run;
//           what arrives waits in its sockets; then all that is due runs.
//           Kill() ends a pause.
// Faults:   every fault that changed something is counted in faults() and is
//           part of the trace. Disk faults: disk(); network faults: network().
// Failure:  Run() prints seed, task, virtual time and who waits for what, then
//           ends the program, when nothing can happen any more (deadlock), the
//           virtual time limit passes, or time stands still for too long.
#pragma once

#include <array>
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
#include "tests/sim/event_queue.h"
#include "tests/sim/fault_kind.h"
#include "tests/sim/network.h"
#include "tests/sim/node_clock.h"
#include "tests/sim/node_id.h"
#include "tests/sim/random.h"
#include "tests/sim/trace.h"

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

class World : public io::Executor {
 public:
  using EventKey = sim::EventKey;

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
  // Kills the process just before its n-th next event; 1: before the next one.
  // 0: not any more.
  void KillAt(SimEnv* process, uint64_t nth_event);

  // Until Resume(), Kill() or, with a duration, that time has passed. A pause
  // of a paused process ends at the later of the two ends.
  void Pause(SimEnv* process, io::TimeNs duration = io::kNoDeadline);
  void Resume(SimEnv* process);
  bool paused(const SimEnv* process) const;

  // The node's wall clock jumps by, or to, that; see tests/sim/node_clock.h.
  void JumpWallClock(NodeId node, int64_t by_ns);
  void SetWallClock(NodeId node, io::TimeNs since_1970);
  // The node's monotonic clock gains (or loses) that many parts per million.
  void SetClockDrift(NodeId node, int64_t drift_ppm);
  NodeClock* clock(NodeId node);

  // Every disk operation of the node takes `factor` times as long, or none
  // finishes (until Unhang(), a crash, or the death of its process).
  void SlowDisk(NodeId node, uint64_t factor,
                io::TimeNs duration = io::kNoDeadline);
  void HangDisk(NodeId node, io::TimeNs duration = io::kNoDeadline);
  void UnhangDisk(NodeId node);

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
  // Runs `hook` before every event; it may do to the World what it likes except
  // run it. Null: no hook any more.
  void OnEvent(std::function<void()> hook) { on_event_ = std::move(hook); }
  // Tells `hook` of each trace entry as it is noted: what, and of which process
  // (0: none). It may only look. Null: no hook any more.
  void OnNote(std::function<void(Trace what, uint64_t process)> hook) {
    on_note_ = std::move(hook);
  }
  uint64_t events_run() const { return events_run_; }

  uint64_t seed() const { return options_.seed; }
  uint64_t trace_hash() const { return trace_hash_; }
  // How often each kind of fault fired.
  const FaultCounts& faults() const { return faults_; }
  // How many trace entries of that kind there were: with OnEvent(), a way to
  // stop at each disk write.
  uint64_t noted(Trace what) const { return noted_[static_cast<size_t>(what)]; }
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
  // A fault did something. `where`: node, process or offset, as the kind has.
  void Fired(FaultKind kind, uint64_t where);
  void ScheduleFor(uint64_t process, std::coroutine_handle<> handle);
  void AddTimerFor(uint64_t process, io::TimeNs deadline, io::Timer* timer);

 private:
  struct Node {
    std::unique_ptr<Disk> disk;
    NodeClock clock;
    uint64_t slow_periods = 0;  // Numbers them, so that each ends only itself.
    uint64_t hung_periods = 0;
  };

  Node& NodeAt(NodeId node);
  // Whether an event is left that runs at or before `limit`.
  bool HasNext(io::TimeNs limit);
  bool StepUntil(io::TimeNs limit);
  bool KillIfDue(uint64_t process);
  void Bury(SimEnv* process);
  void EndPause(SimEnv* process);
  std::string DescribeHeld() const;  // Paused processes, hung disks.
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
  std::array<uint64_t, kTraceKinds> noted_{};
  FaultCounts faults_;
  std::function<void()> on_event_;
  std::function<void(Trace, uint64_t)> on_note_;
  bool in_hook_ = false;
  std::map<uint64_t, uint64_t> kills_due_;       // Process to events left.
  std::map<uint64_t, io::TimeNs> paused_until_;  // By process.
  EventQueue events_;
  std::vector<Node> nodes_;
  std::unique_ptr<Network> network_;
  std::vector<std::unique_ptr<SimEnv>> processes_;  // Dead ones too.
};

}  // namespace cairn::sim
