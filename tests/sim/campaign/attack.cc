#include "tests/sim/campaign/attack.h"

#include <numeric>

#include "absl/strings/str_cat.h"
#include "format/base/status.h"

namespace cairn::sim {

namespace {

struct KindInfo {
  std::string_view name;
  AttackClass kinds;
};

// In the order of Attack.
constexpr std::array<KindInfo, kAttacks> kInfo = {{
    {"kill-target", AttackClass::kCrash},
    {"crash-target", AttackClass::kCrash},
    {"kill-meta", AttackClass::kCrash},
    {"crash-meta", AttackClass::kCrash},
    {"power-cut", AttackClass::kCrash},
    {"crash-loop", AttackClass::kCrash},
    {"kill-client", AttackClass::kCrash},
    {"rank-death", AttackClass::kCrash},
    {"pause-server", AttackClass::kTime},
    {"pause-client", AttackClass::kTime},
    {"wall-clock-jump", AttackClass::kTime},
    {"clock-drift", AttackClass::kTime},
    {"partition", AttackClass::kNetwork},
    {"cut-one-way", AttackClass::kNetwork},
    {"isolate", AttackClass::kNetwork},
    {"reset", AttackClass::kNetwork},
    {"reset-storm", AttackClass::kNetwork},
    {"early-end", AttackClass::kNetwork},
    {"slow-link", AttackClass::kNetwork},
    {"latency-spikes", AttackClass::kNetwork},
    {"corrupt-segments", AttackClass::kNetwork},
    {"tiny-segments", AttackClass::kNetwork},
    {"refuse-connects", AttackClass::kNetwork},
    {"read-error", AttackClass::kDisk},
    {"write-error", AttackClass::kDisk},
    {"sync-error", AttackClass::kDisk},
    {"disk-errors", AttackClass::kDisk},
    {"disk-full", AttackClass::kDisk},
    {"slow-disk", AttackClass::kDisk},
    {"hung-disk", AttackClass::kDisk},
    {"rot", AttackClass::kDamage},
    {"lost-write", AttackClass::kDamage},
    {"misdirected-write", AttackClass::kDamage},
    {"wrong-read", AttackClass::kDamage},
    {"lying-sync", AttackClass::kDamage},
    {"commit-unknown", AttackClass::kEngine},
    {"commit-conflict", AttackClass::kEngine},
    {"lose-target", AttackClass::kCrash},
    {"drain-target", AttackClass::kCrash},
}};

}  // namespace

std::string_view NameOf(Attack kind) {
  return kInfo[static_cast<size_t>(kind)].name;
}

AttackClass ClassOf(Attack kind) {
  return kInfo[static_cast<size_t>(kind)].kinds;
}

void AttackLog::End() {
  CAIRN_CHECK(active_ > 0);
  --active_;
  last_ = executor_->NowNs();
}

void AttackLog::Settle() {
  CAIRN_CHECK(active_ == 0);
  last_ = 0;
}

uint64_t AttackLog::total() const {
  return std::accumulate(counts_.begin(), counts_.end(), uint64_t{0});
}

bool AttackLog::Fired(AttackClass kinds) const {
  for (size_t i = 0; i < kAttacks; ++i) {
    if (counts_[i] > 0 && kInfo[i].kinds == kinds) return true;
  }
  return false;
}

std::string AttackLog::ToString() const {
  std::string text;
  for (size_t i = 0; i < kAttacks; ++i) {
    if (counts_[i] == 0) continue;
    absl::StrAppend(&text, text.empty() ? "" : ", ", AbslText(kInfo[i].name),
                    " ", counts_[i]);
  }
  return text.empty() ? "none" : text;
}

}  // namespace cairn::sim
