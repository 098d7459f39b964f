#include "tests/sim/crash_points/crash_run.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/sim/cluster/cleanup.h"

namespace cairn::sim {

using io::Task;

namespace {

constexpr io::TimeNs kActWithin = 900 * io::kSecond;
constexpr io::TimeNs kPauseMax = 1500 * io::kMillisecond;

class CrashRun {
 public:
  CrashRun(Scenario* scenario, const CrashRunOptions* options)
      : scenario_(scenario),
        options_(options),
        cluster_(scenario->Cluster(options->seed)),
        stage_(&cluster_),
        monitor_(&cluster_,
                 [scenario](uint32_t s) { return scenario->Counts(s); }) {
    cluster_.world()->TraceTo(options->trace);
    if (options->spoil) options->spoil(&cluster_);
  }

  CrashRunResult Run() {
    scenario_->Prepare(&stage_);
    if (!stage_.violated()) Act();
    result_.finished = stage_.finished;
    if (!stage_.violated()) Judge();
    result_.violation = stage_.violation();
    return std::move(result_);
  }

 private:
  void Act();
  void AwaitCrashOrEnd();
  void ArmNext();
  Task<void> RunAction();
  Task<void> StartServers();
  void Judge();
  void LosePower();
  void DeleteAll();

  Scenario* const scenario_;
  const CrashRunOptions* const options_;
  SimCluster cluster_;
  Stage stage_;
  PointMonitor monitor_;
  CrashRunResult result_;
  size_t crashes_ = 0;    // Of the plan, that happened.
  bool crashed_ = false;  // And nothing was started since.
  bool acted_ = false;
  bool started_ = false;
};

void CrashRun::ArmNext() {
  if (crashes_ == options_->plan.size()) {
    monitor_.WatchAll();
    return;
  }
  const PlannedCrash& crash = options_->plan[crashes_];
  monitor_.WatchFor(crash, [this, &crash] {
    crashed_ = true;
    CrashServers(&cluster_, crash);
  });
}

Task<void> CrashRun::RunAction() {
  co_await scenario_->Act(&stage_);
  acted_ = true;
}

// In the order of `cairnd run`.
Task<void> CrashRun::StartServers() {
  for (uint32_t t = 1; t <= cluster_.options().targets && !crashed_; ++t) {
    if (cluster_.TargetRuns(t)) continue;
    const absl::Status status = co_await cluster_.StartTarget(t);
    if (!crashed_) stage_.Must(status, absl::StrCat("starting target ", t));
  }
  if (!cluster_.MetaRuns() && !crashed_) {
    const absl::Status status = co_await cluster_.StartMeta();
    if (!crashed_) stage_.Must(status, "starting the metadata service");
  }
  started_ = true;
}

void CrashRun::AwaitCrashOrEnd() {
  World* const world = cluster_.world();
  const io::TimeNs deadline = world->NowNs() + kActWithin;
  while (!started_ || !(acted_ || crashed_ || stage_.violated())) {
    if (world->NowNs() > deadline) {
      stage_.Violation(started_ ? "the action does not end"
                                : "a server neither starts nor fails to");
      return;
    }
    CAIRN_CHECK(world->Step());
  }
}

void CrashRun::Act() {
  World* const world = cluster_.world();
  io::Gate gate(world);
  Random pauses(Random::Mix(options_->seed + 5));
  ArmNext();
  gate.Spawn(RunAction());
  while (true) {
    started_ = false;
    gate.Spawn(StartServers());
    AwaitCrashOrEnd();
    if (!crashed_ || stage_.violated()) break;
    ++crashes_;
    cluster_.Sleep(pauses.Below(kPauseMax));
    crashed_ = false;
    ArmNext();
  }
  monitor_.Stop();
  result_.points = monitor_.points();
  result_.operations = monitor_.operations();
  if (crashes_ < options_->plan.size()) {
    stage_.Violation("the plan's next crash has no such point");
  }
  if (stage_.violated()) stage_.KillClients();
  world->Run(gate.Close(), "the action");
}

void CrashRun::Judge() {
  stage_.CloseClients();
  scenario_->Check(&stage_);
  if (!stage_.violated()) stage_.CheckKept();
  if (!stage_.violated()) scenario_->Repeat(&stage_);
  stage_.CloseClients();
  if (!stage_.violated()) LosePower();
  if (!stage_.violated()) stage_.CheckKept();
  if (!stage_.violated()) DeleteAll();
}

// What was acknowledged must not be in a cache: nothing unflushed survives.
void CrashRun::LosePower() {
  PlannedCrash crash;
  crash.kind = CrashKind::kAll;
  CrashServers(&cluster_, crash);
  cluster_.world()->Run(StartServers(), "starting all servers");
}

void CrashRun::DeleteAll() {
  stage_.CloseClients();
  client::Core* const core = stage_.NewClient("remover")->core();
  if (stage_.violated()) return;
  stage_.Must(cluster_.Await(RemoveEverything(core)), "deleting everything");
  stage_.CloseClients();
  const io::TimeNs deadline =
      cluster_.world()->NowNs() + CleanupTime(cluster_.options().meta);
  std::string left = Leftovers(&cluster_, {});
  while (!left.empty() && cluster_.world()->NowNs() < deadline) {
    cluster_.Sleep(io::kSecond);
    left = Leftovers(&cluster_, {});
  }
  if (!left.empty()) {
    stage_.Violation("after everything was deleted: " + left);
  }
}

}  // namespace

CrashRunResult RunCrashes(Scenario* scenario, const CrashRunOptions& options) {
  return CrashRun(scenario, &options).Run();
}

}  // namespace cairn::sim
