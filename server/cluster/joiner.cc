#include "server/cluster/joiner.h"

#include <algorithm>
#include <utility>

#include "format/cluster/membership.h"
#include "spdlog/spdlog.h"

namespace cairn::server {

using format::JoinVerdict;
using io::TimeNs;

namespace {

// Of the handshake. Metadata's own cluster id is not expected: a disk that is
// in the wrong cluster shall be known there.
io::ChannelOptions MetaChannel(const JoinerOptions& options) {
  io::ChannelOptions channel;
  channel.address = options.meta_address;
  channel.client_name = options.process;
  channel.server_name = "metadata";
  return channel;
}

}  // namespace

Joiner::Joiner(io::Env* env, TargetService* service, JoinerOptions options)
    : env_(env),
      service_(service),
      options_(std::move(options)),
      meta_(io::Channel::Create(env, MetaChannel(options_))),
      decided_(env),
      gate_(env) {}

Joiner::~Joiner() { CAIRN_CHECK(closed_); }

void Joiner::Add(ChunkStore* store, std::string directory) {
  CAIRN_CHECK(!closed_);
  Claim& claim = claims_.emplace_back();
  claim.store = store;
  claim.directory = std::move(directory);
  claim.incarnation = env_->Random() | 1;
  claim.state.target = store->identity().target_id;
  claim.state.problem = "has not asked the metadata service yet";
  decided_.Reset();
  gate_.Spawn(Keep(&claim));
}

io::Task<bool> Joiner::AwaitDecided(TimeNs deadline) {
  while (!decided() && !stopping_.cancelled() && env_->NowNs() < deadline) {
    (void)co_await decided_.Wait(deadline, &stopping_);
  }
  co_return decided();
}

bool Joiner::decided() const {
  return std::all_of(claims_.begin(), claims_.end(),
                     [](const Claim& claim) { return claim.decided; });
}

std::vector<Joiner::State> Joiner::states() const {
  std::vector<State> states;
  for (const Claim& claim : claims_) states.push_back(claim.state);
  return states;
}

io::Task<void> Joiner::Keep(Claim* claim) {
  while (!stopping_.cancelled()) {
    const TimeNs pause = co_await Step(claim);
    if (pause != 0) co_await io::SleepFor(env_, pause, &stopping_);
  }
}

io::Task<TimeNs> Joiner::Step(Claim* claim) {
  const absl::StatusOr<wire::RegisterTargetResponse> answer =
      co_await Ask(claim);
  if (stopping_.cancelled()) co_return 0;
  if (!answer.ok()) co_return NoteFailure(claim, answer.status());
  if (claim->failures > 0 && claim->last_log != 0) {
    spdlog::info("target {}: the metadata service at {} answers",
                 claim->state.target.value, options_.meta_address);
  }
  claim->failures = 0;
  claim->last_log = 0;
  switch (static_cast<JoinVerdict>(answer->verdict())) {
    case JoinVerdict::kGranted:
      co_return co_await TakeGrant(claim, answer->admission());
    case JoinVerdict::kAdmitted:
      Serve(claim, answer->in_map());
      co_return options_.refresh_ns;
    case JoinVerdict::kQuarantined:
      TurnAway(claim, answer->reason());
      co_return kTurnedAwayPauseNs;
  }
  const absl::Status unknown = absl::FailedPreconditionError(absl::StrCat(
      "the metadata service gave verdict ", answer->verdict(),
      ", which this program does not know: use programs of one version"));
  co_return NoteFailure(claim, unknown);
}

io::Task<absl::StatusOr<wire::RegisterTargetResponse>> Joiner::Ask(
    const Claim* claim) {
  const TargetIdentity& identity = claim->store->identity();
  const StoreStats stats = claim->store->stats();
  wire::RegisterTargetRequest request;
  request.set_cluster_id(identity.cluster_id.bytes.data(),
                         identity.cluster_id.bytes.size());
  request.set_target(identity.target_id.value);
  request.set_disk_generation(identity.disk_generation);
  request.set_admission(identity.admission);
  request.set_incarnation(claim->incarnation);
  request.set_address(options_.address);
  request.set_host(options_.host);
  request.set_rack(options_.rack);
  request.set_directory(claim->directory);
  request.set_capacity_bytes(stats.capacity_bytes);
  request.set_meta_sequence(stats.meta_sequence);
  io::CallOptions call;
  call.deadline = env_->NowNs() + kJoinCallNs;
  co_return co_await io::CallProto<wire::RegisterTargetResponse>(
      meta_.get(), format::Method::kRegisterTarget, request, call);
}

io::Task<TimeNs> Joiner::TakeGrant(Claim* claim, uint64_t admission) {
  const absl::Status written = co_await claim->store->SetAdmission(admission);
  if (!written.ok()) {
    // Only this disk is ill: the others of the process go on.
    Decide(claim);
    const absl::Status told = Annotate(
        written,
        absl::StrCat("writing the admission down in ", claim->directory));
    co_return NoteFailure(claim, told);
  }
  if (++claim->grants < kGrantsInARowMax) co_return 0;
  co_return kJoinRetryMinNs + env_->Random() % kJoinRetryMinNs;
}

void Joiner::Serve(Claim* claim, bool in_map) {
  claim->grants = 0;
  const bool news = !claim->state.served || claim->state.in_map != in_map;
  if (!claim->state.served) {
    service_->AddStore(claim->store, claim->incarnation);
  }
  claim->state.served = true;
  claim->state.in_map = in_map;
  claim->state.problem.clear();
  Decide(claim);
  if (!news) return;
  const uint32_t target = claim->state.target.value;
  spdlog::info(
      "target {} joined: {} serves at {}, admission {}{}", target,
      claim->directory, options_.address, claim->store->identity().admission,
      in_map ? std::string()
             : absl::StrCat("; not in service yet: cairn target add ", target));
}

void Joiner::TurnAway(Claim* claim, std::string reason) {
  claim->grants = 0;
  const bool news = claim->state.served || claim->state.problem != reason;
  if (claim->state.served) {
    service_->RemoveStore(claim->state.target.value);
    // What comes back is a new start of the target.
    claim->incarnation = env_->Random() | 1;
  }
  claim->state.served = false;
  claim->state.in_map = false;
  claim->state.problem = std::move(reason);
  Decide(claim);
  if (!news) return;
  spdlog::error("target {} is quarantined and serves nothing: {}",
                claim->state.target.value, claim->state.problem);
}

TimeNs Joiner::NoteFailure(Claim* claim, const absl::Status& status) {
  const uint32_t doublings = std::min(claim->failures++, 16u);
  const TimeNs ceiling =
      std::min(kJoinRetryMinNs << doublings, kJoinRetryMaxNs);
  const TimeNs now = env_->NowNs();
  if (!claim->state.served) {
    claim->state.problem = std::string(status.message());
  }
  // The first that fails is often a restart on the other side.
  const bool tell = claim->last_log == 0
                        ? claim->failures > 2 || !absl::IsUnavailable(status)
                        : now - claim->last_log >= kJoinLogPauseNs;
  if (tell) {
    claim->last_log = now;
    spdlog::warn("target {} {}: {}; asking again", claim->state.target.value,
                 claim->state.served ? "is served, but its metadata service "
                                       "does not confirm it"
                                     : "waits for its metadata service",
                 StdText(status.message()));
  }
  return ceiling / 2 + env_->Random() % (ceiling / 2 + 1);
}

void Joiner::Decide(Claim* claim) {
  claim->decided = true;
  if (decided()) decided_.Set();
}

io::Task<void> Joiner::Close() {
  CAIRN_CHECK(!closed_);
  closed_ = true;
  stopping_.Cancel();
  co_await meta_->Close();
  co_await gate_.Close();
}

}  // namespace cairn::server
