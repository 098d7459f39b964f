// The half of Sessions that makes mutations take effect at most once.
#include "format/base/fault_points.h"
#include "server/meta/sessions.h"

namespace cairn::server {

using format::SessionId;

// What survives from one try of a mutation to the next.
struct Sessions::Attempt {
  wire::MutationId id;
  MutationBody body;
  // Of a commit whose outcome is unknown: due if it turns out to have happened.
  std::vector<std::function<void()>> unknown_hooks;
  uint32_t number = 0;
};

absl::Status Sessions::Lost(uint64_t session) const {
  return absl::AbortedError(
      absl::StrCat("session ", session,
                   " is lost: it was closed, or its lease ran out; reconnect"));
}

Sessions::Session* Sessions::FindLive(SessionId id) {
  const auto place = sessions_.find(id.value);
  if (place == sessions_.end() || place->second.fenced) return nullptr;
  return &place->second;
}

bool Sessions::IsLive(SessionId session) const {
  const auto place = sessions_.find(session.value);
  return place != sessions_.end() && !place->second.fenced;
}

std::string Sessions::ClientOf(SessionId session) const {
  const auto place = sessions_.find(session.value);
  return place == sessions_.end() ? std::string() : place->second.client;
}

absl::Status Sessions::ExpectLive(SessionId session, Txn* txn) const {
  const auto place = sessions_.find(session.value);
  if (place == sessions_.end() || place->second.fenced) {
    return Lost(session.value);
  }
  txn->Expect(format::SessionKey(session), place->second.version);
  return absl::OkStatus();
}

io::Task<absl::Status> Sessions::Enter(wire::MutationId id) {
  if (id.request() == 0) {
    co_return absl::InvalidArgumentError("a mutation without a request id");
  }
  while (true) {
    Session* const session = FindLive(SessionId(id.session()));
    CAIRN_SOMETIMES(session == nullptr, "meta.mutation.session_lost");
    if (session == nullptr) co_return Lost(id.session());
    session->deadline = core_->env->NowNs() + core_->options.lease_ns;
    // A delayed copy of a request whose answer the client has: doing it again
    // would be a second effect.
    if (id.request() < session->done_below) {
      co_return absl::AbortedError(
          absl::StrCat("request ", id.request(), " was answered before"));
    }
    const auto twin = session->in_flight.find(id.request());
    if (twin == session->in_flight.end()) {
      if (session->in_flight.size() >= kMutationsInFlightMax ||
          CAIRN_FAULT_POINT("meta.mutation.too_many")) {
        co_return absl::UnavailableError(
            "too many requests of one session at once; try again");
      }
      session->in_flight.emplace(id.request(),
                                 std::make_shared<io::Event>(core_->env));
      session->done_below = std::max(session->done_below, id.done_below());
      co_return absl::OkStatus();
    }
    const std::shared_ptr<io::Event> done = twin->second;
    co_await done->Wait();
    CAIRN_SOMETIMES(true, "meta.mutation.twin_awaited");
  }
}

void Sessions::Leave(const wire::MutationId& id) {
  const auto place = sessions_.find(id.session());
  if (place == sessions_.end()) return;  // Reclaim() woke the twins.
  const auto own = place->second.in_flight.find(id.request());
  if (own == place->second.in_flight.end()) return;
  own->second->Set();
  place->second.in_flight.erase(own);
}

io::Task<absl::StatusOr<std::string>> Sessions::MutateBytes(wire::MutationId id,
                                                            MutationBody body) {
  const io::Gate::Hold hold = core_->gate.Enter();
  CAIRN_CO_RETURN_IF_ERROR(co_await Enter(id));
  absl::StatusOr<std::string> response =
      co_await RunAttempts(id, std::move(body));
  Leave(id);
  co_return response;
}

io::Task<absl::StatusOr<std::string>> Sessions::RunAttempts(wire::MutationId id,
                                                            MutationBody body) {
  Attempt attempt;
  attempt.id = id;
  attempt.body = std::move(body);
  absl::Status unknown;
  for (; attempt.number < kTxnAttemptsMax; ++attempt.number) {
    co_await Backoff(core_, attempt.number);
    absl::StatusOr<std::string> response = co_await RunOnce(&attempt);
    CAIRN_SOMETIMES(response.ok() && attempt.number > 0,
                    "meta.mutation.repeated");
    if (response.ok()) co_return response;
    if (IsConflict(response.status())) continue;
    // The result record tells, at the next try, whether it happened.
    if (!absl::IsUnavailable(response.status()) ||
        attempt.unknown_hooks.empty()) {
      co_return response;
    }
    unknown = response.status();
  }
  co_return unknown.ok() ? TooBusy() : unknown;
}

io::Task<absl::StatusOr<std::string>> Sessions::RunOnce(Attempt* attempt) {
  const SessionId id(attempt->id.session());
  const uint64_t request = attempt->id.request();
  const std::string result_key = format::ResultKey(id, request);
  const Session* session = FindLive(id);
  if (session == nullptr) co_return Lost(id.value);

  Txn txn(core_->kv);
  const bool look_up = CAIRN_FAULT_POINT("meta.mutation.result_looked_up");
  if (attempt->number == 0 && !session->results.contains(request) && !look_up) {
    txn.Expect(result_key, 0);  // All stored results are known: no read.
  } else {
    const absl::StatusOr<std::optional<store::Result>> stored =
        co_await txn.Get<store::Result>(result_key);
    if (!stored.ok()) co_return stored.status();
    if (stored->has_value()) {
      CAIRN_SOMETIMES(attempt->number == 0, "meta.mutation.answered_before");
      CAIRN_SOMETIMES(attempt->number > 0, "meta.commit.unknown_resolved");
      for (const auto& hook : std::exchange(attempt->unknown_hooks, {})) hook();
      CAIRN_CO_RETURN_IF_ERROR(
          co_await core_->kv->AwaitDurable(txn.read_sequence()));
      co_return (*stored)->response();
    }
  }

  absl::StatusOr<std::string> response = co_await attempt->body(&txn);
  if (!response.ok()) response = co_await txn.Confirm(response.status());
  if (IsConflict(response.status())) co_return response;
  if (!response.ok() || !txn.HasWrites()) {
    // Also an error says something about the state: only about a durable one.
    CAIRN_CO_RETURN_IF_ERROR(
        co_await core_->kv->AwaitDurable(txn.read_sequence()));
    co_return response;
  }
  CAIRN_CO_RETURN_IF_ERROR(ExpectLive(id, &txn));
  AddResult(attempt->id, *response, &txn);
  const absl::StatusOr<uint64_t> committed = co_await txn.Commit();
  if (committed.ok() && CAIRN_FAULT_POINT("meta.mutation.late_answer")) {
    co_await io::SleepFor(core_->env, kLateCommitNs);
  }
  if (committed.ok()) co_return response;
  if (absl::IsUnavailable(committed.status())) {
    attempt->unknown_hooks = txn.TakeHooks();
  }
  co_return committed.status();
}

void Sessions::AddResult(const wire::MutationId& id,
                         const std::string& response, Txn* txn) {
  Session* const session = FindLive(SessionId(id.session()));
  CAIRN_CHECK(session != nullptr);  // ExpectLive() passed just now.
  store::Result result;
  result.set_response(response);
  result.set_done_below(session->done_below);
  txn->Put(format::ResultKey(SessionId(id.session()), id.request()), result);

  std::vector<uint64_t> forgotten;
  const size_t most = CAIRN_FAULT_POINT("meta.mutation.results_kept")
                          ? 0
                          : kResultsForgottenPerTxn;
  for (const uint64_t old : session->results) {
    if (old >= session->done_below || txn->ops() + 1 >= kKvOpsMax ||
        forgotten.size() == most) {
      break;
    }
    txn->Delete(format::ResultKey(SessionId(id.session()), old));
    forgotten.push_back(old);
  }
  txn->OnCommit([this, session = id.session(), request = id.request(),
                 forgotten = std::move(forgotten)] {
    const auto place = sessions_.find(session);
    if (place == sessions_.end()) return;
    place->second.results.insert(request);
    for (const uint64_t old : forgotten) place->second.results.erase(old);
  });
}

}  // namespace cairn::server
