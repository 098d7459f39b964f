#include "tests/sim/campaign/summary.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "tests/fault_points/list.h"

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

void AddTo(const std::vector<uint64_t>& counts, std::vector<uint64_t>* sums) {
  sums->resize(std::max(sums->size(), counts.size()));
  for (size_t i = 0; i < counts.size(); ++i) (*sums)[i] += counts[i];
}

uint64_t At(const std::vector<uint64_t>& sums, size_t i) {
  return i < sums.size() ? sums[i] : 0;
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
  AddTo(result.point_counts.reached, &points_.reached);
  AddTo(result.point_counts.fired, &points_.fired);
  AddTo(result.point_counts.sometimes, &points_.sometimes);
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
  return text + PointsToString();
}

std::string Summary::PointsToString() const {
  std::string text =
      "fault points                             fired    reached\n";
  const auto points = AllFaultPoints();
  for (size_t i = 0; i < points.size(); ++i) {
    const std::string name(points[i].name);
    absl::StrAppendFormat(&text, "  %-34s %9d %10d\n", name,
                          At(points_.fired, i), At(points_.reached, i));
  }
  text += "sometimes                                times\n";
  const auto sometimes = AllSometimes();
  for (size_t i = 0; i < sometimes.size(); ++i) {
    const std::string name(sometimes[i].name);
    absl::StrAppendFormat(&text, "  %-34s %9d\n", name,
                          At(points_.sometimes, i));
  }
  const std::vector<std::string> never = NeverReached();
  if (never.empty()) return text;
  return absl::StrCat(text, "NEVER IN THESE SEEDS (", never.size(), "):\n  ",
                      absl::StrJoin(never, "\n  "), "\n");
}

std::vector<std::string> Summary::NeverReached() const {
  std::vector<std::string> never;
  const auto note = [&never](const NamedPoint& point, std::string_view what) {
    never.push_back(absl::StrCat(AbslText(point.name), " (",
                                 AbslText(point.source), ") ", AbslText(what)));
  };
  const auto points = AllFaultPoints();
  for (size_t i = 0; i < points.size(); ++i) {
    if (At(points_.fired, i) > 0) continue;
    note(points[i],
         At(points_.reached, i) > 0 ? "did not fire" : "was not even reached");
  }
  const auto sometimes = AllSometimes();
  for (size_t i = 0; i < sometimes.size(); ++i) {
    if (At(points_.sometimes, i) == 0) note(sometimes[i], "was never true");
  }
  return never;
}

}  // namespace cairn::sim
