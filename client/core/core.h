// Core: what every client operation shares, on the cluster's loop.
//
// The metadata channel with retries and idempotent mutations, the session and
// its renewal, the cluster map, one channel to each server loop, counters.
//
// Threads:  loop only, except where noted.
// Lifetime: Stop() before destruction; it waits for all that was spawned.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "client/api/cluster.h"
#include "client/core/limits.h"
#include "client/core/target_speeds.h"
#include "client/core/window.h"
#include "format/cluster/cluster_map.h"
#include "format/wire/meta.pb.h"
#include "io/env.h"
#include "io/rpc/channel.h"

namespace cairn::client {

// Ids of mutations: ascending, and which of them the service may forget.
class MutationIds {
 public:
  uint64_t Take() {
    outstanding_.insert(next_);
    return next_++;
  }
  void Done(uint64_t request) { outstanding_.erase(request); }
  // Every smaller request has been answered.
  uint64_t DoneBelow() const {
    return outstanding_.empty() ? next_ : *outstanding_.begin();
  }

 private:
  uint64_t next_ = 1;
  std::set<uint64_t> outstanding_;
};

// Doubling pause with jitter between attempts, up to a deadline.
class Backoff {
 public:
  Backoff(io::Env* env, io::TimeNs deadline) : env_(env), deadline_(deadline) {}
  // False: the deadline is over (or would be before the pause ends).
  io::Task<bool> Pause();
  int attempts() const { return attempts_; }

 private:
  io::Env* const env_;
  const io::TimeNs deadline_;
  io::TimeNs pause_ = kRetryPauseMin;
  int attempts_ = 0;
};

// A commit was refused because PG rows that its chunks were put in have got
// other targets since: BlobWriter::Settle() on a newer map, and commit again.
bool IsMapChanged(const absl::Status& status);

class Core {
 public:
  Core(io::Env* env, Options options);
  ~Core();

  // Connects, fetches the map, opens the session.
  io::Task<absl::Status> Start();
  // Waits for what runs, closes the session and every channel.
  io::Task<void> Stop();

  io::Env* env() const { return env_; }
  const Options& options() const { return options_; }
  io::Gate* gate() { return &gate_; }
  // `timeout_ms` 0: the cluster's default (0 there: no deadline).
  io::TimeNs Deadline(uint64_t timeout_ms = 0) const;

  // --- Metadata.
  // Calls until answered, a status other than kUnavailable, or the deadline.
  io::Task<absl::StatusOr<std::string>> CallMeta(format::Method method,
                                                 std::string body,
                                                 io::TimeNs deadline);
  template <typename Response, typename Request>
  io::Task<absl::StatusOr<Response>> Query(format::Method method,
                                           Request request,
                                           io::TimeNs deadline);
  // As Query, for messages with a MutationId `id`, which is filled in here.
  template <typename Response, typename Request>
  io::Task<absl::StatusOr<Response>> Mutate(format::Method method,
                                            Request request,
                                            io::TimeNs deadline);
  uint64_t session() const { return session_; }

  // The newest metadata sequence seen; travels with chunk requests, so that
  // targets notice a metadata service that lost its memory.
  uint64_t meta_sequence() const { return meta_sequence_; }
  void NoteSequence(uint64_t sequence) {
    if (sequence > meta_sequence_) meta_sequence_ = sequence;
  }

  // --- Map and targets.
  // Its epoch only grows.
  std::shared_ptr<const format::ClusterMap> map() const { return map_; }
  // Asks for a newer map, at most every kMapRefreshPause; gives up after
  // kMapRefreshTimeout.
  io::Task<absl::Status> RefreshMap(io::TimeNs deadline);
  // kFailedPrecondition: the map has no such target.
  absl::StatusOr<io::Channel*> TargetChannel(format::TargetId target);
  // The pool by name; empty: the first. kNotFound lists the names.
  absl::StatusOr<const format::Pool*> FindPool(const std::string& name) const;

