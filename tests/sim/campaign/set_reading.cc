#include "tests/sim/campaign/set_reading.h"

#include <set>

#include "absl/strings/str_cat.h"
#include "client/checkpoint/set_reader.h"
#include "client/checkpoint/sets.h"
#include "tests/sim/campaign/set_ledger.h"

namespace cairn::sim {

using io::Task;

namespace {

constexpr char kRoot[] = "/ckpt";

bool IsWrongBytes(const absl::Status& status) {
  return status.code() == absl::StatusCode::kInternal;
}

void CheckSummary(const Context& context, const SetAttempt& attempt,
                  const client::SetSummary& summary) {
  if (summary.world_size == attempt.world_size && summary.published &&
      summary.committed_ranks == attempt.world_size &&
      summary.set_id == "set") {
    return;
  }
  context.judge->Violation(absl::StrCat(
      "set ", attempt.path, " attempt ", attempt.number, " is visible with ",
      summary.committed_ranks, " of ", summary.world_size,
      " ranks, written by ", attempt.world_size));
}

void JudgeLoad(const Context& context, const SetAttempt& attempt,
               io::TimeNs started, const SimClient& client,
               const absl::Status& status) {
  const std::string what =
      absl::StrCat("loading ", attempt.path, " attempt ", attempt.number);
  if (IsWrongBytes(status)) {
    context.judge->Violation(absl::StrCat(what, ": ", status.ToString()));
    return;
  }
  if (!client.alive()) return;
  if (context.sets->Gone(attempt)) return;
  JudgeError(context, started, status, what);
}

}  // namespace

Task<bool> LoadAndCheck(Context* context, SimClient* client, std::string path,
                        uint32_t rank, uint32_t ranks) {
  const io::TimeNs since = context->now();
  client::Core* const core = client->core();
  auto set = co_await client::SetReader::Open(core, path, core->Deadline());
  if (absl::IsNotFound(set.status())) {
    context->sets->SeenAbsent(path, since);
    co_return true;
  }
  if (!set.ok()) {
    if (client->alive()) {
      JudgeError(*context, since, set.status(), "opening set " + path);
    }
    co_return false;
  }
  const client::SetSummary& summary = (*set)->summary();
  SetAttempt* const attempt = context->sets->Seen(path, summary.attempt, since);
  if (attempt == nullptr) co_return false;
  CheckSummary(*context, *attempt, summary);
  const absl::StatusOr<uint64_t> loaded =
      co_await LoadSampleFrom(core, set->get(), &attempt->model, rank, ranks);
  if (loaded.ok()) {
    ++context->loads;
    co_return true;
  }
  JudgeLoad(*context, *attempt, since, *client, loaded.status());
  co_return context->sets->Gone(*attempt);
}

Task<void> ListAndCheck(Context* context, SimClient* client) {
  const io::TimeNs since = context->now();
  client::Core* const core = client->core();
  const auto listed =
      co_await client::FetchSets(core, kRoot, true, core->Deadline());
  if (!listed.ok()) {
    // Before the first save there is no such directory.
    if (!client->alive() || absl::IsNotFound(listed.status())) co_return;
    JudgeError(*context, since, listed.status(), "listing sets");
    co_return;
  }
  std::set<std::string> published;
  for (const client::SetSummary& summary : *listed) {
    if (!summary.published) continue;
    published.insert(summary.path);
    SetAttempt* const attempt =
        context->sets->Seen(summary.path, summary.attempt, since);
    if (attempt == nullptr) co_return;
    CheckSummary(*context, *attempt, summary);
  }
  for (const std::string& path : context->sets->Paths()) {
    if (!published.contains(path)) context->sets->SeenAbsent(path, since);
  }
}

}  // namespace cairn::sim
