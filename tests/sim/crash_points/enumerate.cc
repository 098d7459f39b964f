#include "tests/sim/crash_points/enumerate.h"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/sim/crash_points/crash_run.h"

namespace cairn::sim {
namespace {

std::optional<std::string> Environment(const char* name) {
  const char* const value = std::getenv(name);
  if (value == nullptr) return std::nullopt;
  return std::string(value);
}

// What a failed check, which ends the program, should say too.
std::string& RunUnderWay() {
  static std::string text;
  return text;
}

void SayWhatRan(int) {
  std::fputs(RunUnderWay().c_str(), stderr);
  std::fflush(stderr);
}

std::string Replay(const EnumerateOptions& options, uint64_t seed,
                   const CrashPlan& plan) {
  const auto* const test =
      ::testing::UnitTest::GetInstance()->current_test_info();
  std::string filter = "*";
  if (test != nullptr) {
    filter = absl::StrCat(test->test_suite_name(), ".", test->name());
  }
  return absl::StrCat(
      "scenario ", options.scenario, ", seed ", seed, ", crashes \"",
      ToString(plan), "\"\n  replay: CAIRN_CRASH_SEED=", seed,
      " CAIRN_CRASH_PLAN=", ToString(plan),
      " build/release/tests/crash_points_test --gtest_filter=", filter, "\n");
}

// `count` of the cases, one of each of as many equal parts.
std::vector<PlannedCrash> Pick(const std::vector<PlannedCrash>& cases,
                               uint64_t count, uint64_t seed) {
  if (count >= cases.size()) return cases;
  Random random(seed);
  std::vector<PlannedCrash> picked;
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t begin = i * cases.size() / count;
    const uint64_t end = (i + 1) * cases.size() / count;
    picked.push_back(cases[random.Between(begin, end - 1)]);
  }
  return picked;
}

class Enumeration {
 public:
  explicit Enumeration(const EnumerateOptions* options) : options_(options) {}

  void Seed(uint64_t seed, const Breadth& breadth) {
    ++report_.seeds;
    seed_ = seed;
    breadth_ = breadth;
    plan_.clear();
    Visit();
  }

  void Only(uint64_t seed, CrashPlan plan) {
    seed_ = seed;
    breadth_.clear();
    plan_ = std::move(plan);
    Visit();
  }

  EnumerationReport* report() { return &report_; }

 private:
  void Visit();
  CrashRunResult RunOnce();
  bool enough() const {
    return report_.violations.size() >= options_->violations_max;
  }

  const EnumerateOptions* const options_;
  EnumerationReport report_;
  uint64_t seed_ = 0;
  Breadth breadth_;
  CrashPlan plan_;
};

CrashRunResult Enumeration::RunOnce() {
  CrashRunOptions run;
  run.seed = seed_;
  run.plan = plan_;
  run.spoil = options_->spoil;
  if (Environment("CAIRN_CRASH_TRACE")) run.trace = stderr;
  RunUnderWay() = Replay(*options_, seed_, plan_);
  const std::unique_ptr<Scenario> scenario = options_->make();
  CrashRunResult result = RunCrashes(scenario.get(), run);
  if (!result.violation.empty()) {
    report_.violations.push_back(
        absl::StrCat(result.violation, "\n  ", RunUnderWay()));
  }
  RunUnderWay().clear();
  return result;
}

void Enumeration::Visit() {
  const size_t level = plan_.size();
  const CrashRunResult result = RunOnce();
  if (level > 0) ++report_.runs;
  if (level > 1) ++report_.nested;
  if (level > 0 && result.finished) ++report_.finished;
  if (!result.violation.empty() || level >= breadth_.size()) return;
  std::vector<PlannedCrash> cases;
  for (const CrashPoint& point : result.points) {
    const auto here = CrashesAt(point);
    cases.insert(cases.end(), here.begin(), here.end());
  }
  if (level == 0) {
    report_.operations += result.operations;
    report_.points += result.points.size();
    report_.cases += cases.size();
  }
  uint64_t seed = Random::Mix(seed_);
  for (const PlannedCrash& crash : plan_) {
    seed =
        Random::Mix(seed + crash.point + crash.events) + crash.survivors.value;
  }
  for (const PlannedCrash& crash : Pick(cases, breadth_[level], seed)) {
    if (enough()) return;
    plan_.push_back(crash);
    Visit();
    plan_.pop_back();
  }
}

}  // namespace

std::string ToString(const EnumerationReport& report) {
  return absl::StrCat(
      report.seeds, " seeds, ", report.operations, " I/O operations, ",
      report.points, " points, ", report.cases, " ways to crash there; ran ",
      report.runs - report.nested, " of them and ", report.nested,
      " with more crashes; the action finished in ", report.finished, " of ",
      report.runs, " runs, ", report.violations.size(), " violations");
}

EnumerationReport Enumerate(const EnumerateOptions& options) {
  auto* const before = std::signal(SIGABRT, SayWhatRan);
  Enumeration enumeration(&options);
  const bool all = Environment("CAIRN_CRASH_POINTS") == "all";
  uint64_t seed = 0;
  if (!absl::SimpleAtoi(Environment("CAIRN_CRASH_SEED").value_or(""), &seed)) {
    seed = 0;
  }
  const auto plan = Environment("CAIRN_CRASH_PLAN");
  if (plan) {
    const absl::StatusOr<CrashPlan> parsed = ParseCrashPlan(*plan);
    CAIRN_CHECK(parsed.ok());
    enumeration.Only(std::max<uint64_t>(seed, 1), *parsed);
  } else {
    const uint64_t first = std::max<uint64_t>(seed, 1);
    const uint64_t seeds = all && seed == 0 ? options.full_seeds : 1;
    for (uint64_t s = first; s < first + seeds; ++s) {
      enumeration.Seed(s, all ? options.full : options.sample);
    }
  }
  std::signal(SIGABRT, before);
  std::printf("%s: %s\n", options.scenario.c_str(),
              ToString(*enumeration.report()).c_str());
  return *enumeration.report();
}

}  // namespace cairn::sim
