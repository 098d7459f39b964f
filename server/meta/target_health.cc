#include "server/meta/target_health.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace cairn::server {

using format::TargetState;
using io::TimeNs;

namespace {

// Doubling stops here, whatever the options say.
constexpr uint32_t kHoldDoublingsMax = 20;

std::string Seconds(TimeNs time) {
  return absl::StrFormat(
      "%.1f s", static_cast<double>(time) / static_cast<double>(io::kSecond));
}

bool SetByHeartbeats(TargetState state) {
  return state == TargetState::kUp || state == TargetState::kSuspect ||
         state == TargetState::kDown;
}

}  // namespace

absl::Status CheckHealthOptions(const HealthOptions& options) {
  if (options.heartbeat_ns == 0) {
    return absl::InvalidArgumentError("the time between heartbeats is 0");
  }
  if (options.suspect_after_ns < 2 * options.heartbeat_ns) {
    return absl::InvalidArgumentError(absl::StrCat(
        "suspect after ", Seconds(options.suspect_after_ns),
        " is less than two heartbeats of ", Seconds(options.heartbeat_ns),
        ": one that comes late would make a target suspect"));
  }
  if (options.down_after_ns <= options.suspect_after_ns) {
    return absl::InvalidArgumentError(
        absl::StrCat("down after ", Seconds(options.down_after_ns),
                     " is not longer than suspect after ",
                     Seconds(options.suspect_after_ns)));
  }
  if (!(options.brake_share > 0 && options.brake_share <= 1)) {
    return absl::InvalidArgumentError(
        "the brake's share of targets is not between 0 and 1");
  }
  return absl::OkStatus();
}

TargetHealth::TargetHealth(const HealthOptions* options, TargetState state,
                           TimeNs now)
    : options_(options), state_(state), since_(now), heard_at_(now) {}

void TargetHealth::Answered(TimeNs asked_at, std::string problem) {
  heard_at_ = std::max(heard_at_, asked_at);
  if (!answering_since_) answering_since_ = asked_at;
  if (!problem.empty()) {
    fit_since_.reset();
  } else if (!fit_since_) {
    fit_since_ = asked_at;
  }
  problem_ = std::move(problem);
}

void TargetHealth::Missed(std::string error) {
  answering_since_.reset();
  fit_since_.reset();
  last_error_ = std::move(error);
}

void TargetHealth::Forgive(TimeNs time, TimeNs now) {
  heard_at_ = std::min(heard_at_ + time, now);
}

TimeNs TargetHealth::SilentFor(TimeNs now) const {
  return now > heard_at_ ? now - heard_at_ : 0;
}

TimeNs TargetHealth::HoldNs() const {
  const uint32_t doublings =
      std::min(falls_ > 0 ? falls_ - 1 : 0, kHoldDoublingsMax);
  return std::min(options_->up_after_ns << doublings,
                  std::max(options_->up_after_ns, options_->up_after_max_ns));
}

TargetState TargetHealth::Judge(TimeNs now) const {
  if (!SetByHeartbeats(state_)) return state_;
  const TimeNs silent = SilentFor(now);
  if (silent >= options_->down_after_ns) return TargetState::kDown;
  if (state_ == TargetState::kUp) {
    const bool fit = silent < options_->suspect_after_ns && problem_.empty();
    return fit ? TargetState::kUp : TargetState::kSuspect;
  }
  if (silent >= options_->suspect_after_ns) return state_;
  const TimeNs hold = HoldNs();
  if (fit_since_ && now >= *fit_since_ + hold) return TargetState::kUp;
  if (!problem_.empty() && answering_since_ &&
      now >= *answering_since_ + hold) {
    return TargetState::kSuspect;
  }
  return state_;
}

void TargetHealth::SetState(TargetState state, TimeNs now) {
  if (state == state_) return;
  if (state_ == TargetState::kUp && SetByHeartbeats(state)) {
    if (now - since_ >= options_->forget_falls_ns) falls_ = 0;
    ++falls_;
  }
  state_ = state;
  since_ = now;
}

std::string TargetHealth::WhyNotBack(TimeNs now) const {
  std::string text = "answers again";
  if (fit_since_) {
    absl::StrAppend(&text, " since ", Seconds(now - *fit_since_));
  }
  absl::StrAppend(&text, "; up when it has for ", Seconds(HoldNs()));
  if (falls_ > 1) absl::StrAppend(&text, " (fell ", falls_, " times lately)");
  return text;
}

std::string TargetHealth::Reason(TimeNs now) const {
  const TimeNs silent = SilentFor(now);
  if (state_ == TargetState::kUp) return std::string();
  if (silent >= options_->suspect_after_ns) {
    std::string text = absl::StrCat("no answer for ", Seconds(silent));
    if (!last_error_.empty()) absl::StrAppend(&text, ": ", last_error_);
    return text;
  }
  if (!problem_.empty()) return problem_;
  if (state_ == TargetState::kOut) return "taken out of service";
  if (state_ == TargetState::kDraining) return "being emptied";
  return WhyNotBack(now);
}

}  // namespace cairn::server
