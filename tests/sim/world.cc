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

const char* NameOf(Trace what) {
  switch (what) {
    case Trace::kResume:
      return "resume";
    case Trace::kTimer:
      return "timer";
    case Trace::kPost:
      return "post";
    case Trace::kArrival:
      return "arrival";
    case Trace::kRead:
      return "read";
    case Trace::kWrite:
      return "write";
    case Trace::kSync:
      return "sync";
    case Trace::kName:
      return "name";
    case Trace::kStart:
      return "start";
    case Trace::kDeath:
      return "death";
  }
  return "?";
}

}  // namespace

World::World(WorldOptions options)
    : options_(options), random_(options.seed), trace_hash_(options.seed) {
  network_ = std::make_unique<Network>(this, options.network, random_.Next());
}

World::~World() {
  // Segments under way hold connections, which leave the network at their end.
  events_.clear();
}

NodeId World::AddNode() {
  nodes_.push_back({std::make_unique<Disk>(options_.disk, random_.Next())});
  const NodeId node(static_cast<uint32_t>(nodes_.size()));
  network_->AddNode(node);
  return node;
}

SimEnv* World::Start(NodeId node, uint32_t pool_large_buffers) {
  CAIRN_CHECK(node.value >= 1 && node.value <= nodes_.size());
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
  process->MarkDead();
  process->disk()->UnlockAllOf(process->process());
  network_->ProcessDied(process, /*silent=*/false);
}

void World::Crash(NodeId node, CrashOptions options) {
  Note(Trace::kDeath, 0, node.value, 1);
  if (options.half_open) network_->set_powered(node, false);
  for (const auto& process : processes_) {
    if (process->node() != node || !process->alive()) continue;
    process->MarkDead();
    network_->ProcessDied(process.get(), options.half_open);
  }
  network_->set_powered(node, false);
  disk(node)->Crash(options);
}

Disk* World::disk(NodeId node) {
  CAIRN_CHECK(node.value >= 1 && node.value <= nodes_.size());
  return nodes_[node.value - 1].disk.get();
}

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
  events_.emplace(key, Event{what, process, std::move(action)});
  return key;
}

void World::ScheduleFor(uint64_t process, std::coroutine_handle<> handle) {
  At(now_, Trace::kResume, process, [handle] { handle.resume(); });
}

void World::AddTimerFor(uint64_t process, io::TimeNs deadline,
                        io::Timer* timer) {
  const EventKey key = At(deadline, Trace::kTimer, process, [this, timer] {
    timers_.erase(timer);
    timer->Fire();
  });
  CAIRN_CHECK(timers_.emplace(timer, key).second);
}

void World::Schedule(std::coroutine_handle<> handle) { ScheduleFor(0, handle); }

void World::AddTimer(io::TimeNs deadline, io::Timer* timer) {
  AddTimerFor(0, deadline, timer);
}

bool World::RemoveTimer(io::Timer* timer) {
  const auto it = timers_.find(timer);
  if (it == timers_.end()) return false;
  events_.erase(it->second);
  timers_.erase(it);
  return true;
}

void World::Note(Trace what, uint64_t process, uint64_t a, uint64_t b) {
  for (const uint64_t value :
       {now_, static_cast<uint64_t>(what), process, a, b}) {
    trace_hash_ = sim::Random::Mix(trace_hash_ ^ value) + 1;
  }
  if (trace_out_ == nullptr) return;
  std::fprintf(trace_out_, "%12.6f ms  p%-3llu %-8s %llu %llu\n",
               static_cast<double>(now_) / io::kMillisecond,
               static_cast<unsigned long long>(process), NameOf(what),
               static_cast<unsigned long long>(a),
               static_cast<unsigned long long>(b));
}

bool World::Step() {
  if (events_.empty()) return false;
  auto next = events_.extract(events_.begin());
  now_ = std::max(now_, next.key().time);
  events_at_instant_ = now_ == instant_ ? events_at_instant_ + 1 : 0;
  instant_ = now_;
  ++events_run_;
  Note(next.mapped().what, next.mapped().process, 0, 0);
  next.mapped().action();
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
  while (!events_.empty() && events_.begin()->first.time <= time) {
    Step();
    CheckProgress("RunUntil");
  }
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
      "\nWaiting:\n", network_->Describe());
  std::fputs(report.c_str(), stderr);
  CheckFailed(__FILE__, __LINE__, "the simulated world goes on");
}

}  // namespace cairn::sim
