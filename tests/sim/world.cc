#include "tests/sim/world.h"

#include <algorithm>
#include <utility>

#include "io/wait.h"
#include "tests/sim/sim_env.h"

namespace cairn::sim {
namespace {

// More events than this while time stands still is a loop without end.
constexpr uint64_t kEventsPerInstantMax = 20'000'000;

io::Task<void> RunAndMark(io::Task<void> task, bool* done) {
  co_await std::move(task);
  *done = true;
}

}  // namespace

World::World(WorldOptions options)
    : options_(options), random_(options.seed), trace_hash_(options.seed) {
  network_ = std::make_unique<Network>(this, options.network, random_.Next());
}

World::~World() {
  // Segments under way hold connections, which leave the network at their end.
  events_.Clear();
}

NodeId World::AddNode() {
  nodes_.emplace_back();
  nodes_.back().disk = std::make_unique<Disk>(options_.disk, random_.Next());
  nodes_.back().disk->set_on_fault(
      [this](FaultKind kind, uint64_t where) { Fired(kind, where); });
  const NodeId node(static_cast<uint32_t>(nodes_.size()));
  network_->AddNode(node);
  return node;
}

SimEnv* World::Start(NodeId node, uint32_t pool_large_buffers) {
  NodeAt(node);  // Checks.
  network_->set_powered(node, true);
  const uint64_t process = processes_.size() + 1;
  processes_.push_back(std::make_unique<SimEnv>(
      this, node, process, random_.Next(), pool_large_buffers));
  Note(Trace::kStart, process, node.value, 0);
  return processes_.back().get();
}

void World::Kill(SimEnv* process) {
  if (!process->alive()) return;
  Note(Trace::kDeath, process->process(), 0, 0);
  Fired(FaultKind::kKill, process->process());
  Bury(process);
  process->disk()->UnlockAllOf(process->process());
  network_->ProcessDied(process, /*silent=*/false);
}

// What ends with a process however it dies.
void World::Bury(SimEnv* process) {
  process->MarkDead();
  kills_due_.erase(process->process());
  Resume(process);  // To unwind.
}

void World::Crash(NodeId node, CrashOptions options) {
  Note(Trace::kDeath, 0, node.value, 1);
  Fired(FaultKind::kPowerLoss, node.value);
  if (options.half_open) network_->set_powered(node, false);
  for (const auto& process : processes_) {
    if (process->node() != node || !process->alive()) continue;
    Bury(process.get());
    network_->ProcessDied(process.get(), options.half_open);
  }
  network_->set_powered(node, false);
  disk(node)->Crash(options);
}

World::Node& World::NodeAt(NodeId node) {
  CAIRN_CHECK(node.value >= 1 && node.value <= nodes_.size());
  return nodes_[node.value - 1];
}

Disk* World::disk(NodeId node) { return NodeAt(node).disk.get(); }

NodeClock* World::clock(NodeId node) { return &NodeAt(node).clock; }

std::string World::Address(NodeId node, uint16_t port) {
  return absl::StrCat("10.0.0.", node.value, ":", port);
}

World::EventKey World::At(io::TimeNs time, Trace what, uint64_t process,
                          std::function<void()> action) {
  EventKey key;
  key.time = std::max(time, now_);
  key.sequence = ++sequence_;
  if (options_.shuffle_ready && what == Trace::kResume) {
    key.tie = random_.Next();
  }
  events_.Add(key, Event{what, process, std::move(action)});
  return key;
}

void World::ScheduleFor(uint64_t process, std::coroutine_handle<> handle) {
  At(now_, Trace::kResume, process, [handle] { handle.resume(); });
}

void World::AddTimerFor(uint64_t process, io::TimeNs deadline,
                        io::Timer* timer) {
  const EventKey key = At(deadline, Trace::kTimer, process, [this, timer] {
    events_.ForgetTimer(timer);
    timer->Fire();
  });
  events_.AddTimer(timer, key, process);
}

void World::Schedule(std::coroutine_handle<> handle) { ScheduleFor(0, handle); }

void World::AddTimer(io::TimeNs deadline, io::Timer* timer) {
  AddTimerFor(0, deadline, timer);
}

bool World::RemoveTimer(io::Timer* timer) { return events_.RemoveTimer(timer); }

void World::Fired(FaultKind kind, uint64_t where) {
  faults_.Add(kind);
  Note(Trace::kFault, 0, static_cast<uint64_t>(kind) + 1, where);
}

void World::Note(Trace what, uint64_t process, uint64_t a, uint64_t b) {
  for (const uint64_t value :
       {now_, static_cast<uint64_t>(what), process, a, b}) {
    trace_hash_ = sim::Random::Mix(trace_hash_ ^ value) + 1;
  }
  ++noted_[static_cast<size_t>(what)];
  if (on_note_) on_note_(what, process);
  if (trace_out_ == nullptr) return;
  const std::string detail =
      what == Trace::kFault && a > 0  // Else the end of a period.
          ? std::string(NameOf(static_cast<FaultKind>(a - 1)))
          : std::to_string(a);
  std::fprintf(trace_out_, "%12.6f ms  p%-3llu %-8s %s %llu\n",
               static_cast<double>(now_) / io::kMillisecond,
               static_cast<unsigned long long>(process), NameOf(what),
               detail.c_str(), static_cast<unsigned long long>(b));
}

bool World::HasNext(io::TimeNs limit) {
  const EventQueue::Next next = events_.Front();
  return next.key != nullptr && next.key->time <= limit;
}

bool World::Step() { return StepUntil(io::kNoDeadline); }

bool World::StepUntil(io::TimeNs limit) {
  CAIRN_CHECK(!in_hook_);
  if (!HasNext(limit)) return false;
  if (on_event_) {
    in_hook_ = true;
    on_event_();
    in_hook_ = false;
  }
  // A death changes what is next.
  while (HasNext(limit) && KillIfDue(events_.Front().event->process)) {
  }
  if (!HasNext(limit)) return false;
  now_ = std::max(now_, events_.Front().key->time);
  const Event event = events_.PopFront();
  events_at_instant_ = now_ == instant_ ? events_at_instant_ + 1 : 0;
  instant_ = now_;
  ++events_run_;
  Note(event.what, event.process, 0, 0);
  event.action();
  return true;
}

bool World::KillIfDue(uint64_t process) {
  const auto due = kills_due_.find(process);
  if (due == kills_due_.end() || --due->second > 0) return false;
  Kill(processes_[process - 1].get());
  return true;
}

void World::CheckProgress(std::string_view task) {
  if (events_at_instant_ > kEventsPerInstantMax) {
    Fail("virtual time stands still: something loops", task);
  }
}

void World::Run(io::Task<void> task, std::string_view name) {
  bool done = false;
  const io::TimeNs limit = now_ + options_.run_limit_ns;
  io::Gate gate(this);
  gate.Spawn(RunAndMark(std::move(task), &done));
  while (!done) {
    if (!Step()) Fail("deadlock: nothing is left to happen", name);
    if (now_ > limit) Fail("the virtual time limit passed", name);
    CheckProgress(name);
  }
}

void World::RunUntil(io::TimeNs time) {
  while (StepUntil(time)) CheckProgress("RunUntil");
  now_ = std::max(now_, time);
}

void World::RunUntilIdle() {
  const io::TimeNs limit = now_ + options_.run_limit_ns;
  while (Step()) {
    if (now_ > limit) Fail("the virtual time limit passed", "RunUntilIdle");
    CheckProgress("RunUntilIdle");
  }
}

void World::Fail(std::string_view why, std::string_view task) {
  const std::string report = absl::StrCat(
      "sim::World, seed ", options_.seed, ", running \"", AbslText(task),
      "\" at ", now_ / io::kMillisecond, " ms of virtual time: ", AbslText(why),
      "\nWaiting:\n", network_->Describe(), DescribeHeld());
  std::fputs(report.c_str(), stderr);
  CheckFailed(__FILE__, __LINE__, "the simulated world goes on");
}

}  // namespace cairn::sim
