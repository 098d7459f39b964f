// Sessions: leases of clients, and mutations that take effect at most once.
//
// Lease:       renewed in memory by each renewal and mutation. After a restart
//              of the service every session gets a whole lease again.
// Fence:       a session that ends is first marked so in the store. From then
//              on nothing of it commits, because every mutation expects the
//              session's record; only then is what it owned reclaimed.
// Idempotency: a mutation's answer is stored in the transaction of its effects
//              under (session, request) and given again when it is repeated.
//              An error has no effect and is not stored.
// Threads:     one loop.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "format/wire/meta.pb.h"
#include "server/meta/core.h"

namespace cairn::server {

class Sessions {
 public:
  explicit Sessions(Core* core) : core_(core) {}

  // Loads all sessions with fresh leases; goes on reclaiming fenced ones.
  io::Task<absl::Status> Load();
  // Fences those whose lease is over; until core->stopping.
  io::Task<void> ExpireLoop();

  // A repeat with the same client and nonce gives the same session.
  io::Task<absl::StatusOr<wire::OpenSessionResponse>> Open(
      wire::OpenSessionRequest request);
  // kAborted: the session is lost.
  io::Task<absl::StatusOr<wire::RenewSessionResponse>> Renew(
      wire::RenewSessionRequest request);
  // OK also if it is closed already.
  io::Task<absl::StatusOr<wire::CloseSessionResponse>> Close(
      wire::CloseSessionRequest request);
  io::Task<absl::StatusOr<wire::AllocateBlobsResponse>> AllocateBlobs(
      wire::AllocateBlobsRequest request);

  // False also for unknown ones.
  bool IsLive(format::SessionId session) const;
  // "host/pid/name", for messages; empty: unknown.
  std::string ClientOf(format::SessionId session) const;
  uint64_t count() const { return sessions_.size(); }

  // Makes a transaction fail if the session is fenced meanwhile.
  // kAborted: it is not alive.
  absl::Status ExpectLive(format::SessionId session, Txn* txn) const;

  // Carries out a mutation: gives the stored answer if there is one, else runs
  // `body` (again on conflicts) and commits what it put into the Txn together
  // with its answer. A body may write nothing; then nothing is stored.
  using MutationBody =
      std::function<io::Task<absl::StatusOr<std::string>>(Txn* txn)>;
  io::Task<absl::StatusOr<std::string>> MutateBytes(wire::MutationId id,
                                                    MutationBody body);

 private:
  struct Session {
    std::string client;
    uint64_t nonce = 0;
    uint64_t version = 0;  // Of its record.
    io::TimeNs deadline = 0;
    bool fenced = false;
    uint64_t done_below = 0;
    std::set<uint64_t> results;  // Requests whose answers are stored.
    // shared: twins wait on it after the first has gone.
    std::map<uint64_t, std::shared_ptr<io::Event>> in_flight;
  };
  struct Attempt;

  Session* FindLive(format::SessionId id);
  absl::Status Lost(uint64_t session) const;
  io::Task<absl::Status> LoadResults(uint64_t id, Session* session);
  io::Task<absl::StatusOr<wire::OpenSessionResponse>> MakeSession(
      wire::OpenSessionRequest request);
  io::Task<absl::StatusOr<uint64_t>> PutSession(
      uint64_t id, const wire::OpenSessionRequest* request);
  io::Task<absl::StatusOr<wire::AllocateBlobsResponse>> AllocateIn(
      Txn* txn, const wire::AllocateBlobsRequest* request);

  // Validates, and waits while the same request is being carried out.
  io::Task<absl::Status> Enter(wire::MutationId id);
  void Leave(const wire::MutationId& id);
  io::Task<absl::StatusOr<std::string>> RunAttempts(wire::MutationId id,
                                                    MutationBody body);
  io::Task<absl::StatusOr<std::string>> RunOnce(Attempt* attempt);
  void AddResult(const wire::MutationId& id, const std::string& response,
                 Txn* txn);

  io::Task<void> ExpireDue();
  io::Task<absl::Status> Fence(uint64_t session);
  io::Task<absl::Status> FenceIn(Txn* txn, uint64_t session);
  // Gives up what a fenced session owned, then forgets it.
  io::Task<void> Reclaim(uint64_t session);
  io::Task<absl::Status> ReclaimBlobs(uint64_t session);
  io::Task<absl::Status> DisownPage(Txn* txn, uint64_t session);

  Core* const core_;
  std::map<uint64_t, Session> sessions_;
  // Opens in flight, so that twins do not make two sessions.
  std::map<std::pair<std::string, uint64_t>, std::shared_ptr<io::Event>>
      opening_;
  std::map<std::pair<std::string, uint64_t>, uint64_t> by_nonce_;
  std::set<uint64_t> reclaiming_;
};

template <typename Owner, typename Request, typename Response>
io::Task<absl::StatusOr<std::string>> RunMutationBody(
    Owner* owner,
    io::Task<absl::StatusOr<Response>> (Owner::*body)(Txn*, const Request*),
    Txn* txn, const Request* request) {
  absl::StatusOr<Response> response = co_await (owner->*body)(txn, request);
  if (!response.ok()) co_return response.status();
  co_return response->SerializeAsString();
}

// As MutateBytes, with messages. `body` is run with a pointer to the request.
template <typename Owner, typename Request, typename Response>
io::Task<absl::StatusOr<Response>> MutateOp(
    Sessions* sessions, Owner* owner,
    io::Task<absl::StatusOr<Response>> (Owner::*body)(Txn*, const Request*),
    Request request) {
  const Request* const asked = &request;
  Sessions::MutationBody run = [owner, body, asked](Txn* txn) {
    return RunMutationBody(owner, body, txn, asked);
  };
  const absl::StatusOr<std::string> bytes =
      co_await sessions->MutateBytes(request.id(), std::move(run));
  if (!bytes.ok()) co_return bytes.status();
  Response response;
  if (!response.ParseFromString(*bytes)) {
    co_return absl::DataLossError("a stored answer does not parse");
  }
  co_return response;
}

}  // namespace cairn::server
