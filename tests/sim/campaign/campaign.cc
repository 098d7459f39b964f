#include "tests/sim/campaign/campaign.h"

#include <memory>

#include "absl/strings/str_cat.h"
#include "tests/sim/campaign/checkpoint_workload.h"
#include "tests/sim/campaign/client_pool.h"
#include "tests/sim/campaign/context.h"
#include "tests/sim/campaign/durable_answers.h"
#include "tests/sim/campaign/file_ledger.h"
#include "tests/sim/campaign/file_workload.h"
#include "tests/sim/campaign/final_phase.h"
#include "tests/sim/campaign/metadata_copy.h"
#include "tests/sim/campaign/nemesis.h"
#include "tests/sim/campaign/reader_workload.h"
#include "tests/sim/campaign/set_ledger.h"
#include "tests/sim/campaign/zombie.h"

namespace cairn::sim {

using io::Task;

namespace {

// After the faults are over, all that runs must come to an end within this.
constexpr io::TimeNs kFinishWithin = 900 * io::kSecond;
// What a disk began while it was slow takes as long as it said then.
constexpr io::TimeNs kLastSlowOperation = 30 * io::kSecond;

struct Parts {
  Context context;
  bool fires_points = true;
  std::unique_ptr<Nemesis> nemesis;
  std::unique_ptr<CheckpointWorkload> checkpoints;
  std::unique_ptr<FileWorkload> files;
  std::unique_ptr<ReaderWorkload> readers;
};

Task<void> ThenSet(io::Gate* gate, io::Event* done) {
  co_await gate->Close();
  done->Set();
}

// The workloads under faults; then the faults end, and the workloads must too.
Task<void> RunWorkloads(Parts* parts) {
  Context* const context = &parts->context;
  io::Gate writers(context->world());
  io::Gate readers(context->world());
  io::Gate watch(context->world());
  io::Event written(context->world());
  io::Event read(context->world());
  writers.Spawn(parts->checkpoints->Run());
  writers.Spawn(parts->files->Run());
  readers.Spawn(parts->readers->Run());
  watch.Spawn(ThenSet(&writers, &written));
  watch.Spawn(ThenSet(&readers, &read));
  parts->nemesis->Start();
  const io::TimeNs fault_time = context->tunables->fault_time;
  if (parts->fires_points) {
    context->points->Arm(context->world(), context->faults, fault_time > 0);
  }
  const io::TimeNs end =
      fault_time == 0 ? io::kNoDeadline : context->now() + fault_time;
  (void)co_await written.Wait(end);
  context->stopping = true;
  context->points->Disarm();
  co_await parts->nemesis->Stop();
  co_await parts->nemesis->HealAll();
  const io::TimeNs deadline = context->now() + kFinishWithin;
  const io::WaitResult ended = co_await written.Wait(deadline);
  const io::WaitResult left = co_await read.Wait(deadline);
  if (ended != io::WaitResult::kWoken || left != io::WaitResult::kWoken) {
    context->judge->Violation("the faults are over, and workloads still wait");
  }
  co_await watch.Close();
}

Task<void> RunAll(Parts* parts, Random random) {
  Context* const context = &parts->context;
  MetadataCopy old_metadata(context);
  co_await RunWorkloads(parts);
  if (context->judge->violated()) co_return;
  co_await io::SleepFor(parts->context.world(), kLastSlowOperation);
  co_await RunFinalPhase(context, random);
  if (context->judge->violated() || !context->ruined.empty()) co_return;
  if (!context->lost.empty()) co_return;  // What follows needs all targets.
  co_await CheckZombie(context);
  if (context->judge->violated()) co_return;
  co_await CheckDurableAnswers(context);
  if (context->judge->violated()) co_return;
  co_await old_metadata.CheckRefused();
}

CampaignResult MakeResult(const Parts& parts) {
  CampaignResult result;
  const Context& context = parts.context;
  result.violation = context.judge->what();
  result.tunables = ToString(*context.tunables);
  result.attacks = context.faults->ToString();
  result.points = context.points->ToString();
  result.point_counts = context.points->counts();
  for (size_t i = 0; i < kAttacks; ++i) {
    result.attack_counts[i] = context.faults->count(static_cast<Attack>(i));
  }
  for (size_t i = 0; i < kFaultKinds; ++i) {
    result.fault_counts[i] =
        context.world()->faults().of(static_cast<FaultKind>(i));
  }
  result.trace_hash = context.world()->trace_hash();
  result.events = context.world()->events_run();
  result.operations = context.operations;
  result.loads = context.loads;
  result.virtual_seconds =
      static_cast<double>(context.now()) / static_cast<double>(io::kSecond);
  return result;
}

}  // namespace

CampaignResult RunCampaign(const CampaignOptions& options) {
  const Tunables tunables = DrawTunables(options.seed);
  const AttackLog* attacks = nullptr;
  // Before all that may come by a point, and after it.
  SeededFaultPoints points(options.seed);
  points.TraceTo(options.trace);
  Judge judge([&](const std::string& what) {
    options.on_violation(absl::StrCat(what, "\n  ", ToString(tunables),
                                      "\n  attacks: ", attacks->ToString(),
                                      "\n  points: ", points.ToString()));
  });
  // Before the cluster: what unwinds at its end still refers to them.
  Parts parts;
  auto cluster = std::make_unique<SimCluster>(tunables.cluster);
  cluster->world()->TraceTo(options.trace);
  AttackLog faults(cluster->world());
  attacks = &faults;
  SetLedger sets(&parts.context);
  FileLedger files(&parts.context);
  ClientPool clients(&parts.context);
  Random random(Random::Mix(options.seed + 77));
  parts.context.tunables = &tunables;
  parts.context.cluster = cluster.get();
  parts.context.judge = &judge;
  parts.context.faults = &faults;
  parts.context.points = &points;
  parts.fires_points = options.fault_points;
  parts.context.clients = &clients;
  parts.context.sets = &sets;
  parts.context.files = &files;
  parts.nemesis = std::make_unique<Nemesis>(&parts.context, random.Fork());
  parts.checkpoints =
      std::make_unique<CheckpointWorkload>(&parts.context, random.Fork());
  parts.files = std::make_unique<FileWorkload>(&parts.context, random.Fork());
  parts.readers =
      std::make_unique<ReaderWorkload>(&parts.context, random.Fork());
  cluster->world()->Run(RunAll(&parts, random.Fork()), "the campaign");
  return MakeResult(parts);
}

}  // namespace cairn::sim
