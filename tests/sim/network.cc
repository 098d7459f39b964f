#include "tests/sim/network.h"

#include <algorithm>
#include <charconv>
#include <vector>

#include "tests/sim/connection.h"
#include "tests/sim/sim_stream.h"
#include "tests/sim/world.h"

namespace cairn::sim {
namespace {

constexpr uint16_t kFirstFreePort = 32768;
constexpr std::string_view kHostPrefix = "10.0.0.";
constexpr std::string_view kUnixPrefix = "unix:";

// Within one machine, packets are faster.
constexpr uint64_t kLocalSpeedup = 10;

std::optional<uint32_t> ParseNumber(std::string_view text) {
  uint32_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end) return std::nullopt;
  return value;
}

}  // namespace

std::string ToString(const Endpoint& endpoint) {
  if (!endpoint.unix_path.empty()) {
    return absl::StrCat(AbslText(kUnixPrefix), endpoint.unix_path);
  }
  return World::Address(endpoint.node, endpoint.port);
}

Network::Network(World* world, NetworkOptions options, uint64_t seed)
    : world_(world),
      options_(options),
      random_(seed),
      faults_(sim::Random::Mix(~seed)) {
  CAIRN_CHECK(options.window_bytes > 0 && options.segment_bytes_max > 0);
}

void Network::AddNode(NodeId node) {
  nodes_.insert(node);
  next_port_[node] = kFirstFreePort;
}

absl::StatusOr<Endpoint> Network::Parse(NodeId self,
                                        std::string_view address) const {
  const absl::Status bad = absl::InvalidArgumentError(absl::StrCat(
      "not an address of the simulated network: \"", AbslText(address), "\""));
  Endpoint endpoint;
  endpoint.node = self;
  if (address.starts_with(kUnixPrefix)) {
    endpoint.unix_path = address.substr(kUnixPrefix.size());
    return endpoint.unix_path.empty() ? absl::StatusOr<Endpoint>(bad)
                                      : endpoint;
  }
  const size_t colon = address.rfind(':');
  if (colon == address.npos) return bad;
  const std::optional<uint32_t> port = ParseNumber(address.substr(colon + 1));
  if (!port || *port > UINT16_MAX) return bad;
  endpoint.port = static_cast<uint16_t>(*port);
  const std::string_view host = address.substr(0, colon);
  if (host == "127.0.0.1" || host == "0.0.0.0") return endpoint;
  if (!host.starts_with(kHostPrefix)) return bad;
  const std::optional<uint32_t> number =
      ParseNumber(host.substr(kHostPrefix.size()));
  if (!number) return bad;
  endpoint.node = NodeId(*number);
  if (!nodes_.contains(endpoint.node)) return bad;
  return endpoint;
}

absl::Status Network::ClaimPort(Endpoint* endpoint) {
  if (endpoint->unix_path.empty() && endpoint->port == 0) {
    endpoint->port = TakePort(endpoint->node);
  }
  if (!listeners_.contains(*endpoint)) return absl::OkStatus();
  return absl::AlreadyExistsError(
      absl::StrCat(ToString(*endpoint), ": EADDRINUSE"));
}

void Network::Register(const Endpoint& endpoint, SimListener* listener) {
  CAIRN_CHECK(listeners_.emplace(endpoint, listener).second);
}

void Network::Unregister(const Endpoint& endpoint) {
  listeners_.erase(endpoint);
}

SimListener* Network::FindListener(const Endpoint& endpoint) const {
  const auto it = listeners_.find(endpoint);
  return it == listeners_.end() ? nullptr : it->second;
}

uint16_t Network::TakePort(NodeId node) {
  uint16_t& next = next_port_[node];
  Endpoint candidate;
  candidate.node = node;
  do {
    candidate.port = next;
    next =
        next == UINT16_MAX ? kFirstFreePort : static_cast<uint16_t>(next + 1);
  } while (listeners_.contains(candidate));
  return candidate.port;
}

std::shared_ptr<Connection> Network::MakeConnection(SimEnv* client,
                                                    SimEnv* server,
                                                    Endpoint from,
                                                    Endpoint to) {
  const uint64_t id = ++connections_made_;
  auto connection = std::make_shared<Connection>(
      this, id, client, server, std::move(from), std::move(to));
  connections_.emplace(id, connection.get());
  return connection;
}

void Network::Cut(NodeId from, NodeId to) { cuts_.emplace(from, to); }

