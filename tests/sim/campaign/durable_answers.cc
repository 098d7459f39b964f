#include "tests/sim/campaign/durable_answers.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/file/open.h"
#include "client/names/operations.h"
#include "client/names/resolve.h"

namespace cairn::sim {

using io::Task;

namespace {

// Long beside a question and its answer, short beside any timeout.
constexpr io::TimeNs kCommitDelay = 100 * io::kMillisecond;
constexpr uint32_t kRounds = 6;

struct Scene {
  Context* context;
  SimClient* writer;
  SimClient* reader;
};

std::string NameOf(uint32_t round) { return absl::StrCat("/answer-", round); }

bool Must(Context* context, const absl::Status& status, std::string what) {
  if (status.ok()) return true;
  context->judge->Violation(absl::StrCat("on a slow metadata engine ", what,
                                         " fails: ", status.ToString()));
  return false;
}

Task<bool> Restart(Context* context) {
  const absl::Status started = co_await context->cluster->StartMeta();
  co_return Must(context, started, "a start");
}

Task<bool> Begin(Scene* scene) {
  scene->context->cluster->KillMeta();
  scene->context->cluster->set_meta_commit_delay(kCommitDelay);
  const bool restarted = co_await Restart(scene->context);
  if (!restarted) co_return false;
  const absl::Status writes = co_await scene->writer->Start();
  const absl::Status reads = co_await scene->reader->Start();
  if (!Must(scene->context, writes, "a connect")) co_return false;
  if (!Must(scene->context, reads, "a connect")) co_return false;
  client::OpenOptions options;
  options.write = true;
  options.create = true;
  auto file =
      co_await client::OpenOnLoop(scene->writer->core(), NameOf(0), options);
  if (!Must(scene->context, file.status(), "a create")) co_return false;
  co_await (*file)->Finish();
  co_return true;
}

// Its outcome shows in the names.
Task<void> Rename(Scene* scene, uint32_t round) {
  client::Core* const core = scene->writer->core();
  (void)co_await client::RenamePath(core, NameOf(round), NameOf(round + 1),
                                    false, core->Deadline());
}

// Nullopt after a violation.
Task<std::optional<bool>> IsThere(Scene* scene, std::string name) {
  client::Core* const core = scene->reader->core();
  const auto found = co_await client::FindPath(
      core, name, client::FollowLast::kNo, core->Deadline());
  if (!Must(scene->context, found.status(), "a lookup")) co_return std::nullopt;
  co_return found->has_value();
}

Task<bool> SeeAndCrash(Scene* scene, std::string name) {
  std::optional<bool> there = false;
  while (there.has_value() && !*there) there = co_await IsThere(scene, name);
  if (!there.has_value()) co_return false;
  scene->context->cluster->CrashMeta();
  const bool restarted = co_await Restart(scene->context);
  if (!restarted) co_return false;
  there = co_await IsThere(scene, name);
  if (!there.has_value()) co_return false;
  if (*there) co_return true;
  scene->context->judge->Violation(
      "a name that a client has seen is gone after a crash");
  co_return false;
}

Task<bool> PlayRound(Scene* scene, uint32_t round) {
  io::Gate renaming(scene->context->world());
  renaming.Spawn(Rename(scene, round));
  const bool kept = co_await SeeAndCrash(scene, NameOf(round + 1));
  co_await renaming.Close();
  co_return kept;
}

}  // namespace

Task<void> CheckDurableAnswers(Context* context) {
  SimCluster* const cluster = context->cluster;
  Scene scene{context, cluster->AddClient("renamer"),
              cluster->AddClient("watcher")};
  bool going_on = co_await Begin(&scene);
  for (uint32_t round = 0; round < kRounds && going_on; ++round) {
    going_on = co_await PlayRound(&scene, round);
  }
  if (!going_on) co_return;
  co_await cluster->StopClient(scene.writer);
  co_await cluster->StopClient(scene.reader);
}

}  // namespace cairn::sim
