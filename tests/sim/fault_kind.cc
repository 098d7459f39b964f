#include "tests/sim/fault_kind.h"

#include <numeric>

#include "format/base/status.h"

namespace cairn::sim {
namespace {

constexpr std::array<std::string_view, kFaultKinds> kNames = {
    "disk-read-error",
    "disk-write-error",
    "disk-sync-error",
    "disk-name-error",
    "disk-full",
    "lost-write",
    "misdirected-write",
    "misdirected-read",
    "stale-read",
    "zeroed-read",
    "bit-rot",
    "lying-sync",
    "unflushed-lost",
    "torn-write",
    "slow-disk",
    "hung-disk",
    "link-cut",
    "latency-spike",
    "slow-link",
    "connection-reset",
    "early-end",
    "half-open",
    "corrupt-segment",
    "tiny-segments",
    "connect-refused",
    "connect-timeout",
    "kill",
    "power-loss",
    "pause",
    "wall-clock-jump",
    "clock-drift",
};
static_assert(!kNames.back().empty(), "a kind without a name");

}  // namespace

std::string_view NameOf(FaultKind kind) {
  return kNames[static_cast<size_t>(kind)];
}

void FaultCounts::Add(const FaultCounts& other) {
  for (size_t i = 0; i < kFaultKinds; ++i) counts_[i] += other.counts_[i];
}

uint64_t FaultCounts::total() const {
  return std::accumulate(counts_.begin(), counts_.end(), uint64_t{0});
}

std::string FaultCounts::Table() const {
  std::string table;
  for (size_t i = 0; i < kFaultKinds; ++i) {
    if (counts_[i] == 0) continue;
    absl::StrAppend(&table, AbslText(kNames[i]), " ", counts_[i], "\n");
  }
  return table;
}

}  // namespace cairn::sim
