// TargetHealth: what heartbeats say about one target. Pure: told the time.
//
//   up ──no answer for suspect_after, or takes no writes──► suspect
//   any ──no answer for down_after──► down
//   suspect, down ──answered every heartbeat for the hold time──► up
//                   (down, and takes no writes: suspect)
//
// The hold time is up_after_ns, and doubles with each fall from up that is not
// forgotten yet (HealthOptions). Silence counts from when the last answered
// heartbeat was sent: an answer that took long proves nothing about now.
// States that an operator set (out, draining) stay what they are.
//
// Restart: a new one counts silence from its making, so that nobody is down
//          before a whole down_after_ns has passed.
// Threads: one loop. Lifetime: the options outlive it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "format/cluster/cluster_map.h"
#include "server/meta/health_options.h"

namespace cairn::server {

class TargetHealth {
 public:
  TargetHealth(const HealthOptions* options, format::TargetState state,
               io::TimeNs now);

  // A heartbeat sent at `asked_at` was answered. `problem`: why it takes no
  // writes; empty: it does.
  void Answered(io::TimeNs asked_at, std::string problem);
  // One failed, with or without an answer.
  void Missed(std::string error);
  // For `time` nobody asked (the service itself stood still): it does not
  // count as silence.
  void Forgive(io::TimeNs time, io::TimeNs now);

  // The state it should be in now.
  format::TargetState Judge(io::TimeNs now) const;
  // The state that the map has now.
  void SetState(format::TargetState state, io::TimeNs now);

  format::TargetState state() const { return state_; }
  // Since when: of this process's knowledge.
  io::TimeNs since() const { return since_; }
  // True if the newest heartbeat was answered.
  bool answers() const { return answering_since_.has_value(); }
  // How long it must answer before it is up again.
  io::TimeNs HoldNs() const;
  // Why it is not up, in words; empty if it is.
  std::string Reason(io::TimeNs now) const;

 private:
  io::TimeNs SilentFor(io::TimeNs now) const;
  std::string WhyNotBack(io::TimeNs now) const;

  const HealthOptions* const options_;
  format::TargetState state_;
  io::TimeNs since_;
  io::TimeNs heard_at_;  // When the last answered heartbeat was sent.
  std::optional<io::TimeNs> answering_since_;  // Without a miss, ...
  std::optional<io::TimeNs> fit_since_;        // ... and taking writes.
  std::string problem_;                        // Of the last answer.
  std::string last_error_;                     // Of the last miss.
  uint32_t falls_ = 0;  // From up; old ones are forgotten.
};

}  // namespace cairn::server
