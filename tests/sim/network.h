// The simulated network between the nodes of a World.
//
// Connections are reliable, ordered byte streams with latency, cut into
// segments at seeded places; bandwidth is unlimited, the bytes under way in one
// direction are not (then the sender waits).
//
// Addresses: "10.0.0.N:port" is node N; "127.0.0.1", "0.0.0.0" and "unix:/path"
//            are the caller's own node.
// Faults:    Cut() keeps bytes, acknowledgements and connection attempts in one
//            direction from arriving until Heal(), as TCP sees a lost link;
//            Reset() breaks connections at once; a process that dies resets
//            its connections. Data to a node without power is sent again when
//            it is up, and answered with a reset. Slow links and latency spikes
//            keep the order of bytes; since the window is bounded, a slow link
//            also carries less. More in tests/sim/network_faults.h.
// Errors:    connection refused, reset or timed out: kUnavailable.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "io/env.h"
#include "tests/sim/fault_kind.h"
#include "tests/sim/network_faults.h"
#include "tests/sim/node_id.h"
#include "tests/sim/random.h"

namespace cairn::sim {

class Connection;
class SimEnv;
class SimListener;
class World;

struct NetworkOptions {
  io::TimeNs latency_ns_min = 20 * io::kMicrosecond;
  io::TimeNs latency_ns_max = 300 * io::kMicrosecond;
  // Bytes sent and not yet received, per direction.
  uint64_t window_bytes = 256 * format::kKiB;
  uint64_t segment_bytes_max = 64 * format::kKiB;
  // One in so many segments resets its connection; 0: none.
  uint64_t reset_one_in = 0;
};

// A parsed address; one key for one listener.
struct Endpoint {
  NodeId node;
  uint16_t port = 0;
  std::string unix_path;  // Empty for TCP.
  auto operator<=>(const Endpoint&) const = default;
};
std::string ToString(const Endpoint& endpoint);

class Network {
 public:
  Network(World* world, NetworkOptions options, uint64_t seed);

  // --- Faults, for tests.
  void Cut(NodeId from, NodeId to);
  void Partition(NodeId a, NodeId b);  // Both ways.
  void Isolate(NodeId node);           // From every node there is now.
  void Heal(NodeId a, NodeId b);       // Both ways.
  void HealAll();                      // Slow links too.
  // Packets between the two take `factor` times as long, both ways; 1: as
  // usual.
  void SlowLink(NodeId a, NodeId b, uint64_t factor);
  // Breaks every connection between the two; both sides see a reset.
  void Reset(NodeId a, NodeId b);
  // A drawn reset lets a seeded part of its segment through first.
  void set_reset_one_in(uint64_t segments) { options_.reset_one_in = segments; }
  void set_fault_rates(const NetworkFaultRates& rates) {
    faults_.set_rates(rates);
  }
  void Fail(const StreamFault& fault) { faults_.Arm(fault); }
  void ClearFaults() { faults_.Disarm(); }  // Armed ones.

  // --- For the parts of the simulator.
  void AddNode(NodeId node);
  // kInvalidArgument: not an address of this world.
  absl::StatusOr<Endpoint> Parse(NodeId self, std::string_view address) const;
  // Fills in a free port where it is 0. kAlreadyExists: in use.
  absl::Status ClaimPort(Endpoint* endpoint);
  void Register(const Endpoint& endpoint, SimListener* listener);
  void Unregister(const Endpoint& endpoint);
  SimListener* FindListener(const Endpoint& endpoint) const;
  uint16_t TakePort(NodeId node);
  std::shared_ptr<Connection> MakeConnection(SimEnv* client, SimEnv* server,
                                             Endpoint from, Endpoint to);
  void Forget(uint64_t connection) { connections_.erase(connection); }
  // Every socket of the process breaks. `silent`: peers are not told.
  void ProcessDied(SimEnv* process, bool silent);
  void set_powered(NodeId node, bool powered);
  bool powered(NodeId node) const { return !dark_.contains(node); }
  bool is_cut(NodeId from, NodeId to) const {
    return cuts_.contains({from, to});
  }

  io::TimeNs Latency(NodeId from, NodeId to);
  uint64_t SegmentBytes(uint64_t bytes_max);
  // How many of a send's first bytes go one by one.
  uint64_t DrawTinyBytes(uint64_t connection);
  bool DrawReset();
  std::optional<StreamHit> DrawHit(NodeId from, NodeId to, uint64_t size_bytes);
  bool DrawRefusal() { return faults_.DrawRefusal(); }
  uint8_t DrawBit();  // A byte with one bit set.
  void Fired(FaultKind kind, uint64_t where);
  // How many of `count` segments a dead machine had sent.
  uint64_t DrawKept(uint64_t count) { return random_.Between(0, count); }
  uint64_t window_bytes() const { return options_.window_bytes; }
  World* world() const { return world_; }
  // Who waits for what, for the report of a deadlock.
  std::string Describe() const;

 private:
  World* const world_;
  NetworkOptions options_;
  Random random_;
  NetworkFaults faults_;
  std::set<NodeId> nodes_;
  std::set<NodeId> dark_;                     // Without power.
  std::set<std::pair<NodeId, NodeId>> cuts_;  // Directions that are cut.
  struct Slowness {
    uint64_t factor;
    bool noted = false;
  };
  std::map<std::pair<NodeId, NodeId>, Slowness> slow_;
  std::map<Endpoint, SimListener*> listeners_;
  std::map<NodeId, uint16_t> next_port_;
  uint64_t connections_made_ = 0;
  std::map<uint64_t, Connection*> connections_;
};

}  // namespace cairn::sim
