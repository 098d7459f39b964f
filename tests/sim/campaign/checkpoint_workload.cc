#include "tests/sim/campaign/checkpoint_workload.h"

#include "absl/strings/str_cat.h"
#include "client/checkpoint/rank_save.h"
#include "client/checkpoint/sets.h"
#include "tests/sim/campaign/client_pool.h"
#include "tests/sim/campaign/set_ledger.h"
#include "tests/sim/campaign/set_reading.h"

namespace cairn::sim {

using io::Task;

namespace {
constexpr uint32_t kAttemptsMax = 4;
constexpr io::TimeNs kDeathAfterMax = 3 * io::kSecond;
constexpr io::TimeNs kClaimPause = 500 * io::kMillisecond;
// Longer than any lease: then nothing holds the dead process's claim.
constexpr uint32_t kClaimTries = 120;
}  // namespace

struct CheckpointWorkload::Series {
  Context* context;
  std::string name;
  Random random;
  io::Gate* ranks;  // All rank processes of the series.
  uint32_t steps = 0;
  std::vector<std::string> paths;
};

// One process that plays one rank.
struct CheckpointWorkload::RankRun {
  Context* context;
  SetAttempt* attempt;
  uint32_t rank = 0;
  io::TimeNs die_after = 0;  // 0: not by plan.
  bool takes_over = false;   // An earlier process may hold the claim.
};

namespace {

client::CheckpointWriter::Options OptionsFor(const SetAttempt& attempt,
                                             uint32_t rank) {
  client::CheckpointWriter::Options options;
  options.path = attempt.path;
  options.set_id = "set";
  options.attempt = attempt.number;
  options.world_size = attempt.world_size;
  options.rank = rank;
  return options;
}

// What a rank is told when its save does not succeed.
void JudgeSave(const Context& context, SetAttempt* attempt, io::TimeNs started,
               const absl::Status& status, const std::string& what) {
  if (Excused(context, started, status)) return;
  if (absl::IsAborted(status)) {
    context.sets->ToldFenced(attempt);
    return;
  }
  if (absl::IsFailedPrecondition(status) &&
      context.now() - attempt->made_at >
          context.tunables->cluster.meta.open_set_idle_ns) {
    return;  // Given up, because nobody worked on it.
  }
  JudgeError(
      context, started, status,
      absl::StrCat(what, " ", attempt->path, " attempt ", attempt->number));
}

struct RankWork {
  Context* context;
  SimClient* client;
  SetAttempt* attempt;
  uint32_t rank = 0;
  bool takes_over = false;
};

// Nullopt: not opened; reported if that was wrong.
Task<std::optional<client::OpenedSet>> OpenRank(const RankWork* work) {
  Context* const context = work->context;
  for (uint32_t tried = 0; work->client->alive(); ++tried) {
    const io::TimeNs started = context->now();
    auto opened = co_await client::OpenSet(
        work->client->core(), OptionsFor(*work->attempt, work->rank));
    if (opened.ok()) {
      context->sets->Opened(work->attempt, started);
      co_return *opened;
    }
    if (!work->client->alive()) break;
    const bool exists = absl::IsAlreadyExists(opened.status());
    if (exists && context->sets->MayBePublished(work->attempt->path)) break;
    // The process before may have committed, and died before it was told.
    const bool done =
        exists && work->takes_over &&
        opened.status().message().find("was committed by") != std::string::npos;
    if (done) break;
    if (!exists || !work->takes_over || tried == kClaimTries) {
      JudgeSave(*context, work->attempt, started, opened.status(), "opening");
      break;
    }
    co_await io::SleepFor(context->world(), kClaimPause);
  }
  co_return std::nullopt;
}

Task<void> SaveOpened(const RankWork* work, client::OpenedSet opened) {
  Context* const context = work->context;
  client::Core* const core = work->client->core();
  const client::CheckpointWriter::Options options =
      OptionsFor(*work->attempt, work->rank);
  const auto items =
      SampleItems(work->attempt->model, work->rank, options.world_size);
  CAIRN_CHECK(items.ok());
  const io::TimeNs started = context->now();
  context->sets->RankBegins(work->attempt, work->rank);
  client::RankSave save{core, &options, opened, &*items};
  absl::Status status = co_await client::SaveRank(save);
  if (status.ok()) {
    context->sets->RankCommitted(work->attempt, work->rank, opened.set);
    status = co_await client::WaitSet(core, opened.set, options.attempt,
                                      core->Deadline());
  }
  if (status.ok()) {
    context->sets->Published(work->attempt);
    ++context->operations;
  } else if (work->client->alive()) {
    JudgeSave(*context, work->attempt, started, status, "saving");
  }
}

Task<void> WorkAsRank(RankWork work) {
  const std::optional<client::OpenedSet> opened = co_await OpenRank(&work);
  if (opened.has_value()) co_await SaveOpened(&work, *opened);
}

}  // namespace

Task<void> CheckpointWorkload::DieLater(RankRun* run, SimClient* client,
                                        io::CancelToken* ended) {
  co_await io::SleepFor(run->context->world(), run->die_after, ended);
  if (ended->cancelled() || !client->alive()) co_return;
  run->context->faults->Count(Attack::kRankDeath);
  run->context->clients->Kill(client);
}

Task<void> CheckpointWorkload::RunRank(RankRun run) {
  Context* const context = run.context;
  SimClient* const client = co_await context->clients->Take(absl::StrCat(
      "rank-", run.rank, run.attempt->path, "-", run.attempt->number));
  if (client == nullptr) co_return;
  io::CancelToken ended;
  io::Gate death(context->world());
  if (run.die_after > 0) death.Spawn(DieLater(&run, client, &ended));
  RankWork work{context, client, run.attempt, run.rank, run.takes_over};
  co_await RunOn(context->world(), client, WorkAsRank(work));
  ended.Cancel();
  const bool died = !client->alive();
  co_await context->clients->GiveBack(client);
  co_await death.Close();
  // A new process in its place, for the same attempt.
  if (!died || run.takes_over || context->stopping) co_return;
  RankRun again{context, run.attempt, run.rank};
  again.takes_over = true;
  co_await RunRank(again);
}

// Until every rank has ended, or for a while: then the next attempt starts
// while this one still runs.
Task<void> CheckpointWorkload::RunAttempt(Series* series, SetAttempt* attempt) {
  Context* const context = series->context;
  const CheckpointLoad& load = context->tunables->checkpoints;
  for (uint32_t rank = 0; rank < attempt->world_size; ++rank) {
    RankRun run{context, attempt, rank};
    if (load.death_one_in > 0 && series->random.OneIn(load.death_one_in)) {
      run.die_after = 1 + series->random.Below(kDeathAfterMax);
    }
    series->ranks->Spawn(RunRank(run));
  }
  if (series->random.OneIn(5)) {
    const io::TimeNs patience = series->random.Below(2 * io::kSecond);
    co_await io::SleepFor(context->world(), patience);
  } else {
    co_await series->ranks->Close();
  }
}

Task<void> CheckpointWorkload::SaveOne(Series* series, std::string path) {
  Context* const context = series->context;
  const CheckpointLoad& load = context->tunables->checkpoints;
  for (uint32_t tried = 0; tried < kAttemptsMax && !context->stopping;
       ++tried) {
    const uint32_t ranks =
        static_cast<uint32_t>(series->random.Between(1, load.ranks_max));
    const uint64_t bytes = series->random.Between(1024, load.model_bytes);
    SetAttempt* const attempt = context->sets->NewAttempt(path, ranks, bytes);
    co_await RunAttempt(series, attempt);
    if (context->sets->Current(path) != nullptr) break;
    // It will be published, unless somebody is too impatient to wait for it.
    if (attempt->AllCommitted() && !series->random.OneIn(2)) break;
  }
  co_await series->ranks->Close();
}

Task<void> CheckpointWorkload::LoadOne(Series* series, std::string path) {
  Context* const context = series->context;
  SimClient* const client = co_await context->clients->Take("loader");
  if (client == nullptr) co_return;
  const uint32_t ranks = static_cast<uint32_t>(series->random.Between(1, 5));
  for (uint32_t rank = 0; rank < ranks && client->alive(); ++rank) {
    (void)co_await RunOn(context->world(), client,
                         LoadAndCheck(context, client, path, rank, ranks));
  }
  co_await context->clients->GiveBack(client);
}

// Only sets that nobody else removes.
Task<void> CheckpointWorkload::RemoveOne(Series* series) {
  Context* const context = series->context;
  const std::string path =
      series->paths[series->random.Below(series->paths.size())];
  if (context->sets->Current(path) == nullptr) co_return;
  SimClient* const client = co_await context->clients->Take("remover");
  if (client == nullptr) co_return;
  const io::TimeNs started = context->now();
  context->sets->RemovalAsked(path);
  client::Core* const core = client->core();
  const absl::Status removed =
      co_await RunOn(context->world(), client,
                     client::RemoveSetAt(core, path, core->Deadline()));
  if (removed.ok()) {
    context->sets->RemovalDone(path);
  } else {
    context->sets->RemovalUnknown(path);
    if (client->alive()) {
      JudgeError(*context, started, removed, "removing " + path);
    }
  }
  co_await context->clients->GiveBack(client);
}

std::string CheckpointWorkload::NextPath(Series* series) {
  if (series->random.OneIn(3)) {
    for (const std::string& path : series->paths) {
      if (series->context->sets->Free(path)) return path;
    }
  }
  series->paths.push_back(
      absl::StrCat("/ckpt/", series->name, "/step-", series->steps++));
  return series->paths.back();
}

Task<void> CheckpointWorkload::RunSeries(Context* context, Series series) {
  io::Gate ranks(context->world());
  series.ranks = &ranks;
  const uint32_t saves = context->tunables->checkpoints.saves;
  for (uint32_t save = 0; save < saves && !context->stopping; ++save) {
    const std::string path = NextPath(&series);
    co_await SaveOne(&series, path);
    if (series.random.OneIn(2)) co_await LoadOne(&series, path);
    if (series.random.OneIn(2)) co_await RemoveOne(&series);
  }
}

Task<void> CheckpointWorkload::Run() {
  io::Gate gate(context_->world());
  for (uint32_t run = 0; run < context_->tunables->checkpoints.runs; ++run) {
    Series series{context_, absl::StrCat("run-", run), random_.Fork(), nullptr};
    gate.Spawn(RunSeries(context_, std::move(series)));
  }
  co_await gate.Close();
}

}  // namespace cairn::sim
