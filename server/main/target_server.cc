#include "server/main/target_server.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "server/main/listen.h"

namespace cairn::server {

using io::Task;

namespace {

struct Claimed {
  std::string directory;
  std::optional<uint32_t> expected;
  TargetIdentity identity;
};

// "DIR" or "ID=DIR".
absl::StatusOr<Claimed> ParseDirectory(const std::string& text) {
  Claimed claimed;
  std::string directory = text;
  const size_t equals = text.find('=');
  uint32_t id = 0;
  if (equals != std::string::npos &&
      absl::SimpleAtoi(text.substr(0, equals), &id)) {
    claimed.expected = id;
    directory = text.substr(equals + 1);
  }
  if (directory.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", text, "\": give DIR, or ID=DIR"));
  }
  auto path = std::filesystem::absolute(directory).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  claimed.directory = path.string();
  return claimed;
}

Task<absl::Status> ReadIdentities(io::Env* env, std::vector<Claimed>* claims) {
  for (Claimed& claimed : *claims) {
    absl::StatusOr<TargetIdentity> identity =
        co_await ReadTargetIdentity(env, claimed.directory);
    if (!identity.ok()) {
      if (!absl::IsNotFound(identity.status())) co_return identity.status();
      co_return absl::NotFoundError(absl::StrCat(
          claimed.directory,
          " is not a target: it has no superblock. Mount the disk that belongs "
          "here, or format an empty directory with: cairnd format --meta "
          "HOST:PORT ",
          claimed.directory));
    }
    claimed.identity = *identity;
  }
  co_return absl::OkStatus();
}

Task<void> RunRead(io::Env* env, std::vector<Claimed>* claims,
                   absl::Status* result) {
  *result = co_await ReadIdentities(env, claims);
}

absl::Status CheckClaims(const std::vector<Claimed>& claims) {
  std::map<format::TargetId, std::string> seen;
  for (const Claimed& claimed : claims) {
    const format::TargetId id = claimed.identity.target_id;
    if (claimed.expected && *claimed.expected != id.value) {
      return absl::FailedPreconditionError(absl::StrCat(
          claimed.directory, " is target ", id.value, ", not target ",
          *claimed.expected,
          ": disks were swapped. Mount the right disk there, or say ", id.value,
          "=", claimed.directory));
    }
    const format::ClusterId& first = claims.front().identity.cluster_id;
    if (claimed.identity.cluster_id != first) {
      return absl::FailedPreconditionError(
          absl::StrCat(claimed.directory, " is a disk of cluster ",
                       ToString(claimed.identity.cluster_id), ", but ",
                       claims.front().directory, " is one of ", ToString(first),
                       ": start a process for each cluster"));
    }
    const auto [place, added] = seen.emplace(id, claimed.directory);
    if (!added) {
      return absl::FailedPreconditionError(absl::StrCat(
          place->second, " and ", claimed.directory,
          " both claim to be target ", id.value,
          ": one is a copy of the other. Give only the one that was in use "
          "last"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Claimed>> FindTargets(
    const TargetServerOptions& options) {
  std::vector<Claimed> claims;
  for (const std::string& text : options.directories) {
    CAIRN_ASSIGN_OR_RETURN(Claimed claimed, ParseDirectory(text));
    claims.push_back(std::move(claimed));
  }
  if (claims.empty()) {
    return absl::InvalidArgumentError("no directory was given");
  }
  io::LoopOptions loop;
  loop.backend = options.backend;
  loop.pool_large_buffers = 1;
  CAIRN_ASSIGN_OR_RETURN(std::unique_ptr<io::RealEnv> env,
                         io::MakeRealEnv(loop));
  absl::Status read;
  env->RunUntilDone(RunRead(env.get(), &claims, &read));
  CAIRN_RETURN_IF_ERROR(read);
  CAIRN_RETURN_IF_ERROR(CheckClaims(claims));
  return claims;
}

absl::Status CheckReachable(const TargetServerOptions& options) {
  CAIRN_RETURN_IF_ERROR(CheckListenAddress(options.listen, options.insecure));
  const std::string host = HostOf(options.listen);
  const bool any = host == "0.0.0.0" || host == "[::]";
  if (!any || !options.advertise_host.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "--listen ", options.listen,
      " does not say under which name others reach this machine: add "
      "--advertise HOST"));
}

uint16_t PortOf(const std::string& listen) {
  uint32_t port = 0;
  CAIRN_CHECK(absl::SimpleAtoi(listen.substr(listen.rfind(':') + 1), &port));
  return static_cast<uint16_t>(port);
}

}  // namespace

absl::StatusOr<std::unique_ptr<TargetServer>> TargetServer::Start(
    TargetServerOptions options) {
  CAIRN_RETURN_IF_ERROR(CheckReachable(options));
  CAIRN_ASSIGN_OR_RETURN(const std::vector<Claimed> claims,
                         FindTargets(options));
  std::vector<TargetPlace> places;
  for (const Claimed& claimed : claims) {
    TargetPlace place;
    place.id = claimed.identity.target_id;
    place.directory = claimed.directory;
    place.disk_generation = claimed.identity.disk_generation;
    places.push_back(std::move(place));
  }
  DataLoopPlan plan;
  plan.listen = options.listen;
  plan.advertise_host = options.advertise_host;
  plan.port = PortOf(options.listen);
  plan.memory_bytes = options.memory_bytes;
  plan.cluster_id = claims.front().identity.cluster_id;
  plan.scrub = options.scrub;
  plan.tolerate_bad_disks = places.size() > 1;
  plan.backend = options.backend;
  std::unique_ptr<TargetServer> server(new TargetServer());
  server->targets_ = places.size();
  const uint32_t loops = PickLoops(options.loops, places.size());
  for (uint32_t loop = 0; loop < loops; ++loop) {
    CAIRN_ASSIGN_OR_RETURN(
        std::unique_ptr<DataLoop> data,
        DataLoop::Start(PlanDataLoop(plan, places, loop, loops)));
    server->data_.push_back(std::move(data));
  }
  for (const auto& data : server->data_) {
    JoinerOptions join;
    join.meta_address = options.meta_address;
    join.host = options.host.empty() ? HostName() : options.host;
    join.rack = options.rack;
    data->Join(std::move(join));
  }
  return server;
}

TargetServer::State TargetServer::state() {
  State state;
  state.decided = true;
  for (const auto& data : data_) {
    const DataLoop::JoinStates states = data->join_states();
    state.decided = state.decided && states.decided;
    for (const Joiner::State& target : states.targets) {
      if (target.served) {
        ++state.served;
      } else {
        state.problems.push_back(
            absl::StrCat("target ", target.target.value, ": ", target.problem));
      }
    }
  }
  return state;
}

}  // namespace cairn::server
