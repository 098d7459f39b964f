#include "server/meta/health.h"

#include <algorithm>
#include <utility>

#include "spdlog/spdlog.h"

namespace cairn::server {

using format::TargetId;
using format::TargetState;
using io::TimeNs;

uint64_t BrakeLimit(const HealthOptions& options, uint64_t targets) {
  // A third of nine is three, whatever floating point makes of it.
  const double share = static_cast<double>(targets) * options.brake_share;
  return std::max(kBrakeTargetsMin, static_cast<uint64_t>(share + 1e-6));
}

io::Task<void> HealthMonitor::Loop() {
  io::Gate asking(core_->env);
  while (!core_->stopping.cancelled()) {
    Round(&asking);
    const absl::Status stored = co_await StoreChanges();
    if (!stored.ok()) {
      spdlog::warn("metadata: states of targets are not stored yet: {}",
                   StdText(stored.message()));
    }
    CheckBrake();
    co_await io::SleepFor(core_->env, core_->options.health.heartbeat_ns,
                          &core_->stopping);
  }
  co_await asking.Close();
}

void HealthMonitor::Round(io::Gate* asking) {
  const TimeNs now = core_->env->NowNs();
  const TimeNs pause = core_->options.health.heartbeat_ns;
  if (last_round_ != 0 && now - last_round_ > 2 * pause) {
    for (auto& [id, health] : targets_) {
      health.Forgive(now - last_round_ - pause, now);
    }
  }
  last_round_ = now;
  FollowMap();
  for (const auto& [id, health] : targets_) {
    if (asking_.insert(id).second) asking->Spawn(Ask(id));
  }
}

// Others change the map, too: new targets, states that an operator set.
void HealthMonitor::FollowMap() {
  const TimeNs now = core_->env->NowNs();
  const auto map = core_->map.map();
  std::erase_if(targets_, [&](const auto& entry) {
    return map->FindTarget(entry.first) == nullptr;
  });
  for (const auto& [id, info] : map->targets) {
    const auto [place, made] =
        targets_.try_emplace(id, &core_->options.health, info.state, now);
    if (!made) place->second.SetState(info.state, now);
  }
}

io::Task<void> HealthMonitor::Ask(TargetId target) {
  const TimeNs asked_at = core_->env->NowNs();
  const absl::StatusOr<wire::TargetStatusResponse> answer =
      co_await orders_->Heartbeat(
          target, asked_at + core_->options.health.suspect_after_ns);
  asking_.erase(target);
  const auto place = targets_.find(target);
  if (place == targets_.end()) co_return;  // Left the map meanwhile.
  if (answer.ok()) {
    place->second.Answered(asked_at, answer->failed());
  } else {
    place->second.Missed(std::string(answer.status().message()));
  }
}

io::Task<absl::Status> HealthMonitor::StoreChanges() {
  const TimeNs now = core_->env->NowNs();
  if (last_map_ != 0 && now - last_map_ < core_->options.health.map_pause_ns) {
    co_return absl::OkStatus();
  }
  std::map<TargetId, TargetState> states;
  for (const auto& [id, health] : targets_) {
    const TargetState state = health.Judge(now);
    if (state != health.state()) states[id] = state;
  }
  if (states.empty()) co_return absl::OkStatus();
  format::ClusterMap next = *core_->map.map();
  next.epoch = format::Epoch(next.epoch.value + 1);
  for (const auto& [id, state] : states) {
    const auto place = next.targets.find(id);
    if (place != next.targets.end()) place->second.state = state;
  }
  last_map_ = now;
  CAIRN_CO_RETURN_IF_ERROR(co_await core_->map.Replace(std::move(next)));
  NoteStored(states);
  co_return absl::OkStatus();
}

void HealthMonitor::NoteStored(const std::map<TargetId, TargetState>& states) {
  FollowMap();
  const TimeNs now = core_->env->NowNs();
  for (const auto& [id, state] : states) {
    const auto place = targets_.find(id);
    if (place == targets_.end()) continue;
    const std::string reason = place->second.Reason(now);
    spdlog::warn("metadata: target {} is {}{}{} (map epoch {})", id.value,
                 format::ToString(state), reason.empty() ? "" : ": ", reason,
                 core_->map.epoch().value);
  }
}

void HealthMonitor::CheckBrake() {
  uint64_t down = 0;
  uint64_t all = 0;
  for (const auto& [id, health] : targets_) {
    if (health.state() != TargetState::kOut) ++all;
    if (health.state() == TargetState::kDown) ++down;
  }
  const uint64_t limit = BrakeLimit(core_->options.health, all);
  const bool was = !brake_.empty();
  brake_.clear();
  if (down > limit) {
    brake_ = absl::StrCat(
        down, " of ", all, " targets are down, more than ", limit,
        ": looks like the network or a mistake; nothing is taken out of "
        "service or rebuilt until a person has looked or they are back");
  }
  if (!was && !brake_.empty()) spdlog::error("metadata: brake: {}", brake_);
  if (was && brake_.empty()) spdlog::warn("metadata: brake released");
}

HealthMonitor::View HealthMonitor::Look(TargetId target) const {
  const auto place = targets_.find(target);
  if (place == targets_.end()) return View();
  const TimeNs now = core_->env->NowNs();
  View view;
  view.in_state_ns = now - place->second.since();
  view.reason = place->second.Reason(now);
  view.answers = place->second.answers();
  return view;
}

}  // namespace cairn::server
