#include "tests/sim/crash_points/monitor.h"

#include <bit>
#include <utility>

namespace cairn::sim {
namespace {

bool IsOperation(Trace what) {
  return what == Trace::kWrite || what == Trace::kSync || what == Trace::kName;
}

}  // namespace

uint64_t CommitsInFlight(SimCluster* cluster) {
  MetaProcess* const meta = cluster->meta();
  if (meta == nullptr || meta->kv() == nullptr) return 0;
  return meta->kv()->sequence() - meta->kv()->durable_sequence();
}

PointMonitor::PointMonitor(SimCluster* cluster,
                           std::function<bool(uint32_t)> counts)
    : cluster_(cluster), counts_(std::move(counts)) {
  World* const world = cluster->world();
  world->OnNote([this](Trace what, uint64_t process) { Noted(what, process); });
  world->OnEvent([this] { BeforeEvent(); });
}

PointMonitor::~PointMonitor() {
  cluster_->world()->OnNote(nullptr);
  cluster_->world()->OnEvent(nullptr);
}

void PointMonitor::WatchFor(const PlannedCrash& crash,
                            std::function<void()> then) {
  crash_ = crash;
  then_ = std::move(then);
  Start();
}

void PointMonitor::WatchAll() {
  crash_.reset();
  Start();
}

void PointMonitor::Start() {
  watching_ = true;
  number_ = 0;
  event_of_last_ = cluster_->world()->events_run();
  operations_ = 0;
  points_.clear();
  kv_ = nullptr;
  NoteCommits();  // What came before is none of ours.
  acted_.reset();
  names_only_ = true;
  LookAtDisks();
}

void PointMonitor::LookAtDisks() {
  commits_ = CommitsInFlight(cluster_);
  for (uint32_t s = 0; s <= cluster_->options().targets; ++s) {
    unflushed_[s] = DiskOf(s)->unflushed();
  }
}

Disk* PointMonitor::DiskOf(uint32_t server) const {
  return cluster_->world()->disk(server == 0 ? cluster_->meta_node()
                                             : cluster_->TargetNode(server));
}

std::optional<uint32_t> PointMonitor::ServerOf(uint64_t process) const {
  MetaProcess* const meta = cluster_->meta();
  if (meta != nullptr && meta->env()->process() == process) return 0;
  for (uint32_t t = 1; t <= cluster_->options().targets; ++t) {
    const SimEnv* const env = cluster_->TargetEnv(t);
    if (env != nullptr && env->process() == process) return t;
  }
  return std::nullopt;  // A client, or one that is dead.
}

void PointMonitor::Noted(Trace what, uint64_t process) {
  if (!watching_ || !IsOperation(what)) return;
  const std::optional<uint32_t> server = ServerOf(process);
  if (!server || !counts_(*server)) return;
  acted_ = server;
  names_only_ = names_only_ && what == Trace::kName;
  ++operations_;
}

void PointMonitor::NoteCommits() {
  MetaProcess* const meta = cluster_->meta();
  const server::ModelKv* const kv = meta == nullptr ? nullptr : meta->kv();
  if (kv == nullptr) return;
  const bool fresh = std::exchange(kv_, kv) != kv;
  const uint64_t made = std::exchange(made_, kv->sequence());
  const uint64_t durable = std::exchange(durable_, kv->durable_sequence());
  if (fresh || !counts_(0)) return;
  if (made == made_ && durable == durable_) return;
  acted_ = 0;
  names_only_ = false;
  operations_ += made_ - made + durable_ - durable;
}

// As the disks were last seen.
CrashPoint PointMonitor::Make(uint32_t server) const {
  CrashPoint point;
  point.server = server;
  point.commits = commits_;
  point.unflushed = unflushed_.at(server) + (server == 0 ? commits_ : 0);
  point.unflushed_all = commits_;
  for (const auto& [s, changes] : unflushed_) point.unflushed_all += changes;
  return point;
}

// The operation was in the last of `events` since the one before.
void PointMonitor::KeepPoints(uint32_t server, uint64_t events) {
  const bool is_new = points_.empty() || points_.back().server != server;
  if (events > 1 || (events == 1 && is_new)) {
    CrashPoint before = Make(server);
    before.number = number_ - 1;
    before.events = events - 1;
    points_.push_back(before);
  }
  LookAtDisks();
  CrashPoint after = Make(server);
  after.number = number_;
  points_.push_back(after);
}

// A change of a name waits until its directory is flushed: there is one more.
bool PointMonitor::Changed(uint32_t server) {
  return !std::exchange(names_only_, true) ||
         DiskOf(server)->unflushed() != unflushed_[server];
}

void PointMonitor::BeforeEvent() {
  if (!watching_) return;
  const uint64_t now = cluster_->world()->events_run();
  NoteCommits();
  const std::optional<uint32_t> server = std::exchange(acted_, std::nullopt);
  if (server && Changed(*server)) {
    ++number_;
    const uint64_t events = now - std::exchange(event_of_last_, now);
    if (!crash_) KeepPoints(*server, events);
    LookAtDisks();  // Whether or not points are kept: the count is the same.
  }
  if (!crash_ || number_ != crash_->point) return;
  if (now < event_of_last_ + crash_->events) return;
  watching_ = false;
  then_();
}

namespace {

// What the disks keep, one after the other: some:BITS are handed out in order.
class Keeper {
 public:
  Keeper(const PlannedCrash& crash, uint64_t seed)
      : crash_(crash), seed_(Random::Mix(seed + crash.point)) {}

