#include "client/core/core.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "format/base/fault_points.h"
#include "format/path/errors.h"
#include "format/wire/common.pb.h"

namespace cairn::client {

using format::Method;
using io::Task;
using io::TimeNs;

Task<bool> Backoff::Pause() {
  ++attempts_;
  const TimeNs jittered = pause_ / 2 + env_->Random() % (pause_ / 2 + 1);
  pause_ = std::min(2 * pause_, kRetryPauseMax);
  const TimeNs wake = env_->NowNs() + jittered;
  if (wake >= deadline_) co_return false;
  co_await io::SleepUntil(env_, wake);
  co_return true;
}

bool IsMapChanged(const absl::Status& status) {
  return absl::IsAborted(status) &&
         absl::StartsWith(status.message(), AbslText(format::kErrMapChanged));
}

Core::Core(io::Env* env, Options options)
    : env_(env),
      options_(std::move(options)),
      gate_(env),
      write_window_(env, kWindowFloorBytes, options_.write_window_bytes),
      read_window_(env, kWindowFloorBytes, options_.read_window_bytes),
      parity_turn_(env, 1) {}

Core::~Core() { CAIRN_CHECK(meta_ == nullptr); }

TimeNs Core::Deadline(uint64_t timeout_ms) const {
  const uint64_t wanted = timeout_ms != 0 ? timeout_ms : options_.timeout_ms;
  if (wanted == 0) return io::kNoDeadline;
  return env_->NowNs() + wanted * io::kMillisecond;
}

std::unique_ptr<io::Channel> Core::MakeChannel(std::string address,
                                               std::string server_name,
                                               uint32_t target,
                                               uint32_t read_ahead_bytes) {
  io::ChannelOptions channel;
  channel.address = std::move(address);
  if (map_ != nullptr) channel.cluster_id = map_->cluster_id;
  channel.expect_target = target;
  channel.client_name = options_.name;
  channel.server_name = std::move(server_name);
  channel.read_ahead_bytes = read_ahead_bytes;
  return io::Channel::Create(env_, std::move(channel));
}

Task<absl::Status> Core::Start() {
  const TimeNs deadline = Deadline();
  meta_ =
      MakeChannel(options_.address, "metadata server", 0, kMetaReadAheadBytes);
  absl::Status status = co_await FirstContact(deadline);
  if (status.ok()) status = co_await OpenSession(deadline);
  if (!status.ok()) {
    co_await Stop();
    co_return status;
  }
  gate_.Spawn(RenewLoop());
  co_return absl::OkStatus();
}

Task<absl::Status> Core::FirstContact(TimeNs deadline) {
  wire::GetMapRequest request;
  auto response =
      co_await Query<wire::GetMapResponse>(Method::kGetMap, request, deadline);
  if (!response.ok()) co_return response.status();
  absl::StatusOr<format::ClusterMap> map =
      format::MapFromProto(response->map());
  if (!map.ok()) co_return Annotate(map.status(), "cluster map");
  map_ = std::make_shared<const format::ClusterMap>(*std::move(map));
  map_asked_at_ = env_->NowNs();
  // From here on the other side must be this very cluster.
  co_await meta_->Close();
  meta_ =
      MakeChannel(options_.address, "metadata server", 0, kMetaReadAheadBytes);
  co_return absl::OkStatus();
}

Task<absl::Status> Core::OpenSession(TimeNs deadline) {
  wire::OpenSessionRequest request;
  request.set_client(options_.name);
  request.set_nonce(env_->Random() | 1);
  auto response = co_await Query<wire::OpenSessionResponse>(
      Method::kOpenSession, request, deadline);
  if (!response.ok()) co_return response.status();
  session_ = response->session();
  lease_ms_ = response->lease_ms();
  co_return absl::OkStatus();
}

Task<void> Core::RenewLoop() {
  const TimeNs pause =
      std::max<uint64_t>(lease_ms_ / kLeaseRenewDivisor, 1) * io::kMillisecond;
  while (!stopping_.cancelled()) {
    const io::WaitResult woke = co_await io::SleepFor(env_, pause, &stopping_);
    if (woke == io::WaitResult::kCancelled) break;
    wire::RenewSessionRequest request;
    request.set_session(session_);
    // A lost session shows in the next mutation, with the server's words.
    if (CAIRN_FAULT_POINT("client.session.renewal_skipped")) continue;
    auto renewed = co_await Query<wire::RenewSessionResponse>(
        Method::kRenewSession, request, env_->NowNs() + pause);
    CAIRN_SOMETIMES(!renewed.ok(), "client.session.renewal_failed");
    if (renewed.ok() && renewed->map_epoch() > map_->epoch.value) {
      (void)co_await RefreshMap(env_->NowNs() + pause);
    }
  }
}

Task<void> Core::Stop() {
  stopping_.Cancel();
  co_await gate_.Close();
  if (session_ != 0) {
    wire::CloseSessionRequest request;
    request.set_session(std::exchange(session_, 0));
    // Best effort: the lease runs out by itself.
    (void)co_await Query<wire::CloseSessionResponse>(
        Method::kCloseSession, request, env_->NowNs() + io::kSecond);
  }
  if (meta_ != nullptr) co_await meta_->Close();
  meta_.reset();
  for (auto& [address, channel] : targets_) co_await channel->Close();
  targets_.clear();
}

namespace {
absl::Status GaveUp(const Options& options, Method method, int attempts,
                    const absl::Status& last) {
  return absl::DeadlineExceededError(absl::StrCat(
      "the metadata server ", options.address, " did not carry out ",
      AbslText(format::MethodName(method)), " in time (", attempts,
      attempts == 1 ? " attempt" : " attempts", "): ", last.message()));
}
}  // namespace

Task<absl::StatusOr<std::string>> Core::CallMeta(Method method,
                                                 std::string body,
                                                 TimeNs deadline) {
  Backoff backoff(env_, deadline);
  while (true) {
    io::CallOptions call;
    const TimeNs now = env_->NowNs();
    call.deadline = deadline - now > kMetaAttemptTimeout && deadline > now
                        ? now + kMetaAttemptTimeout
                        : deadline;
    if (CAIRN_FAULT_POINT("client.meta.no_patience")) {
      call.deadline = std::min(call.deadline, now + kNoPatience);
    }
    ++counters_.calls;
    absl::StatusOr<std::string> answer =
        co_await meta_->Call(method, body, call);
    const absl::StatusCode code = answer.status().code();
    const bool lost = code == absl::StatusCode::kUnavailable ||
                      (code == absl::StatusCode::kDeadlineExceeded &&
                       env_->NowNs() < deadline);
    CAIRN_SOMETIMES(!lost && backoff.attempts() > 0,
                    "client.meta.answered_later");
    if (answer.ok() && CAIRN_FAULT_POINT("client.meta.asked_again")) continue;
    if (!lost) co_return answer;
    ++counters_.retries;
    if (!co_await backoff.Pause()) {
      CAIRN_SOMETIMES(true, "client.meta.gave_up");
      co_return GaveUp(options_, method, backoff.attempts(), answer.status());
    }
  }
}

Task<absl::Status> Core::RefreshMap(TimeNs deadline) {
  const TimeNs now = env_->NowNs();
  if (now - map_asked_at_ < kMapRefreshPause) co_return absl::OkStatus();
  map_asked_at_ = now;
  deadline = std::min(deadline, now + kMapRefreshTimeout);
  // Addresses may change without a new epoch: always take the whole map.
  wire::GetMapRequest request;
  auto response =
      co_await Query<wire::GetMapResponse>(Method::kGetMap, request, deadline);
  if (!response.ok()) co_return response.status();
  absl::StatusOr<format::ClusterMap> map =
      format::MapFromProto(response->map());
  if (!map.ok()) co_return Annotate(map.status(), "cluster map");
  if (map->epoch >= map_->epoch) {
    map_ = std::make_shared<const format::ClusterMap>(*std::move(map));
  }
  co_return absl::OkStatus();
}

absl::StatusOr<io::Channel*> Core::TargetChannel(format::TargetId target) {
  const format::TargetInfo* info = map_->FindTarget(target);
  if (info == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat("target ", target.value, " is not in the map of epoch ",
                     map_->epoch.value));
  }
  // One connection to each loop of each server is enough to fill a core; the
  // handshake names one of its targets.
  auto& channel = targets_[{info->address, 0}];
  if (channel == nullptr) {
    channel = MakeChannel(info->address,
                          absl::StrCat("server of target ", target.value),
                          target.value, 0);
  }
  return channel.get();
}

