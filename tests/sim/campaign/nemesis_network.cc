// The nemesis's half for the network.
#include "tests/sim/campaign/client_pool.h"
#include "tests/sim/campaign/nemesis.h"

namespace cairn::sim {

using io::Task;

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

void Nemesis::FireNetwork(FaultKind kind) {
  const NodeId a = DrawAnyNode();
  const NodeId b = DrawServerNode();
  Network* const network = context_->world()->network();
  switch (kind) {
    case FaultKind::kPartition:
    case FaultKind::kCutOneWay:
      if (a == b) return;
      return Spawn(kind, CutFor(a, b, kind == FaultKind::kPartition));
    case FaultKind::kIsolate:
      return Spawn(kind, IsolateFor(a));
    case FaultKind::kReset:
      if (a == b) return;
      network->Reset(a, b);
      context_->faults->Count(kind);
      return;
    case FaultKind::kResetStorm: {
      const uint64_t one_in = random_.Between(20, 500);
      return Spawn(kind, StormFor(one_in));
    }
    default:
      CAIRN_CHECK(false);
  }
}

Task<void> Nemesis::CutFor(NodeId a, NodeId b, bool both) {
  Network* const network = context_->world()->network();
  const bool forward = random_.OneIn(2);
  if (both) {
    network->Partition(a, b);
  } else {
    forward ? network->Cut(a, b) : network->Cut(b, a);
  }
  const io::TimeNs down = DownTime();
  co_await io::SleepFor(context_->world(), down, &stopping_);
  network->Heal(a, b);
}

Task<void> Nemesis::IsolateFor(NodeId node) {
  Network* const network = context_->world()->network();
  network->Isolate(node);
  const io::TimeNs down = DownTime();
  co_await io::SleepFor(context_->world(), down, &stopping_);
  // Other cuts end with it: they are faults of their own, counted already.
  network->HealAll();
}

Task<void> Nemesis::StormFor(uint64_t one_in) {
  Network* const network = context_->world()->network();
  network->set_reset_one_in(one_in);
  const io::TimeNs down = DownTime();
  co_await io::SleepFor(context_->world(), down, &stopping_);
  network->set_reset_one_in(
      context_->cluster->options().world.network.reset_one_in);
}

}  // namespace cairn::sim
