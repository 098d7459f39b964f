// World: pauses, clocks, slow and hung disks, kills at an event.
#include <algorithm>
#include <utility>

#include "tests/sim/sim_env.h"
#include "tests/sim/world.h"

namespace cairn::sim {
namespace {

io::TimeNs After(io::TimeNs now, io::TimeNs duration) {
  return duration > io::kNoDeadline - now ? io::kNoDeadline : now + duration;
}

}  // namespace

void World::KillAt(SimEnv* process, uint64_t nth_event) {
  if (nth_event == 0 || !process->alive()) {
    kills_due_.erase(process->process());
  } else {
    kills_due_[process->process()] = nth_event;
  }
}

void World::Pause(SimEnv* process, io::TimeNs duration) {
  if (!process->alive()) return;
  const uint64_t number = process->process();
  if (!events_.paused(number)) Fired(FaultKind::kPause, number);
  events_.Pause(number);
  io::TimeNs& until = paused_until_[number];
  until = std::max(until, After(now_, duration));
  if (until == io::kNoDeadline) return;
  At(until, Trace::kFault, 0, [this, process] { EndPause(process); });
}

void World::EndPause(SimEnv* process) {
  const auto paused = paused_until_.find(process->process());
  // Else it was resumed by hand, perhaps paused again for longer.
  if (paused != paused_until_.end() && paused->second <= now_) Resume(process);
}

void World::Resume(SimEnv* process) {
  paused_until_.erase(process->process());
  events_.Resume(process->process());
}

bool World::paused(const SimEnv* process) const {
  return events_.paused(process->process());
}

void World::JumpWallClock(NodeId node, int64_t by_ns) {
  Fired(FaultKind::kWallClockJump, node.value);
  clock(node)->JumpWall(by_ns);
}

void World::SetWallClock(NodeId node, io::TimeNs since_1970) {
  Fired(FaultKind::kWallClockJump, node.value);
  clock(node)->SetWall(now_, since_1970);
}

void World::SetClockDrift(NodeId node, int64_t drift_ppm) {
  if (drift_ppm != 0) Fired(FaultKind::kClockDrift, node.value);
  clock(node)->SetDrift(now_, drift_ppm);
}

void World::SlowDisk(NodeId node, uint64_t factor, io::TimeNs duration) {
  disk(node)->set_slow_factor(factor);
  const uint64_t period = ++NodeAt(node).slow_periods;
  if (duration == io::kNoDeadline) return;
  At(After(now_, duration), Trace::kFault, 0, [this, node, period] {
    if (NodeAt(node).slow_periods == period) disk(node)->set_slow_factor(1);
  });
}

void World::HangDisk(NodeId node, io::TimeNs duration) {
  disk(node)->set_hung(true);
  const uint64_t period = ++NodeAt(node).hung_periods;
  if (duration == io::kNoDeadline) return;
  At(After(now_, duration), Trace::kFault, 0, [this, node, period] {
    if (NodeAt(node).hung_periods == period) UnhangDisk(node);
  });
}

void World::UnhangDisk(NodeId node) {
  disk(node)->set_hung(false);
  for (const auto& process : processes_) {
    if (process->node() == node) process->WakeHung();
  }
}

std::string World::DescribeHeld() const {
  std::string text;
  for (const auto& [process, until] : paused_until_) {
    absl::StrAppend(&text, "  process ", process, " is paused\n");
  }
  for (size_t i = 0; i < nodes_.size(); ++i) {
    if (!nodes_[i].disk->hung()) continue;
    absl::StrAppend(&text, "  the disk of node ", i + 1, " hangs\n");
  }
  return text;
}

}  // namespace cairn::sim
