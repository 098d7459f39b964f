// The nemesis's half for pauses and clocks.
#include <vector>

#include "tests/sim/campaign/client_pool.h"
#include "tests/sim/campaign/nemesis.h"

namespace cairn::sim {

namespace {
constexpr int64_t kDriftPpmMax = 50'000;  // 5%.
constexpr io::TimeNs kHour = 3600 * io::kSecond;
}  // namespace

void Nemesis::FireTime(Attack kind) {
  if (kind == Attack::kPauseServer || kind == Attack::kPauseClient) {
    return FirePause(kind);
  }
  World* const world = context_->world();
  const NodeId node = DrawAnyNode();
  if (kind == Attack::kWallClockJump) {
    const auto hour = static_cast<int64_t>(DrawTime(kHour));
    if (random_.OneIn(5)) {
      world->SetWallClock(node, io::kSecond);  // As of 1970.
    } else {
      world->JumpWallClock(node, random_.OneIn(2) ? hour : -hour);
    }
    return context_->faults->Count(kind);
  }
  const auto drift =
      static_cast<int64_t>(random_.Between(0, 2 * kDriftPpmMax)) - kDriftPpmMax;
  world->SetClockDrift(node, drift);
  Spawn(kind, Later([world, node] { world->SetClockDrift(node, 0); }));
}

io::Task<void> Nemesis::ResumeAfter(SimEnv* process, io::TimeNs time) {
  co_await io::SleepFor(context_->world(), time, &stopping_);
  context_->world()->Resume(process);
}

// Up to twice the lease: then those that come back are strangers.
void Nemesis::FirePause(Attack kind) {
  SimEnv* process = nullptr;
  if (kind == Attack::kPauseClient) {
    const std::vector<SimClient*>& clients = context_->clients->taken();
    if (clients.empty()) return;
    process = clients[random_.Below(clients.size())]->env();
  } else {
    const ServerId server =
        DrawServer(random_.OneIn(3) ? Attack::kKillMeta : Attack::kKillTarget);
    if (!Up(server)) return;
    process = server == kMeta ? context_->cluster->meta()->env()
                              : context_->cluster->TargetEnv(server);
  }
  World* const world = context_->world();
  if (world->paused(process)) return;
  const io::TimeNs longest = random_.OneIn(2)
                                 ? 2 * context_->tunables->cluster.meta.lease_ns
                                 : context_->tunables->faults.down_max;
  const io::TimeNs time = DrawTime(longest);
  world->Pause(process, time);
  Spawn(kind, ResumeAfter(process, time));
}

}  // namespace cairn::sim