TimeNs Core::SilentAfter() const {
  if (options_.timeout_ms == 0) return kSilentTargetAfter;
  return std::min(kSilentTargetAfter, options_.timeout_ms * io::kMillisecond /
                                          kSilentTargetDivisor);
}

void Core::NoteAnswer(CallKind kind, format::TargetId target,
                      const absl::Status& answer, TimeNs asked_at) {
  const TimeNs now = env_->NowNs();
  const TimeNs took = now - asked_at;
  const bool answered =
      !absl::IsUnavailable(answer) && !absl::IsDeadlineExceeded(answer);
  const bool slow = took >= SlowAfter(kind);
  if (answered || slow) speeds_.Note(kind, target, took);
  if (slow) ++counters_.slow_calls;
  if (!answered && took >= SilentAfter()) {
    silent_[target] = now + kSilentTargetPause;
  } else if (slow && kSlowShare * silent_.size() < speeds_.known()) {
    CAIRN_SOMETIMES(true, "client.target.slow");
    silent_[target] = now + kSilentTargetPause;
  } else if (answered && !slow) {
    silent_.erase(target);
  }
}

bool Core::MayAsk(format::TargetId target) {
  const auto silent = silent_.find(target);
  if (silent == silent_.end()) return true;
  const TimeNs now = env_->NowNs();
  CAIRN_SOMETIMES(now < silent->second, "client.read.silent_target_spared");
  if (now < silent->second) return false;
  silent->second = now + kSilentTargetPause;  // Others wait for the answer.
  return true;
}

absl::StatusOr<const format::Pool*> Core::FindPool(
    const std::string& name) const {
  if (name.empty() && !map_->pools.empty()) return &map_->pools.begin()->second;
  if (map_->pools.empty()) {
    return absl::NotFoundError(
        "the cluster has no pool yet: make one with: cairn pool create");
  }
  const format::Pool* pool = map_->FindPool(name);
  if (pool != nullptr) return pool;
  std::vector<std::string> names;
  for (const auto& [id, other] : map_->pools) names.push_back(other.name);
  return absl::NotFoundError(absl::StrCat(
      "no pool '", name, "'; there are: ", absl::StrJoin(names, ", ")));
}

uint32_t Core::ParityBuffersInFlight() const {
  uint64_t most = 0;
  for (const auto& [id, pool] : map_->pools) {
    if (pool.scheme.kind != format::SchemeKind::kReedSolomon) continue;
    const uint64_t stripes = std::max<uint64_t>(
        1, options_.write_window_bytes / pool.stripe_bytes());
    most = std::max(most, stripes * pool.scheme.parity_shards);
  }
  return static_cast<uint32_t>(std::min<uint64_t>(most, kPoolLargeBuffers));
}

void Core::NoteRepair(std::string example) {
  if (repairs_.examples.size() < kRepairExamplesMax) {
    repairs_.examples.push_back(std::move(example));
  }
}

}  // namespace cairn::client
