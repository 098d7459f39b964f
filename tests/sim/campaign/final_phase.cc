#include "tests/sim/campaign/final_phase.h"

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/sim/campaign/file_ledger.h"
#include "tests/sim/campaign/file_reading.h"
#include "tests/sim/campaign/nemesis.h"
#include "tests/sim/campaign/redundancy.h"
#include "tests/sim/campaign/seeded_fault_points.h"
#include "tests/sim/campaign/set_ledger.h"
#include "tests/sim/campaign/set_reading.h"
#include "tests/sim/cluster/cleanup.h"
#include "tests/sim/cluster/shard_check.h"

namespace cairn::sim {

using io::Task;

namespace {

// No part of a publication takes longer when nothing is broken.
constexpr io::TimeNs kPublicationTime = 30 * io::kSecond;

// Of what most seeds damage, once it is found, and of all that a seed may.
constexpr io::TimeNs kRepairTime = 60 * io::kSecond;
constexpr io::TimeNs kRepairTimeMax = 180 * io::kSecond;

// What a step of the final phase may not do: fail.
bool Must(Context* context, const absl::Status& status, std::string what) {
  if (status.ok()) return true;
  context->judge->Violation(absl::StrCat("after all faults are over, ", what,
                                         " fails: ", status.ToString()));
  return false;
}

// Targets that are neither up nor ruined, as the map says.
std::string NotUp(const Context& context) {
  std::string text;
  const auto map = context.cluster->meta()->service()->map();
  for (const auto& [id, target] : map->targets) {
    if (target.state == format::TargetState::kUp) continue;
    if (context.ruined.contains(id.value)) continue;
    if (context.lost.contains(id.value)) continue;
    absl::StrAppend(
        &text, " target ", id.value, " is ",
        AbslText(format::ToString(target.state)), " (",
        context.cluster->meta()->service()->health().Look(id).reason, ")");
  }
  return text;
}

// Heartbeats find all that was healed.
Task<void> AwaitAllUp(Context* context) {
  const io::TimeNs deadline =
      context->now() + TimeUntilUp(*context) + 30 * io::kSecond;
  while (!NotUp(*context).empty()) {
    if (context->now() >= deadline) {
      context->judge->Violation("long after all faults are over," +
                                NotUp(*context));
      co_return;
    }
    co_await io::SleepFor(context->world(), 100 * io::kMillisecond);
  }
}

// Sets that were committed, though nobody has seen them published.
Task<void> AwaitDueSets(Context* context, SimClient* auditor) {
  const io::TimeNs deadline = context->now() + kPublicationTime;
  while (true) {
    co_await ListAndCheck(context, auditor);
    const std::vector<const SetAttempt*> due = context->sets->Due();
    if (due.empty() || context->judge->violated()) co_return;
    if (context->now() >= deadline) {
      context->judge->Violation(
          absl::StrCat("set ", due[0]->path, " attempt ", due[0]->number,
                       ": every rank has committed, but it is not published"));
      co_return;
    }
    co_await io::SleepFor(context->world(), io::kSecond);
  }
}

Task<void> CheckSets(Context* context, SimClient* auditor, Random* random) {
  co_await AwaitDueSets(context, auditor);
  if (context->judge->violated()) co_return;
  for (const std::string& path : context->sets->Paths()) {
    const uint32_t ranks = static_cast<uint32_t>(random->Between(1, 4));
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      const bool read =
          co_await LoadAndCheck(context, auditor, path, rank, ranks);
      if (context->judge->violated()) co_return;
      if (!read) {
        context->judge->Violation(absl::StrCat("after all faults are over, ",
                                               path, " cannot be read"));
        co_return;
      }
    }
  }
}

Task<void> CheckDirectory(Context* context, SimClient* auditor,
                          LedgerDirectory* directory, Random* random) {
  (void)co_await ListAndCheck(context, auditor, directory);
  std::set<std::string> names;
  for (const size_t number :
       directory->names.Between(context->now(), context->now())) {
    for (const auto& [name, file] : directory->names[number]) {
      names.insert(name);
    }
  }
  for (const std::string& name : names) {
    FileLook look{directory, name};
    look.reads = 2;
    look.random = random->Next();
    const bool read = co_await ReadAndCheck(context, auditor, look);
    if (context->judge->violated()) co_return;
    if (read) continue;
    context->judge->Violation(absl::StrCat("after all faults are over, ",
                                           directory->path, "/", name,
                                           " cannot be read"));
    co_return;
  }
}

Task<void> CheckFiles(Context* context, SimClient* auditor, Random* random) {
  for (const auto& directory : context->files->directories()) {
    co_await CheckDirectory(context, auditor, directory.get(), random);
    if (context->judge->violated()) co_return;
  }
}

// Only a damaged disk may lose what was acknowledged, however many other shards
// could stand in for it; and where disks are scrubbed, not even that for long.
Task<void> CheckRedundancy(Context* context, SimClient* auditor) {
  const ClusterOptions& options = context->tunables->cluster;
  if (context->faults->Fired(AttackClass::kDamage)) {
    if (options.scrub.bytes_per_s == 0) co_return;
    // Before anybody else looks: all is read once, all lists are compared once,
    // and what was found is made again.
    co_await io::SleepFor(
        context->world(),
        2 * (options.scrub.pass_ns + options.meta.repair.compare_ns) +
            kRepairTime);
  }
  const io::TimeNs deadline =
      context->now() + (options.scrub.bytes_per_s == 0 ? 0 : kRepairTimeMax);
  absl::Status checked = co_await CheckEveryShard(auditor->core());
  while (!checked.ok() && context->now() < deadline) {
    co_await io::SleepFor(context->world(), 10 * io::kSecond);
    checked = co_await CheckEveryShard(auditor->core());
  }
  (void)Must(context, checked, "reading every shard");
}

Task<void> SaveOneMore(Context* context, SimClient* auditor) {
  constexpr char kPath[] = "/ckpt/last";
  SetAttempt* const attempt =
      context->sets->NewAttempt(kPath, 1, 64 * format::kKiB);
  client::CheckpointWriter::Options options;
  options.path = kPath;
  options.set_id = "set";
  const io::TimeNs asked = context->now();
  context->sets->RankBegins(attempt, 0);
  const absl::Status saved =
      co_await SaveSample(auditor->core(), options, &attempt->model);
  if (!Must(context, saved, "a save")) co_return;
  context->sets->Opened(attempt, asked);
  context->sets->Published(attempt);
  (void)co_await LoadAndCheck(context, auditor, kPath, 0, 1);
}

// A flush that lied may have taken the deletion with it.
std::set<uint32_t> MayKeepChunks(const Context& context) {
  std::set<uint32_t> targets = context.lost;
  if (context.faults->count(Attack::kLyingSync) == 0) return targets;
  for (uint32_t t = 1; t <= context.tunables->faults.damaged_targets; ++t) {
    targets.insert(t);
  }
  return targets;
}

// Graces are too long for much to be freed while the workloads run: in some
// seeds the faults come back when it is. Nobody is there to be told of errors;
// what was deleted must go all the same.
Task<void> FreeUnderFaults(Context* context, Random* random) {
  const Tunables& tunables = *context->tunables;
  const server::MetaOptions& meta = tunables.cluster.meta;
  if (tunables.fault_time == 0 || !random->OneIn(3)) co_return;
  const io::TimeNs graces = Grace(meta.trash_grace_ms + meta.orphan_grace_ms);
  co_await io::SleepFor(context->world(), random->Below(graces));
  Nemesis nemesis(context, random->Fork());
  context->points->Arm(context->world(), context->faults, true);
  nemesis.Start();
  const io::TimeNs storm = random->Between(2, 8) * io::kSecond;
  co_await io::SleepFor(context->world(), storm);
  context->points->Disarm();
  co_await nemesis.Stop();
  co_await nemesis.HealAll();
  context->faults->Settle();
}

Task<void> AwaitNothingLeft(Context* context) {
  const io::TimeNs deadline =
      context->now() + CleanupTime(context->tunables->cluster.meta);
  std::string left;
  while (context->now() < deadline) {
    left = Leftovers(context->cluster, MayKeepChunks(*context));
    if (left.empty()) co_return;
    co_await io::SleepFor(context->world(), io::kSecond);
  }
  context->judge->Violation("after everything was deleted: " + left);
}

}  // namespace

