#include "server/meta/edit_map.h"

#include <utility>

namespace cairn::server {

io::Task<absl::StatusOr<bool>> EditMap(Core* core, MapEdit edit) {
  bool outcome_unknown = false;
  absl::Status failed = TooBusy();
  for (uint32_t attempt = 0; attempt < kTxnAttemptsMax; ++attempt) {
    co_await Backoff(core, attempt);
    format::ClusterMap next = *core->map.map();
    const absl::StatusOr<bool> changed = edit(&next);
    if (!changed.ok()) co_return changed.status();
    // A commit whose outcome was unknown did happen, then.
    if (!*changed) co_return outcome_unknown;
    next.epoch = format::Epoch(core->map.epoch().value + 1);
    const absl::Status stored = co_await core->map.Replace(std::move(next));
    if (stored.ok()) co_return true;
    if (!IsConflict(stored)) {
      if (!absl::IsUnavailable(stored)) co_return stored;
      outcome_unknown = true;
      failed = stored;
    }
  }
  co_return failed;
}

}  // namespace cairn::server