  uint64_t Commits(uint64_t in_flight) {
    switch (crash_.survivors.kind) {
      case SurvivorKind::kNone:
        return 0;
      case SurvivorKind::kAll:
        return in_flight;
      case SurvivorKind::kTorn:
        return Draw() % (in_flight + 1);
      case SurvivorKind::kSome:
        break;
    }
    // They survive in order: up to the first that does not.
    const uint64_t kept = static_cast<uint64_t>(std::countr_one(bits_));
    bits_ = in_flight < 64 ? bits_ >> in_flight : 0;
    return kept < in_flight ? kept : in_flight;
  }

  CrashOptions Disk(uint64_t unflushed) {
    CrashOptions options;
    // A machine without power says nothing, but it may also just hang up.
    options.half_open = seed_ % 2 == 1;
    switch (crash_.survivors.kind) {
      case SurvivorKind::kNone:
        options.unflushed = Unflushed::kDropAll;
        break;
      case SurvivorKind::kAll:
        options.unflushed = Unflushed::kKeepAll;
        break;
      case SurvivorKind::kTorn:
        options.seed = Draw() | 1;
        options.scatter = options.seed % 4 == 1;
        break;
      case SurvivorKind::kSome:
        options.unflushed = Unflushed::kChosen;
        options.survivors = bits_;
        bits_ = unflushed < 64 ? bits_ >> unflushed : 0;
        break;
    }
    return options;
  }

 private:
  uint64_t Draw() {
    return Random::Mix(seed_ ^
                       Random::Mix(crash_.survivors.value + 64 * ++draws_));
  }
  const PlannedCrash crash_;
  const uint64_t seed_;
  uint64_t bits_ = crash_.survivors.value;
  uint64_t draws_ = 0;
};

void CrashOne(SimCluster* cluster, uint32_t server, Keeper* keeper) {
  World* const world = cluster->world();
  if (server > 0) {
    const uint64_t changes =
        world->disk(cluster->TargetNode(server))->unflushed();
    cluster->CrashTarget(server, keeper->Disk(changes));
    return;
  }
  const uint64_t commits = keeper->Commits(CommitsInFlight(cluster));
  const uint64_t changes = world->disk(cluster->meta_node())->unflushed();
  cluster->CrashMeta(keeper->Disk(changes), commits);
}

}  // namespace

void CrashServers(SimCluster* cluster, const PlannedCrash& crash) {
  Keeper keeper(crash, cluster->options().seed);
  switch (crash.kind) {
    case CrashKind::kOne:
      CrashOne(cluster, crash.server, &keeper);
      return;
    case CrashKind::kAll:
      for (uint32_t s = 0; s <= cluster->options().targets; ++s) {
        CrashOne(cluster, s, &keeper);
      }
      return;
    case CrashKind::kKill:
      if (crash.server > 0) {
        cluster->KillTarget(crash.server);
      } else {
        cluster->KillMeta(keeper.Commits(CommitsInFlight(cluster)));
      }
      return;
  }
}

}  // namespace cairn::sim
