// One simulated connection: two pipes, an end at each process.
//
// Shared by its two streams and by the segments under way: hence shared_ptr.
// Everything a pipe carries arrives in order: data, then the end of the stream
// or a reset. A reset does not take away what arrived before it.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "io/env.h"
#include "tests/sim/network.h"
#include "tests/sim/sim_env.h"

namespace cairn::sim {

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  // Side 0 is the client.
  Connection(Network* network, uint64_t id, SimEnv* client, SimEnv* server,
             Endpoint from, Endpoint to);
  ~Connection();

  SimEnv* env(size_t side) const { return ends_[side].env; }
  const Endpoint& endpoint(size_t side) const { return ends_[side].endpoint; }

  // kUnavailable: the side closed, or a reset arrived.
  io::Task<absl::Status> Send(size_t side, io::ConstBytes from);
  // At least one byte; 0: end of stream.
  io::Task<absl::StatusOr<uint64_t>> Receive(size_t side, io::MutableBytes to);
  // The side shuts down: its operations end, the peer gets the end of stream.
  void Shutdown(size_t side);
  // The process of the side died. `silent`: the peer gets nothing.
  void Die(size_t side, bool silent);
  // Both sides see a reset now.
  void Break();
  // A cut was healed or power came back: what stalled goes on its way.
  void Heal();
  std::string Describe() const;  // Empty if nobody waits.

 private:
  enum class Kind { kData, kEnd, kReset };
  struct Segment {
    Kind kind;
    std::vector<uint8_t> bytes;
  };
  struct End {
    End(SimEnv* env, Endpoint endpoint)
        : env(env),
          endpoint(std::move(endpoint)),
          readable(env),
          writable(env) {}
    SimEnv* const env;
    const Endpoint endpoint;
    bool closed = false;  // Shutdown() here, or the process died.
    bool reset = false;   // Nothing more in either direction.
    bool end_arrived = false;
    // Towards this end:
    std::deque<Segment> under_way;
    uint64_t stalled = 0;  // Arrivals held back by a cut.
    io::TimeNs last_arrival = 0;
    std::deque<std::vector<uint8_t>> arrived;
    size_t head = 0;  // Bytes taken from arrived.front().
    uint64_t window_used = 0;
    uint64_t unacknowledged = 0;  // Taken, but a cut holds the news back.
    io::WaitQueue readable;
    io::WaitQueue writable;  // Waits for the window towards the other end.
  };

  End& Peer(size_t side) { return ends_[1 - side]; }
  absl::Status CheckSending(size_t side) const;
  bool IsCut(size_t to_side) const;
  void Launch(size_t to_side, Segment segment);
  void PlanArrival(size_t to_side);
  void Arrive(size_t to_side);
  void Deliver(size_t to_side, Segment segment);
  // Does to the segment what hits it; false: it was dealt with.
  bool SurvivesFaults(size_t to_side, Segment* segment);
  void EndEarly(size_t to_side);
  void Acknowledge(size_t receiver_side, uint64_t bytes);
  void LoseUnsent(size_t to_side);
  uint64_t Take(End* end, io::MutableBytes to);
  void Wake(size_t side);

  Network* const network_;
  const uint64_t id_;
  std::array<End, 2> ends_;
};

}  // namespace cairn::sim
