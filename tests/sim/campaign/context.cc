#include "tests/sim/campaign/context.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace cairn::sim {

io::TimeNs TimeUntilUp(const Context& context) {
  const server::HealthOptions& health = context.tunables->cluster.meta.health;
  // Once more down at most, by what was lost when the fault ended.
  return health.down_after_ns +
         2 * std::max(health.up_after_ns, health.up_after_max_ns) +
         4 * (health.suspect_after_ns + health.map_pause_ns);
}

namespace {

// How long after the last fault its consequences may still show: retries back
// off, connections are taken for dead, sessions run out unnoticed.
io::TimeNs Aftermath(const Context& context) {
  return 2 * context.tunables->cluster.client_timeout_ms * io::kMillisecond +
         context.tunables->cluster.meta.lease_ns + TimeUntilUp(context) +
         30 * io::kSecond;
}

}  // namespace

bool Excused(const Context& context, io::TimeNs started,
             const absl::Status& status) {
  const io::TimeNs reach = Aftermath(context);
  const io::TimeNs since = started > reach ? started - reach : 0;
  if (context.faults->QuietSince(since)) return false;
  switch (status.code()) {
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
      return true;
    case absl::StatusCode::kAborted:  // The session is lost.
      return true;
    case absl::StatusCode::kResourceExhausted:
      return context.faults->WasFull();
    default:
      return false;
  }
}

void JudgeError(const Context& context, io::TimeNs started,
                const absl::Status& status, const std::string& what) {
  if (Excused(context, started, status)) return;
  context.judge->Violation(absl::StrCat(
      what, " failed, which nothing excuses: ", status.ToString()));
}

}  // namespace cairn::sim
