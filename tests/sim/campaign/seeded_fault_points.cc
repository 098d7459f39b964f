#include "tests/sim/campaign/seeded_fault_points.h"

#include <algorithm>
#include <span>

#include "absl/strings/str_cat.h"
#include "format/base/status.h"
#include "tests/fault_points/list.h"

namespace cairn::sim {

namespace {

constexpr uint64_t kOnInOneOf = 4;

// Points that are not to fire as often as others, or that may end in an error
// which a workload is told of. All others are free: they cost time at most.
struct Rule {
  std::string_view name;
  uint64_t one_in_least;
  bool may_fail;
  uint64_t on_in_one_of = kOnInOneOf;
};
constexpr std::string_view kFull = "target.put.full";
constexpr Rule kRules[] = {
    {kFull, 64, true},
    {"target.put.no_buffer", 4, true},
    {"target.get.no_buffer", 4, true},
    {"target.queue.full", 8, true},
    {"meta.mutation.too_many", 4, true},
    {"client.session.renewal_skipped", 2, true},
    {"client.meta.no_patience", 8, true},
    {"client.put.no_patience", 8, true},
    // Rewrites the whole log.
    {"target.log.compacted_early", 8, false},
    // A commit that has more pieces than fit in one transaction is not atomic,
    // and the ledger of files takes it to be.
    {"client.file.short_stripe", 16, false},
    {"client.blob.new_one_early", 4, false},
    // Only together they leave a file half trimmed.
    {"meta.trim.page_of_two", 2, false, 2},
    {"meta.trim.left_over", 2, false, 2},
};

Rule RuleOf(std::string_view name) {
  for (const Rule& rule : kRules) {
    if (rule.name == name) return rule;
  }
  return {name, 2, false};
}

uint64_t HashOf(std::string_view name) {
  uint64_t hash = 0;
  for (const char c : name) hash = Random::Mix(hash + static_cast<uint8_t>(c));
  return hash;
}

// The names in kRules must be those of points.
void CheckRules() {
  for (const Rule& rule : kRules) {
    CAIRN_CHECK(std::ranges::any_of(AllFaultPoints(), [&](const auto& point) {
      return point.name == rule.name;
    }));
  }
}

}  // namespace

SeededFaultPoints::SeededFaultPoints(uint64_t seed) {
  CheckRules();
  for (const NamedPoint& named : AllFaultPoints()) {
    const Rule rule = RuleOf(named.name);
    Random random(Random::Mix(seed ^ HashOf(named.name)));
    const bool on = random.OneIn(rule.on_in_one_of);
    const uint64_t one_in = rule.one_in_least << (2 * random.Below(4));
    const Point point{points_.size(), on ? one_in : 0, rule.may_fail, random};
    CAIRN_CHECK(points_.emplace(named.name, point).second);
  }
  for (const NamedPoint& named : AllSometimes()) {
    CAIRN_CHECK(sometimes_.emplace(named.name, sometimes_.size()).second);
  }
  counts_.reached.resize(points_.size());
  counts_.fired.resize(points_.size());
  counts_.sometimes.resize(sometimes_.size());
  SetFaultPoints(this);
}

SeededFaultPoints::~SeededFaultPoints() { SetFaultPoints(nullptr); }

void SeededFaultPoints::Arm(io::Executor* executor, AttackLog* log,
                            bool may_fail) {
  executor_ = executor;
  log_ = log;
  errors_too_ = may_fail;
  armed_ = true;
}

bool SeededFaultPoints::Fires(std::string_view name) {
  const auto found = points_.find(name);
  CAIRN_CHECK(found != points_.end());
  Point& point = found->second;
  ++counts_.reached[point.number];
  if (!armed_ || point.one_in == 0 || (point.may_fail && !errors_too_)) {
    return false;
  }
  if (!point.random.OneIn(point.one_in)) return false;
  ++counts_.fired[point.number];
  if (point.may_fail) log_->Disturb();
  if (name == kFull) log_->NoteFull();
  if (trace_ != nullptr) {
    std::fprintf(trace_, "%llu fault point %.*s\n",
                 static_cast<unsigned long long>(executor_->NowNs()),
                 static_cast<int>(name.size()), name.data());
  }
  return true;
}

void SeededFaultPoints::Reached(std::string_view name) {
  const auto found = sometimes_.find(name);
  CAIRN_CHECK(found != sometimes_.end());
  ++counts_.sometimes[found->second];
}

std::string SeededFaultPoints::ToString() const {
  std::string text;
  for (const NamedPoint& named : AllFaultPoints()) {
    const Point& point = points_.find(named.name)->second;
    if (point.one_in == 0 || (point.may_fail && !errors_too_)) continue;
    absl::StrAppend(&text, text.empty() ? "" : ", ", AbslText(named.name), " ",
                    counts_.fired[point.number], "/",
                    counts_.reached[point.number]);
  }
  return text.empty() ? "none" : text;
}

}  // namespace cairn::sim
