// The nemesis's half for the network.
#include <utility>
#include <vector>

#include "tests/sim/campaign/client_pool.h"
#include "tests/sim/campaign/nemesis.h"

namespace cairn::sim {

namespace {
constexpr uint64_t kEarlyEndBytesMax = 256 * format::kKiB;
constexpr uint64_t kSlowFactorMax = 50;
}  // namespace

NodeId Nemesis::DrawServerNode() {
  const uint32_t targets = context_->cluster->options().targets;
  const uint32_t drawn = static_cast<uint32_t>(random_.Below(targets + 1));
  return drawn == 0 ? context_->cluster->meta_node()
                    : context_->cluster->TargetNode(drawn);
}

// Servers and clients alike, clients as often as all servers together.
NodeId Nemesis::DrawAnyNode() {
  const std::vector<SimClient*>& clients = context_->clients->taken();
  if (clients.empty() || random_.OneIn(2)) return DrawServerNode();
  return clients[random_.Below(clients.size())]->env()->node();
}

void Nemesis::FireNetwork(Attack kind) {
  switch (kind) {
    case Attack::kIsolate: {
      const NodeId node = DrawAnyNode();
      Network* const network = context_->world()->network();
      network->Isolate(node);
      // Other cuts end with it: they are attacks of their own, counted already.
      return Spawn(kind, Later([network] { network->HealAll(); }));
    }
    case Attack::kPartition:
    case Attack::kCutOneWay:
    case Attack::kReset:
    case Attack::kEarlyEnd:
    case Attack::kSlowLink:
      return FireLink(kind);
    default:
      return FireRates(kind);
  }
}

void Nemesis::Cut(NodeId a, NodeId b, bool both) {
  Network* const network = context_->world()->network();
  if (both) return network->Partition(a, b);
  random_.OneIn(2) ? network->Cut(a, b) : network->Cut(b, a);
}

void Nemesis::FireLink(Attack kind) {
  const NodeId a = DrawAnyNode();
  const NodeId b = DrawServerNode();
  if (a == b) return;
  Network* const network = context_->world()->network();
  if (kind == Attack::kReset) {
    network->Reset(a, b);
    return context_->faults->Count(kind);
  }
  if (kind == Attack::kEarlyEnd) {
    StreamFault fault;
    fault.kind =
        random_.OneIn(2) ? StreamFault::Kind::kEnd : StreamFault::Kind::kReset;
    fault.from = random_.OneIn(2) ? a : b;
    fault.to = fault.from == a ? b : a;
    fault.after_bytes = random_.Below(kEarlyEndBytesMax);
    network->Fail(fault);
    return context_->faults->Count(kind);
  }
  if (kind == Attack::kSlowLink) {
    network->SlowLink(a, b, random_.Between(2, kSlowFactorMax));
    return Spawn(kind, Later([network, a, b] { network->SlowLink(a, b, 1); }));
  }
  Cut(a, b, kind == Attack::kPartition);
  Spawn(kind, Later([network, a, b] { network->Heal(a, b); }));
}

// Rates of the whole network, for a while.
void Nemesis::FireRates(Attack kind) {
  Network* const network = context_->world()->network();
  uint64_t* rate = nullptr;
  uint64_t one_in = random_.Between(20, 500);
  switch (kind) {
    case Attack::kResetStorm: {
      network->set_reset_one_in(one_in);
      const uint64_t usual =
          context_->cluster->options().world.network.reset_one_in;
      return Spawn(
          kind, Later([network, usual] { network->set_reset_one_in(usual); }));
    }
    case Attack::kLatencySpikes:
      rate = &rates_.latency_spike;
      rates_.latency_spike_ns_max = DrawTime(3 * io::kSecond);
      break;
    case Attack::kCorruptSegments:
      rate = &rates_.corrupt_segment;
      one_in = random_.Between(500, 10'000);
      break;
    case Attack::kTinySegments:
      rate = &rates_.tiny_segments;
      rates_.tiny_bytes = random_.Between(1, 64);
      break;
    case Attack::kRefuseConnects:
      rate = &rates_.refuse_connect;
      one_in = random_.Between(1, 4);
      break;
    default:
      CAIRN_CHECK(false);
  }
  *rate = one_in;
  network->set_fault_rates(rates_);
  Spawn(kind, Later([this, network, rate] {
          *rate = 0;
          network->set_fault_rates(rates_);
        }));
}

}  // namespace cairn::sim
