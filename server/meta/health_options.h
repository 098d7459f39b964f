// When the metadata service takes a target for suspect, down and up again.
#pragma once

#include "absl/status/status.h"
#include "io/executor.h"

namespace cairn::server {

struct HealthOptions {
  // Each target is asked this often whether it is there. Only the answer
  // counts: a target that can send but not hear is not up.
  io::TimeNs heartbeat_ns = io::kSecond;
  // Without an answer for so long: no new stripes. Three heartbeats, so that
  // one that was lost does nothing. Also how long one heartbeat may take.
  io::TimeNs suspect_after_ns = 3 * io::kSecond;
  // Reads go elsewhere, too. Longer than a server takes to start again.
  io::TimeNs down_after_ns = 10 * io::kSecond;
  // Up again after answering for so long without a miss, the first time. Twice
  // as long each time that it falls again, up to the second value: a flapping
  // target must not drag writers along, nor write a map each time.
  io::TimeNs up_after_ns = 5 * io::kSecond;
  io::TimeNs up_after_max_ns = 120 * io::kSecond;
  // A target that was up for so long has its earlier falls forgotten.
  io::TimeNs forget_falls_ns = 600 * io::kSecond;
  // Pause between two maps that differ in states only; what changes meanwhile
  // waits for the next one.
  io::TimeNs map_pause_ns = io::kSecond;
  // With more than this share of all targets down (and more than
  // kBrakeTargetsMin of them) it is rather the network, or somebody's mistake,
  // than the disks: they are down, but nothing else may follow by itself.
  double brake_share = 1.0 / 3;
};

// kInvalidArgument: times that contradict each other; says which.
absl::Status CheckHealthOptions(const HealthOptions& options);

}  // namespace cairn::server
