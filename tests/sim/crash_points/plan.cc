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
    {CrashKind::kOne, "one:"},
    {CrashKind::kAll, "all"},
    {CrashKind::kKill, "kill:"},
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
  std::string text = absl::StrCat(crash.point);
  if (crash.events > 0) absl::StrAppend(&text, "+", crash.events);
  absl::StrAppend(&text, "/", NameIn(kKinds, crash.kind));
  if (crash.kind != CrashKind::kAll) absl::StrAppend(&text, crash.server);
  absl::StrAppend(&text, "/", NameIn(kSurvivors, crash.survivors.kind));
  if (HasValue(crash.survivors.kind)) {
    absl::StrAppend(&text, crash.survivors.value);
  }
  return text;
}

bool ParseMoment(const std::string& text, PlannedCrash* out) {
  const size_t plus = text.find('+');
  if (!absl::SimpleAtoi(text.substr(0, plus), &out->point)) return false;
  return plus == text.npos ||
         absl::SimpleAtoi(text.substr(plus + 1), &out->events);
}

bool ParseKind(const std::string& text, PlannedCrash* out) {
  for (const auto& [kind, name] : kKinds) {
    const std::string_view prefix(name);
    if (!text.starts_with(prefix)) continue;
    out->kind = kind;
    if (kind == CrashKind::kAll) return text == prefix;
    return absl::SimpleAtoi(text.substr(prefix.size()), &out->server);
  }
  return false;
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
  return ParseMoment(parts[0], out) && ParseKind(parts[1], out) &&
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

std::vector<PlannedCrash> CrashesAt(const CrashPoint& point) {
  PlannedCrash crash;
  crash.point = point.number;
  crash.events = point.events;
  std::vector<PlannedCrash> all;
  crash.kind = CrashKind::kAll;
  for (const Survivors& survivors : SurvivorsOf(point.unflushed_all)) {
    crash.survivors = survivors;
    all.push_back(crash);
  }
  crash.server = point.server;
  crash.kind = CrashKind::kOne;
  for (const Survivors& survivors : SurvivorsOf(point.unflushed)) {
    crash.survivors = survivors;
    all.push_back(crash);
  }
  crash.kind = CrashKind::kKill;
  crash.survivors = {SurvivorKind::kNone, 0};
  all.push_back(crash);
  if (point.server == 0 && point.commits > 0) {
    crash.survivors = {SurvivorKind::kAll, 0};
    all.push_back(crash);
  }
  return all;
}

}  // namespace cairn::sim
