#include "tests/sim/crash_points/plan.h"

#include <array>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "format/base/status.h"

namespace cairn::sim {
namespace {

constexpr std::array<std::pair<CrashKind, const char*>, 3> kKinds = {{
    {CrashKind::kOne, "one"},
    {CrashKind::kAll, "all"},
    {CrashKind::kKill, "kill"},
}};
constexpr std::array<std::pair<SurvivorKind, const char*>, 4> kSurvivors = {{
    {SurvivorKind::kNone, "none"},
    {SurvivorKind::kAll, "all"},
    {SurvivorKind::kSome, "some:"},
    {SurvivorKind::kTorn, "torn:"},
}};

bool HasValue(SurvivorKind kind) {
  return kind == SurvivorKind::kSome || kind == SurvivorKind::kTorn;
}

template <typename Names>
const char* NameIn(const Names& names, decltype(names[0].first) value) {
  for (const auto& [kind, name] : names) {
    if (kind == value) return name;
  }
  return "?";
}

std::string ToString(const PlannedCrash& crash) {
  std::string text =
      absl::StrCat(crash.point, "/", NameIn(kKinds, crash.kind), "/",
                   NameIn(kSurvivors, crash.survivors.kind));
  if (HasValue(crash.survivors.kind)) {
    absl::StrAppend(&text, crash.survivors.value);
  }
  return text;
}

bool ParseSurvivors(const std::string& text, Survivors* out) {
  for (const auto& [kind, name] : kSurvivors) {
    const std::string_view prefix(name);
    if (!text.starts_with(prefix)) continue;
    out->kind = kind;
    if (!HasValue(kind)) return text == prefix;
    return absl::SimpleAtoi(text.substr(prefix.size()), &out->value);
  }
  return false;
}

bool ParseCrash(const std::string& text, PlannedCrash* out) {
  const std::vector<std::string> parts = absl::StrSplit(text, '/');
  if (parts.size() != 3) return false;
  bool known = false;
  for (const auto& [kind, name] : kKinds) {
    if (parts[1] != name) continue;
    out->kind = kind;
    known = true;
  }
  return known && absl::SimpleAtoi(parts[0], &out->point) && out->point > 0 &&
         ParseSurvivors(parts[2], &out->survivors);
}

// What of `unflushed` changes may survive a loss of power.
std::vector<Survivors> SurvivorsOf(uint64_t unflushed) {
  std::vector<Survivors> all = {{SurvivorKind::kNone, 0}};
  if (unflushed == 0) return all;
  all.push_back({SurvivorKind::kAll, 0});
  if (unflushed <= kSubsetBitsMax) {
    const uint64_t whole = (uint64_t{1} << unflushed) - 1;
    for (uint64_t bits = 1; bits < whole; ++bits) {
      all.push_back({SurvivorKind::kSome, bits});
    }
  }
  const uint64_t draws = unflushed <= kSubsetBitsMax ? 1 : kTornDraws;
  for (uint64_t seed = 1; seed <= draws; ++seed) {
    all.push_back({SurvivorKind::kTorn, seed});
  }
  return all;
}

}  // namespace

std::string ToString(const CrashPlan& plan) {
  std::string text;
  for (const PlannedCrash& crash : plan) {
    absl::StrAppend(&text, text.empty() ? "" : ",", ToString(crash));
  }
  return text;
}

absl::StatusOr<CrashPlan> ParseCrashPlan(std::string_view text) {
  CrashPlan plan;
  if (text.empty()) return plan;
  const std::vector<std::string> parts = absl::StrSplit(std::string(text), ',');
  for (const std::string& part : parts) {
    if (!ParseCrash(part, &plan.emplace_back())) {
      return absl::InvalidArgumentError("not a planned crash: " + part);
    }
  }
  return plan;
}

std::vector<PlannedCrash> CrashesAt(uint64_t number, const CrashPoint& point) {
  std::vector<PlannedCrash> all;
  for (const Survivors& survivors : SurvivorsOf(point.unflushed)) {
    all.push_back({number, CrashKind::kOne, survivors});
  }
  for (const Survivors& survivors : SurvivorsOf(point.unflushed_all)) {
    all.push_back({number, CrashKind::kAll, survivors});
  }
  all.push_back({number, CrashKind::kKill, {SurvivorKind::kNone, 0}});
  if (point.server == 0 && point.commits > 0) {
    all.push_back({number, CrashKind::kKill, {SurvivorKind::kAll, 0}});
  }
  return all;
}

}  // namespace cairn::sim
