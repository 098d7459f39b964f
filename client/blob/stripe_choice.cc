#include "client/blob/stripe_choice.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "format/base/status.h"

namespace cairn::client {

using format::ClusterMap;
using format::Pool;
using format::TargetId;
using format::TargetState;

RowFitness FitnessOf(Core* core, const ClusterMap& map, const Pool& pool,
                     uint32_t pg) {
  if (pool.IsClosed(pg)) return RowFitness::kUseless;
  RowFitness fitness = RowFitness::kGood;
  for (const TargetId id : pool.PgTargets(pg)) {
    const format::TargetInfo* const target = map.FindTarget(id);
    if (target == nullptr || target->state == TargetState::kOut) {
      return RowFitness::kUseless;
    }
    if (target->state != TargetState::kUp) {
      fitness = RowFitness::kUnwell;
    } else if (core->IsSilent(id) || core->IsFull(id)) {
      fitness = std::max(fitness, RowFitness::kDoubtful);
    }
  }
  return fitness;
}

namespace {

// A silent target hears of one stripe in a while all the same: how else would
// anybody who only writes learn that it is back?
bool MayTry(Core* core, const Pool& pool, uint32_t pg) {
  const std::span<const TargetId> row = pool.PgTargets(pg);
  return std::all_of(row.begin(), row.end(), [core](TargetId id) {
    return !core->IsFull(id) && core->MayAsk(id);
  });
}

}  // namespace

StripeChoice ChooseStripe(Core* core, const ClusterMap& map, const Pool& pool,
                          format::BlobId blob, uint32_t first, bool probe) {
  StripeChoice best;
  best.stripe = first;
  for (uint32_t i = 0; i < pool.stripe_width; ++i) {
    const uint64_t stripe = uint64_t{first} + i;
    if (stripe >= format::kStripesPerBlobMax) break;
    const uint32_t number = static_cast<uint32_t>(stripe);
    const uint32_t pg = pool.PgOf(blob, number);
    RowFitness fitness = FitnessOf(core, map, pool, pg);
    if (probe && fitness == RowFitness::kDoubtful && MayTry(core, pool, pg)) {
      fitness = RowFitness::kGood;
    }
    if (fitness < best.fitness) best = {number, fitness};
    if (fitness == RowFitness::kGood) break;
  }
  return best;
}

bool CanAvoid(Core* core, const ClusterMap& map, const Pool& pool,
              format::BlobId blob, uint32_t first, TargetId target) {
  for (uint32_t i = 0; i < pool.stripe_width; ++i) {
    const uint64_t stripe = uint64_t{first} + i;
    if (stripe >= format::kStripesPerBlobMax) break;
    const uint32_t pg = pool.PgOf(blob, static_cast<uint32_t>(stripe));
    const std::span<const TargetId> row = pool.PgTargets(pg);
    if (std::find(row.begin(), row.end(), target) != row.end()) continue;
    if (FitnessOf(core, map, pool, pg) == RowFitness::kGood) return true;
  }
  return false;
}

std::string TargetsNotUp(const ClusterMap& map, const Pool& pool) {
  constexpr size_t kNamed = 8;
  const std::set<TargetId> members(pool.pg_targets.begin(),
                                   pool.pg_targets.end());
  std::string text;
  size_t count = 0;
  for (const TargetId id : members) {
    const format::TargetInfo* const target = map.FindTarget(id);
    if (target == nullptr || target->state == TargetState::kUp) continue;
    if (++count > kNamed) continue;
    absl::StrAppend(&text, text.empty() ? "" : ", ", "target ", id.value, " (",
                    target->address, ") is ",
                    AbslText(format::ToString(target->state)));
  }
  if (count > kNamed) absl::StrAppend(&text, ", and ", count - kNamed, " more");
  return text;
}

}  // namespace cairn::client
