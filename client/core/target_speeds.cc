#include "client/core/target_speeds.h"

#include <algorithm>
#include <vector>

#include "client/core/limits.h"

namespace cairn::client {

void TargetSpeeds::Note(CallKind kind, format::TargetId target,
                        io::TimeNs took_ns) {
  Speeds& speeds = of(kind);
  const auto [place, is_new] = speeds.means.emplace(target, took_ns);
  if (!is_new) {
    io::TimeNs& mean = place->second;
    mean = mean - mean / kSpeedWeight + took_ns / kSpeedWeight;
  }
  if (is_new || ++speeds.notes >= kNotesPerMedian) TakeMedian(&speeds);
}

void TargetSpeeds::TakeMedian(Speeds* speeds) {
  speeds->notes = 0;
  std::vector<io::TimeNs> means;
  means.reserve(speeds->means.size());
  for (const auto& [target, mean] : speeds->means) means.push_back(mean);
  const auto middle = means.begin() + static_cast<ptrdiff_t>(means.size() / 2);
  std::nth_element(means.begin(), middle, means.end());
  speeds->median = *middle;
}

io::TimeNs TargetSpeeds::SlowAfter(CallKind kind, io::TimeNs most) const {
  const Speeds& speeds = of(kind);
  if (speeds.means.size() < kSlowPeersMin) return most;
  return std::min(most, std::max(kSlowAfterMin, kSlowFactor * speeds.median));
}

uint64_t TargetSpeeds::known() const {
  return std::max(gets_.means.size(), puts_.means.size());
}

}  // namespace cairn::client