void Network::Partition(NodeId a, NodeId b) {
  Cut(a, b);
  Cut(b, a);
}

void Network::Isolate(NodeId node) {
  for (const NodeId other : nodes_) {
    if (other != node) Partition(node, other);
  }
}

void Network::Heal(NodeId a, NodeId b) {
  cuts_.erase({a, b});
  cuts_.erase({b, a});
  for (const auto& [id, connection] : connections_) connection->Heal();
}

void Network::HealAll() {
  cuts_.clear();
  slow_.clear();
  for (const auto& [id, connection] : connections_) connection->Heal();
}

void Network::SlowLink(NodeId a, NodeId b, uint64_t factor) {
  CAIRN_CHECK(factor > 0);
  for (const auto& link : {std::pair(a, b), std::pair(b, a)}) {
    slow_.erase(link);
    if (factor > 1) slow_.emplace(link, Slowness{factor});
  }
}

void Network::Fired(FaultKind kind, uint64_t where) {
  world_->Fired(kind, where);
}

void Network::Reset(NodeId a, NodeId b) {
  for (const auto& [id, connection] : connections_) {
    const NodeId from = connection->endpoint(0).node;
    const NodeId to = connection->endpoint(1).node;
    if ((from == a && to == b) || (from == b && to == a)) connection->Break();
  }
}

void Network::ProcessDied(SimEnv* process, bool silent) {
  std::vector<SimListener*> dead;
  for (const auto& [endpoint, listener] : listeners_) {
    if (listener->env() == process) dead.push_back(listener);
  }
  for (SimListener* const listener : dead) listener->Shutdown();
  for (const auto& [id, connection] : connections_) {
    for (size_t side = 0; side < 2; ++side) {
      if (connection->env(side) == process) connection->Die(side, silent);
    }
  }
}

void Network::set_powered(NodeId node, bool powered) {
  if (!powered) {
    dark_.insert(node);
  } else if (dark_.erase(node) > 0) {
    for (const auto& [id, connection] : connections_) connection->Heal();
  }
}

io::TimeNs Network::Latency(NodeId from, NodeId to) {
  io::TimeNs latency =
      random_.Between(options_.latency_ns_min, options_.latency_ns_max);
  if (from == to) latency /= kLocalSpeedup;
  const auto slow = slow_.find({from, to});
  if (slow != slow_.end()) {
    latency *= slow->second.factor;
    if (!std::exchange(slow->second.noted, true)) {
      Fired(FaultKind::kSlowLink, to.value);
    }
  }
  const io::TimeNs spike = faults_.DrawSpike();
  if (spike > 0) Fired(FaultKind::kLatencySpike, spike);
  return latency + spike;
}

// Mostly large, sometimes a few bytes, so that reassembly is tried.
uint64_t Network::SegmentBytes(uint64_t bytes_max) {
  CAIRN_CHECK(bytes_max > 0);
  const uint64_t few = 16;
  const uint64_t most = random_.OneIn(8) ? few : options_.segment_bytes_max;
  return random_.Between(1, std::min(bytes_max, most));
}

bool Network::DrawReset() {
  return options_.reset_one_in > 0 && random_.OneIn(options_.reset_one_in);
}

uint64_t Network::DrawTinyBytes(uint64_t connection) {
  const uint64_t bytes = faults_.DrawTinyBytes();
  if (bytes > 0) Fired(FaultKind::kTinySegments, connection);
  return bytes;
}

std::optional<StreamHit> Network::DrawHit(NodeId from, NodeId to,
                                          uint64_t size_bytes) {
  std::optional<StreamHit> hit = faults_.Draw(from, to, size_bytes);
  if (hit || !DrawReset()) return hit;
  const uint64_t at = faults_.random()->Below(size_bytes);
  return StreamHit{StreamFault::Kind::kReset, at};
}

uint8_t Network::DrawBit() {
  return static_cast<uint8_t>(1u << faults_.random()->Below(8));
}

std::string Network::Describe() const {
  std::string text;
  for (const auto& [endpoint, listener] : listeners_) {
    if (!listener->waiting()) continue;
    absl::StrAppend(&text, "  ", ToString(endpoint), " accepts\n");
  }
  for (const auto& [id, connection] : connections_) {
    absl::StrAppend(&text, connection->Describe());
  }
  return text;
}

}  // namespace cairn::sim
