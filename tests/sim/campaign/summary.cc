#include "tests/sim/campaign/summary.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/str_format.h"

namespace cairn::sim {

namespace {

double Quantile(std::vector<double> values, double part) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  const double at = part * static_cast<double>(values.size() - 1);
  return values[static_cast<size_t>(at)];
}

bool Has(const CampaignResult& result, AttackClass kinds) {
  for (size_t i = 0; i < kAttacks; ++i) {
    if (result.attack_counts[i] == 0) continue;
    if (ClassOf(static_cast<Attack>(i)) == kinds) return true;
  }
  return false;
}

}  // namespace

void Summary::Add(const SeedOutcome& outcome) {
  ++seeds_;
  if (!outcome.result) {
    ++failed_;
    return;
  }
  const CampaignResult& result = *outcome.result;
  real_seconds_.push_back(outcome.real_seconds);
  virtual_seconds_ += result.virtual_seconds;
  events_ += result.events;
  operations_ += result.operations;
  loads_ += result.loads;
  for (size_t i = 0; i < kAttacks; ++i) {
    attacks_[i] += result.attack_counts[i];
  }
  for (size_t i = 0; i < kFaultKinds; ++i) {
    faults_[i] += result.fault_counts[i];
  }
  broken_all_ways_ +=
      Has(result, AttackClass::kCrash) && Has(result, AttackClass::kNetwork) &&
      (Has(result, AttackClass::kDisk) || Has(result, AttackClass::kDamage));
}

std::string Summary::ToString() const {
  const uint64_t passed = seeds_ - failed_;
  const double each = static_cast<double>(std::max<uint64_t>(1, passed));
  const auto sum = [](const auto& counts) {
    return static_cast<double>(
        std::accumulate(counts.begin(), counts.end(), uint64_t{0}));
  };
  std::string text = absl::StrFormat(
      "seeds                      %d, of which failed %d\n"
      "real seconds a seed        median %.2f, p90 %.2f, most %.2f\n"
      "virtual seconds a seed     %.0f; events %.0f\n"
      "acknowledged a seed        %.1f operations; %.1f reads compared\n"
      "attacks a seed             %.1f; faults that fired %.1f\n"
      "crash + network + disk     %.1f%% of seeds\n",
      seeds_, failed_, Quantile(real_seconds_, 0.5),
      Quantile(real_seconds_, 0.9), Quantile(real_seconds_, 1),
      virtual_seconds_ / each, static_cast<double>(events_) / each,
      static_cast<double>(operations_) / each,
      static_cast<double>(loads_) / each, sum(attacks_) / each,
      sum(faults_) / each,
      100.0 * static_cast<double>(broken_all_ways_) / each);
  text += "attacks\n";
  for (size_t i = 0; i < kAttacks; ++i) {
    const std::string name(NameOf(static_cast<Attack>(i)));
    absl::StrAppendFormat(&text, "  %-24s %d\n", name, attacks_[i]);
  }
  text += "faults that fired\n";
  for (size_t i = 0; i < kFaultKinds; ++i) {
    const std::string name(NameOf(static_cast<FaultKind>(i)));
    absl::StrAppendFormat(&text, "  %-24s %d\n", name, faults_[i]);
  }
  return text;
}

}  // namespace cairn::sim
