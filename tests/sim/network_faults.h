// Which segments and connections of the simulated network go wrong, and how:
// faults armed for a byte of a link, and rates drawn from the seed.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "io/executor.h"
#include "tests/sim/node_id.h"
#include "tests/sim/random.h"

namespace cairn::sim {

// Each: one in so many; 0: none. Resets: Network::set_reset_one_in().
struct NetworkFaultRates {
  // Of segments and handshakes: as late as that, and with a segment all that
  // follows it in its direction.
  uint64_t latency_spike = 0;
  io::TimeNs latency_spike_ns_max = 500 * io::kMillisecond;
  // Of segments: one bit flips, and no checksum of the network's saw it.
  uint64_t corrupt_segment = 0;
  // Of sends: their first bytes travel one by one. Costs an event a byte.
  uint64_t tiny_segments = 0;
  uint64_t tiny_bytes = 64;
  // Of connection attempts: refused though somebody listens.
  uint64_t refuse_connect = 0;
};

// Hits one byte of what arrives over a link, whatever the connection.
struct StreamFault {
  enum class Kind {
    kReset,  // The connection breaks before the byte.
    kEnd,    // The receiver sees the end of the stream before the byte; what
             // it still sends is answered with a reset, and so is the sender.
    kFlip,   // One bit of the byte flips.
  };
  Kind kind = Kind::kReset;
  NodeId from;
  NodeId to;
  uint64_t after_bytes = 0;  // Counted from when it is armed.
};

// Where a StreamFault hits within a segment.
struct StreamHit {
  StreamFault::Kind kind;
  uint64_t at;
};

class NetworkFaults {
 public:
  explicit NetworkFaults(uint64_t seed) : random_(seed) {}

  void Arm(const StreamFault& fault) { armed_.push_back(fault); }
  void Disarm() { armed_.clear(); }
  void set_rates(const NetworkFaultRates& rates) { rates_ = rates; }

  // What hits a segment of that size that arrives now; at most one.
  std::optional<StreamHit> Draw(NodeId from, NodeId to, uint64_t size_bytes);
  io::TimeNs DrawSpike();    // 0: none.
  uint64_t DrawTinyBytes();  // Of one send.
  bool DrawRefusal() { return Hits(rates_.refuse_connect); }
  Random* random() { return &random_; }

 private:
  bool Hits(uint64_t rate) { return rate > 0 && random_.OneIn(rate); }

  Random random_;
  NetworkFaultRates rates_;
  std::vector<StreamFault> armed_;
};

}  // namespace cairn::sim
