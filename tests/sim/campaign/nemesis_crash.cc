// The nemesis's half for processes and machines.
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/sim/campaign/client_pool.h"
#include "tests/sim/campaign/nemesis.h"

namespace cairn::sim {

using io::Task;

namespace {
constexpr io::TimeNs kRestartPause = 300 * io::kMillisecond;
constexpr uint64_t kCrashLoopMax = 4;
// A start that has not ended then hangs.
constexpr uint32_t kStartsMax = 200;
// Who was turned away for the time being asks again within 15 seconds.
constexpr io::TimeNs kJoinedWithin = 60 * io::kSecond;
}  // namespace

std::string Nemesis::NameOf(ServerId server) const {
  return server == kMeta ? std::string("the metadata service")
                         : absl::StrCat("target ", server);
}

bool Nemesis::Up(ServerId server) const {
  return server == kMeta ? context_->cluster->MetaRuns()
                         : context_->cluster->TargetRuns(server);
}

// The first target of a drawn process: those of one node die together.
Nemesis::ServerId Nemesis::DrawServer(Attack kind) {
  if (kind == Attack::kKillMeta || kind == Attack::kCrashMeta) {
    return kMeta;
  }
  const ClusterOptions& options = context_->cluster->options();
  if (kind == Attack::kCrashLoop && random_.OneIn(3)) return kMeta;
  const uint32_t each = options.targets_per_node;
  const uint32_t target = static_cast<uint32_t>(random_.Below(options.targets));
  return target / each * each + 1;
}

void Nemesis::Kill(ServerId server) {
  server == kMeta ? context_->cluster->KillMeta()
                  : context_->cluster->KillTarget(server);
}

void Nemesis::Crash(ServerId server) {
  CrashOptions options;
  options.half_open = random_.OneIn(2);
  options.tear = !random_.OneIn(3);
  options.scatter = random_.OneIn(2);
  if (random_.OneIn(6)) options.unflushed = Unflushed::kDropAll;
  if (random_.OneIn(6)) options.unflushed = Unflushed::kKeepAll;
  server == kMeta ? context_->cluster->CrashMeta(options)
                  : context_->cluster->CrashTarget(server, options);
}

void Nemesis::FireServer(Attack kind) {
  const ServerId server = DrawServer(kind);
  if (busy_.contains(server) || !Up(server)) return;
  busy_.insert(server);
  const bool power = kind == Attack::kCrashTarget ||
                     kind == Attack::kCrashMeta ||
                     (kind == Attack::kCrashLoop && random_.OneIn(2));
  power ? Crash(server) : Kill(server);
  if (kind == Attack::kCrashLoop) {
    Spawn(kind, CrashLoop(server, random_.Between(1, kCrashLoopMax)));
  } else {
    Spawn(kind, Revive(server));
  }
}

// It stays down for ever. The world is out of order until everybody knows.
void Nemesis::FireLoss() {
  const ServerId server = DrawServer(Attack::kKillTarget);
  if (busy_.contains(server) || !Up(server) || context_->stopping) return;
  if (context_->lost.size() >= context_->tunables->faults.lost_targets) return;
  busy_.insert(server);
  context_->lost.insert(server);
  random_.OneIn(2) ? Crash(server) : Kill(server);
  Spawn(Attack::kLoseTarget, Later([] {}));
}

// All servers at one instant; sometimes the clients too.
void Nemesis::FirePowerCut() {
  const ClusterOptions& options = context_->cluster->options();
  std::vector<ServerId> servers;
  if (Up(kMeta) && !busy_.contains(kMeta)) servers.push_back(kMeta);
  for (uint32_t t = 1; t <= options.targets; t += options.targets_per_node) {
    if (Up(t) && !busy_.contains(t)) servers.push_back(t);
  }
  if (servers.empty()) return;
  context_->faults->Count(Attack::kPowerCut);
  for (const ServerId server : servers) {
    busy_.insert(server);
    Crash(server);
    gate_.Spawn(Track(Revive(server)));
  }
  if (!random_.OneIn(3)) return;
  while (context_->clients->KillOne(0) != nullptr) {
  }
}

Task<void> Nemesis::Revive(ServerId server) {
  const io::TimeNs down = DownTime();
  co_await io::SleepFor(context_->world(), down, &stopping_);
  co_await StartUntilUp(server);
  busy_.erase(server);
}

// Killed or without power again, a drawn time into each start.
Task<void> Nemesis::CrashLoop(ServerId server, uint64_t times) {
  for (uint64_t i = 0; i < times && !stopping_.cancelled(); ++i) {
    const io::TimeNs down = DownTime() / 4;
    co_await io::SleepFor(context_->world(), down, &stopping_);
    std::optional<absl::Status> started;
    io::Gate start(context_->world());
    start.Spawn(SimCluster::Keep(StartServer(server), &started));
    const io::TimeNs into = DrawTime(random_.OneIn(2) ? 3 * io::kMillisecond
                                                      : 50 * io::kMillisecond);
    co_await io::SleepFor(context_->world(), into);
    random_.OneIn(2) ? Crash(server) : Kill(server);
    co_await start.Close();
  }
  co_await StartUntilUp(server);
  busy_.erase(server);
}

Task<absl::Status> Nemesis::StartServer(ServerId server) {
  if (server == kMeta) co_return co_await context_->cluster->StartMeta();
  co_return co_await context_->cluster->StartTarget(server);
}

Task<void> Nemesis::StartUntilUp(ServerId server) {
  for (uint32_t tried = 0; !Up(server); ++tried) {
    if (context_->ruined.contains(server)) co_return;
    if (context_->lost.contains(server)) co_return;
    const absl::Status status = co_await StartServer(server);
    if (status.ok()) co_return;
    JudgeStart(server, status);
    if (tried == kStartsMax) {
      context_->judge->Violation(
          absl::StrCat(NameOf(server), " does not start: ", status.ToString()));
      co_return;
    }
    co_await io::SleepFor(context_->world(), kRestartPause);
  }
}

// Until all that run were let in. A flush that lied may have taken what a
// target wrote when it was let in last: it looks like an old copy of itself
// then, and is turned away for good.
Task<void> Nemesis::AwaitJoined() {
  SimCluster* const cluster = context_->cluster;
  const io::TimeNs deadline = context_->now() + kJoinedWithin;
  const uint32_t may_lie = context_->faults->count(Attack::kLyingSync) > 0
                               ? context_->tunables->faults.damaged_targets
                               : 0;
  for (uint32_t t = 1; t <= cluster->options().targets; ++t) {
    while (cluster->TargetRuns(t) && !cluster->TargetServes(t) &&
           context_->now() < deadline) {
      if (t <= may_lie &&
          absl::StrContains(cluster->JoinProblem(t), "older state")) {
        context_->ruined.insert(t);
        break;
      }
      co_await io::SleepFor(context_->world(), 10 * io::kMillisecond);
    }
  }
}

// A server that finds its disk in order must start.
void Nemesis::JudgeStart(ServerId server, const absl::Status& status) {
  const AttackLog& faults = *context_->faults;
  // A flush that lied may have taken the index with it: refused for good, and
  // nobody rebuilds it yet. One of those that the scheme can do without.
  if (faults.count(Attack::kLyingSync) > 0 && absl::IsDataLoss(status) &&
      server != kMeta && server <= context_->tunables->faults.damaged_targets) {
    context_->ruined.insert(server);
    return;
  }
  if (faults.Fired(AttackClass::kDisk) ||
      status.code() == absl::StatusCode::kUnavailable) {
    return;
  }
  context_->judge->Violation(absl::StrCat(
      NameOf(server), " does not start after a crash: ", status.ToString()));
}

}  // namespace cairn::sim