Task<void> RunFinalPhase(Context* context, Random random) {
  context->faults->Settle();
  co_await PutBackOut(context);
  if (context->judge->violated()) co_return;
  co_await AwaitAllUp(context);
  if (context->judge->violated()) co_return;
  co_await AwaitRebuilt(context);
  if (context->judge->violated()) co_return;
  SimClient* const auditor = context->cluster->AddClient("auditor");
  const absl::Status started = co_await auditor->Start();
  if (!Must(context, started, "a connect")) co_return;
  co_await CheckSets(context, auditor, &random);
  if (context->judge->violated()) co_return;
  co_await CheckFiles(context, auditor, &random);
  if (context->judge->violated()) co_return;
  // A scheme that lost a target reads, but cannot write.
  if (!context->ruined.empty()) co_return;
  co_await CheckRedundancy(context, auditor);
  if (context->judge->violated()) co_return;
  co_await SaveOneMore(context, auditor);
  if (context->judge->violated()) co_return;
  client::Core* const core = auditor->core();
  const absl::Status sets = co_await RemoveAllSets(core);
  if (!Must(context, sets, "removing all sets")) co_return;
  const absl::Status files = co_await RemoveAllFiles(core);
  if (!Must(context, files, "removing all files")) co_return;
  co_await context->cluster->StopClient(auditor);
  co_await FreeUnderFaults(context, &random);
  if (context->judge->violated() || !context->ruined.empty()) co_return;
  co_await AwaitNothingLeft(context);
}

}  // namespace cairn::sim