  // --- Silent targets: those that lately left a call without any answer, or
  // with one much later than their peers give theirs.
  io::TimeNs SilentAfter() const;
  // How long a call is worth waiting for while others could be asked.
  io::TimeNs SlowAfter(CallKind kind) const {
    return speeds_.SlowAfter(kind, SilentAfter());
  }
  // After a call: `answer`, if there was one, has any status of the target's.
  void NoteAnswer(CallKind kind, format::TargetId target,
                  const absl::Status& answer, io::TimeNs asked_at);
  bool IsSilent(format::TargetId target) const {
    return silent_.contains(target);
  }
  // May a read that can go around the target ask it? Not if it is silent, but
  // for one caller in kSilentTargetPause.
  bool MayAsk(format::TargetId target);
  // Full targets: those that refused a put for want of space lately.
  void NoteFull(format::TargetId target) {
    full_[target] = env_->NowNs() + kFullTargetPause;
  }
  bool IsFull(format::TargetId target) const {
    const auto full = full_.find(target);
    return full != full_.end() && env_->NowNs() < full->second;
  }

  // --- Windows: bytes of chunks in flight.
  AdaptiveWindow* write_window() { return &write_window_; }
  AdaptiveWindow* read_window() { return &read_window_; }
  // Held while the parity buffers of one stripe (or those of one recovery) are
  // gathered, so that two never wait for each other's.
  io::Semaphore* parity_turn() { return &parity_turn_; }

  // Parity buffers that writes to any pool of the map hold at most.
  uint32_t ParityBuffersInFlight() const;

  IoCounters* counters() { return &counters_; }
  RepairReport* repairs() { return &repairs_; }
  void NoteRepair(std::string example);

 private:
  io::Task<absl::Status> FirstContact(io::TimeNs deadline);
  io::Task<absl::Status> OpenSession(io::TimeNs deadline);
  io::Task<void> RenewLoop();
  std::unique_ptr<io::Channel> MakeChannel(std::string address,
                                           std::string server_name,
                                           uint32_t target,
                                           uint32_t read_ahead_bytes);

  io::Env* const env_;
  const Options options_;
  io::Gate gate_;
  io::CancelToken stopping_;
  std::unique_ptr<io::Channel> meta_;
  std::map<std::pair<std::string, uint32_t>, std::unique_ptr<io::Channel>>
      targets_;
  std::shared_ptr<const format::ClusterMap> map_;
  io::TimeNs map_asked_at_ = 0;
  std::map<format::TargetId, io::TimeNs> silent_;  // When to ask it again.
  std::map<format::TargetId, io::TimeNs> full_;    // Likewise.
  TargetSpeeds speeds_;
  MutationIds mutations_;
  uint64_t session_ = 0;
  uint64_t lease_ms_ = 0;
  uint64_t meta_sequence_ = 0;
  AdaptiveWindow write_window_;
  AdaptiveWindow read_window_;
  io::Semaphore parity_turn_;
  IoCounters counters_;
  RepairReport repairs_;
};

template <typename Response, typename Request>
io::Task<absl::StatusOr<Response>> Core::Query(format::Method method,
                                               Request request,
                                               io::TimeNs deadline) {
  absl::StatusOr<std::string> body =
      co_await CallMeta(method, request.SerializeAsString(), deadline);
  if (!body.ok()) co_return body.status();
  Response response;
  if (!response.ParseFromString(*body)) {
    co_return absl::DataLossError("malformed answer from the metadata server");
  }
  if constexpr (requires { response.sequence(); }) {
    NoteSequence(response.sequence());
  }
  co_return response;
}

template <typename Response, typename Request>
io::Task<absl::StatusOr<Response>> Core::Mutate(format::Method method,
                                                Request request,
                                                io::TimeNs deadline) {
  const uint64_t number = mutations_.Take();
  request.mutable_id()->set_session(session_);
  request.mutable_id()->set_request(number);
  request.mutable_id()->set_done_below(mutations_.DoneBelow());
  absl::StatusOr<Response> response =
      co_await Query<Response>(method, std::move(request), deadline);
  mutations_.Done(number);
  co_return response;
}

}  // namespace cairn::client
