#include "tests/sim/campaign/redundancy.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace cairn::sim {

using format::TargetId;
using format::TargetState;
using io::Task;

namespace {

constexpr io::TimeNs kRebuiltWithin = 120 * io::kSecond;
// Rows go to targets that were put back, a few at a time.
constexpr io::TimeNs kBalancedWithin = 600 * io::kSecond;
// Until the newest round has looked.
constexpr io::TimeNs kLookedWithin = 6 * io::kSecond;

server::MetaService* Service(Context* context) {
  return context->cluster->meta()->service();
}

// What is still to be moved.
std::string Unmoved(Context* context) {
  const auto map = Service(context)->map();
  const wire::RebuildStatus report = Service(context)->rebuild().Report();
  uint64_t slots = 0;
  for (const auto& [id, pool] : map->pools) {
    slots += static_cast<uint64_t>(std::count_if(
        pool.pg_targets.begin(), pool.pg_targets.end(),
        [&](TargetId target) { return context->lost.contains(target.value); }));
  }
  const bool balances = context->tunables->cluster.meta.rebuild.balance &&
                        context->ruined.empty();
  const uint64_t uneven = balances ? report.balance_left() : 0;
  if (slots + report.shards_moving() + uneven == 0) return std::string();
  std::string text = absl::StrCat(slots, " shards are on lost targets, ",
                                  report.shards_moving(), " are moving, ",
                                  uneven, " are left to balance");
  if (uneven > 0) absl::StrAppend(&text, " (", report.balance_waits(), ")");
  for (const std::string& problem : report.problems()) {
    absl::StrAppend(&text, "; ", problem);
  }
  return text;
}

}  // namespace

Task<void> PutBackOut(Context* context) {
  for (int tries = 0; tries < 100; ++tries) {
    const auto map = Service(context)->map();
    format::ClusterMap next = *map;
    next.epoch = format::Epoch(map->epoch.value + 1);
    bool any = false;
    for (auto& [id, target] : next.targets) {
      if (target.state != TargetState::kOut &&
          target.state != TargetState::kDraining) {
        continue;
      }
      if (context->lost.contains(id.value)) continue;
      if (context->ruined.contains(id.value)) continue;
      target.state = TargetState::kUp;
      any = true;
    }
    if (!any) co_return;
    (void)co_await Service(context)->ReplaceMap(std::move(next));
    co_await io::SleepFor(context->world(), 50 * io::kMillisecond);
  }
  context->judge->Violation("targets that are out cannot be put back");
}

Task<void> AwaitRebuilt(Context* context) {
  if (!context->ruined.empty()) co_return;
  co_await io::SleepFor(context->world(), kLookedWithin);
  const server::MetaOptions& meta = context->tunables->cluster.meta;
  const io::TimeNs deadline = context->now() + meta.health.down_after_ns +
                              meta.rebuild.out_after_ns + kRebuiltWithin +
                              kBalancedWithin +
                              meta.orphan_grace_ms * io::kMillisecond;
  std::string left = Unmoved(context);
  while (!left.empty()) {
    if (context->now() >= deadline) {
      context->judge->Violation(
          "long after all faults are over, lost targets are not replaced: " +
          left);
      co_return;
    }
    co_await io::SleepFor(context->world(), io::kSecond);
    left = Unmoved(context);
  }
}

}  // namespace cairn::sim
