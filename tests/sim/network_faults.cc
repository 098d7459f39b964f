#include "tests/sim/network_faults.h"

#include <algorithm>

namespace cairn::sim {

std::optional<StreamHit> NetworkFaults::Draw(NodeId from, NodeId to,
                                             uint64_t size_bytes) {
  if (size_bytes == 0) return std::nullopt;
  std::optional<StreamHit> hit;
  for (auto fault = armed_.begin(); fault != armed_.end();) {
    if (fault->from != from || fault->to != to) {
      ++fault;
    } else if (fault->after_bytes >= size_bytes || hit) {
      // A second one for the same segment hits the next.
      fault->after_bytes -= std::min(fault->after_bytes, size_bytes);
      ++fault;
    } else {
      hit = StreamHit{fault->kind, fault->after_bytes};
      fault = armed_.erase(fault);
    }
  }
  if (!hit && Hits(rates_.corrupt_segment)) {
    hit = StreamHit{StreamFault::Kind::kFlip, random_.Below(size_bytes)};
  }
  return hit;
}

io::TimeNs NetworkFaults::DrawSpike() {
  if (!Hits(rates_.latency_spike)) return 0;
  return random_.Between(1, rates_.latency_spike_ns_max);
}

uint64_t NetworkFaults::DrawTinyBytes() {
  return Hits(rates_.tiny_segments) ? rates_.tiny_bytes : 0;
}

}  // namespace cairn::sim
