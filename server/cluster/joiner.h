// Joiner: the side of a target's process that joins the cluster: says to the
// metadata service which targets it has opened, lets the TargetService serve
// those that are let in, and no others. docs/format/membership.md.
//
// Order:    nothing is served before the admission is on the target's disk and
//           confirmed by the metadata service.
// Retries:  for ever, while metadata is away; what was let in is served
//           meanwhile. A target that was turned away asks again now and then.
// Fence:    every kJoinRefreshNs each target asks again. One that is turned
//           away later (its disk was copied, it was removed) is served no more.
// Log:      each change once; that metadata is away, first and then seldom.
// Threads:  one loop, that of `env`, `service` and the stores.
// Lifetime: Close() before destruction (checked); `env` and `service` outlive
//           it, the stores outlive `service`.
#pragma once

#include <list>
#include <memory>
#include <string>
#include <vector>

#include "format/wire/member.pb.h"
#include "io/rpc/channel.h"
#include "server/target/target_service.h"

namespace cairn::server {

inline constexpr io::TimeNs kJoinRefreshNs = 5 * io::kSecond;
// After a failure to reach metadata: from the first to the second, doubling.
inline constexpr io::TimeNs kJoinRetryMinNs = 100 * io::kMillisecond;
inline constexpr io::TimeNs kJoinRetryMaxNs = 5 * io::kSecond;
inline constexpr io::TimeNs kJoinCallNs = 10 * io::kSecond;
// Who was turned away may have been put right meanwhile.
inline constexpr io::TimeNs kTurnedAwayPauseNs = 15 * io::kSecond;
inline constexpr io::TimeNs kJoinLogPauseNs = 30 * io::kSecond;
// Numbers granted one after the other before a pause is made: another process
// is being granted them in turn.
inline constexpr uint32_t kGrantsInARowMax = 4;

struct JoinerOptions {
  std::string meta_address;
  std::string address;  // Where `service` is served.
  std::string host;     // Empty: what the cluster knows stays.
  std::string rack;
  std::string process;  // For the log of the metadata service.
  io::TimeNs refresh_ns = kJoinRefreshNs;
};

class Joiner {
 public:
  Joiner(io::Env* env, TargetService* service, JoinerOptions options);
  ~Joiner();

  // Joins with `store`, which `service` does not serve yet.
  void Add(ChunkStore* store, std::string directory);

  // Until each target was let in or turned away at least once (true), the
  // deadline, or Close().
  io::Task<bool> AwaitDecided(io::TimeNs deadline = io::kNoDeadline);
  bool decided() const;

  struct State {
    format::TargetId target;
    bool served = false;
    bool in_map = false;  // Pools may use it.
    std::string problem;  // Why it is not served, or metadata is not reached.
  };
  std::vector<State> states() const;

  // Ends the asking. What is served stays so.
  io::Task<void> Close();

 private:
  struct Claim {
    ChunkStore* store = nullptr;
    std::string directory;
    uint64_t incarnation = 0;
    State state;
    bool decided = false;
    uint32_t grants = 0;      // In a row.
    uint32_t failures = 0;    // In a row.
    io::TimeNs last_log = 0;  // That metadata is away.
  };

  io::Task<void> Keep(Claim* claim);
  // One question; how long to wait before the next.
  io::Task<io::TimeNs> Step(Claim* claim);
  io::Task<absl::StatusOr<wire::RegisterTargetResponse>> Ask(
      const Claim* claim);
  io::Task<io::TimeNs> TakeGrant(Claim* claim, uint64_t admission);
  void Serve(Claim* claim, bool in_map);
  void TurnAway(Claim* claim, std::string reason);
  io::TimeNs NoteFailure(Claim* claim, const absl::Status& status);
  void Decide(Claim* claim);

  io::Env* const env_;
  TargetService* const service_;
  const JoinerOptions options_;
  std::unique_ptr<io::Channel> meta_;
  std::list<Claim> claims_;  // Addresses stay.
  io::Event decided_;
  io::CancelToken stopping_;
  bool closed_ = false;
  io::Gate gate_;
};

}  // namespace cairn::server
