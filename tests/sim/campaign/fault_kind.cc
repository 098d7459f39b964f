#include "tests/sim/campaign/fault_kind.h"

#include <numeric>

#include "absl/strings/str_cat.h"
#include "format/base/status.h"

namespace cairn::sim {

namespace {

struct KindInfo {
  std::string_view name;
  FaultClass kinds;
};

// In the order of FaultKind.
constexpr std::array<KindInfo, kFaultKinds> kInfo = {{
    {"kill-target", FaultClass::kCrash},
    {"crash-target", FaultClass::kCrash},
    {"kill-meta", FaultClass::kCrash},
    {"crash-meta", FaultClass::kCrash},
    {"power-cut", FaultClass::kCrash},
    {"crash-loop", FaultClass::kCrash},
    {"kill-client", FaultClass::kCrash},
    {"rank-death", FaultClass::kCrash},
    {"partition", FaultClass::kNetwork},
    {"cut-one-way", FaultClass::kNetwork},
    {"isolate", FaultClass::kNetwork},
    {"reset", FaultClass::kNetwork},
    {"reset-storm", FaultClass::kNetwork},
    {"read-error", FaultClass::kDisk},
    {"write-error", FaultClass::kDisk},
    {"sync-error", FaultClass::kDisk},
    {"disk-full", FaultClass::kDisk},
    {"rot", FaultClass::kDisk},
    {"commit-unknown", FaultClass::kEngine},
    {"commit-conflict", FaultClass::kEngine},
}};

}  // namespace

std::string_view FaultName(FaultKind kind) {
  return kInfo[static_cast<size_t>(kind)].name;
}

FaultClass ClassOf(FaultKind kind) {
  return kInfo[static_cast<size_t>(kind)].kinds;
}

void FaultLog::End() {
  CAIRN_CHECK(active_ > 0);
  --active_;
  last_ = executor_->NowNs();
}

void FaultLog::Settle() {
  CAIRN_CHECK(active_ == 0);
  last_ = 0;
}

uint64_t FaultLog::total() const {
  return std::accumulate(counts_.begin(), counts_.end(), uint64_t{0});
}

bool FaultLog::Fired(FaultClass kinds) const {
  for (size_t i = 0; i < kFaultKinds; ++i) {
    if (counts_[i] > 0 && kInfo[i].kinds == kinds) return true;
  }
  return false;
}

std::string FaultLog::ToString() const {
  std::string text;
  for (size_t i = 0; i < kFaultKinds; ++i) {
    if (counts_[i] == 0) continue;
    absl::StrAppend(&text, text.empty() ? "" : ", ", AbslText(kInfo[i].name),
                    " ", counts_[i]);
  }
  return text.empty() ? "none" : text;
}

}  // namespace cairn::sim
