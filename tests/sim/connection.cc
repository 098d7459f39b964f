#include "tests/sim/connection.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace cairn::sim {

Connection::Connection(Network* network, uint64_t id, SimEnv* client,
                       SimEnv* server, Endpoint from, Endpoint to)
    : network_(network),
      id_(id),
      ends_{End(client, std::move(from)), End(server, std::move(to))} {}

Connection::~Connection() { network_->Forget(id_); }

absl::Status Connection::CheckSending(size_t side) const {
  const End& end = ends_[side];
  CAIRN_RETURN_IF_ERROR(end.env->CheckAlive());
  if (end.closed) return absl::UnavailableError("connection was shut down");
  if (end.reset) return absl::UnavailableError("connection reset by peer");
  return absl::OkStatus();
}

bool Connection::IsCut(size_t to_side) const {
  return network_->is_cut(ends_[1 - to_side].endpoint.node,
                          ends_[to_side].endpoint.node);
}

io::Task<absl::Status> Connection::Send(size_t side, io::ConstBytes from) {
  End& self = ends_[side];
  End& peer = Peer(side);
  CAIRN_CO_RETURN_IF_ERROR(CheckSending(side));
  uint64_t tiny_bytes = network_->DrawTinyBytes(id_);
  while (!from.empty()) {
    while (peer.window_used >= network_->window_bytes()) {
      co_await self.writable.Wait();
      CAIRN_CO_RETURN_IF_ERROR(CheckSending(side));
    }
    const uint64_t room = network_->window_bytes() - peer.window_used;
    uint64_t size =
        network_->SegmentBytes(std::min<uint64_t>(room, from.size()));
    if (tiny_bytes > 0) {
      --tiny_bytes;
      size = 1;
    }
    const io::ConstBytes part = from.first(size);
    peer.window_used += part.size();
    Segment segment{Kind::kData, {part.begin(), part.end()}};
    Launch(1 - side, std::move(segment));
    from = from.subspan(part.size());
  }
  co_return absl::OkStatus();
}

io::Task<absl::StatusOr<uint64_t>> Connection::Receive(size_t side,
                                                       io::MutableBytes to) {
  End& end = ends_[side];
  while (true) {
    CAIRN_CO_RETURN_IF_ERROR(end.env->CheckAlive());
    if (end.closed) {
      co_return absl::UnavailableError("connection was shut down");
    }
    if (!end.arrived.empty() || to.empty()) break;
    if (end.end_arrived) co_return uint64_t{0};
    if (end.reset) {
      co_return absl::UnavailableError("connection reset by peer");
    }
    co_await end.readable.Wait();
  }
  const uint64_t count = Take(&end, to);
  Acknowledge(side, count);
  co_return count;
}

// Bytes of the first segment only: short receives happen at seeded places.
uint64_t Connection::Take(End* end, io::MutableBytes to) {
  if (to.empty()) return 0;
  const std::vector<uint8_t>& front = end->arrived.front();
  const size_t count = std::min(to.size(), front.size() - end->head);
  std::memcpy(to.data(), front.data() + end->head, count);
  end->head += count;
  if (end->head == front.size()) {
    end->arrived.pop_front();
    end->head = 0;
  }
  return count;
}

void Connection::Acknowledge(size_t receiver_side, uint64_t bytes) {
  End& receiver = ends_[receiver_side];
  receiver.unacknowledged += bytes;
  if (IsCut(1 - receiver_side)) return;
  CAIRN_CHECK(receiver.unacknowledged <= receiver.window_used);
  receiver.window_used -= std::exchange(receiver.unacknowledged, 0);
  Peer(receiver_side).writable.WakeAll();
}

void Connection::Launch(size_t to_side, Segment segment) {
  ends_[to_side].under_way.push_back(std::move(segment));
  PlanArrival(to_side);
}

void Connection::PlanArrival(size_t to_side) {
  End& end = ends_[to_side];
  World* const world = network_->world();
  const io::TimeNs latency =
      network_->Latency(ends_[1 - to_side].endpoint.node, end.endpoint.node);
  end.last_arrival = std::max(end.last_arrival, world->NowNs() + latency);
  world->At(end.last_arrival, Trace::kArrival, end.env->process(),
            [self = shared_from_this(), to_side] { self->Arrive(to_side); });
}

void Connection::Arrive(size_t to_side) {
  End& end = ends_[to_side];
  if (end.under_way.empty()) return;  // Lost with the sender's power.
  if (end.stalled > 0 || IsCut(to_side) ||
      !network_->powered(end.endpoint.node)) {
    if (end.stalled == 0 && IsCut(to_side)) {
      network_->Fired(FaultKind::kLinkCut, id_);
    }
    ++end.stalled;
    return;
  }
  Segment segment = std::move(end.under_way.front());
  end.under_way.pop_front();
  network_->world()->Note(Trace::kArrival, end.env->process(), id_,
                          segment.bytes.size());
  if (SurvivesFaults(to_side, &segment)) Deliver(to_side, std::move(segment));
}

bool Connection::SurvivesFaults(size_t to_side, Segment* segment) {
  if (segment->kind != Kind::kData) return true;
  const std::optional<StreamHit> hit =
      network_->DrawHit(ends_[1 - to_side].endpoint.node,
                        ends_[to_side].endpoint.node, segment->bytes.size());
  if (!hit) return true;
  if (hit->kind == StreamFault::Kind::kFlip) {
    uint8_t& byte = segment->bytes[hit->at];
    byte = static_cast<uint8_t>(byte ^ network_->DrawBit());
    network_->Fired(FaultKind::kCorruptSegment, id_);
    return true;
  }
  segment->bytes.resize(hit->at);
  if (hit->at > 0) Deliver(to_side, std::move(*segment));
  if (hit->kind == StreamFault::Kind::kReset) {
    Break();
  } else {
    EndEarly(to_side);
  }
  return false;
}

// As when something on the way closed both halves.
void Connection::EndEarly(size_t to_side) {
  End& end = ends_[to_side];
  End& sender = Peer(to_side);
  network_->Fired(FaultKind::kEarlyEnd, id_);
  end.under_way.clear();
  end.stalled = 0;
  end.end_arrived = true;
  sender.reset = true;
  Wake(0);
  Wake(1);
}

void Connection::Deliver(size_t to_side, Segment segment) {
  End& end = ends_[to_side];
  if (segment.kind == Kind::kReset) {
    end.reset = true;
  } else if (segment.kind == Kind::kEnd) {
    end.end_arrived = true;
  } else if (end.closed || end.reset) {
    // Nobody will read it: the kernel answers with a reset.
    Acknowledge(to_side, segment.bytes.size());
    Launch(1 - to_side, Segment{Kind::kReset, {}});
  } else {
    end.arrived.push_back(std::move(segment.bytes));
  }
  Wake(to_side);
}

void Connection::Wake(size_t side) {
  ends_[side].readable.WakeAll();
  ends_[side].writable.WakeAll();
}

void Connection::Shutdown(size_t side) {
  if (std::exchange(ends_[side].closed, true)) return;
  if (!ends_[side].reset) Launch(1 - side, Segment{Kind::kEnd, {}});
  Wake(side);
}

void Connection::Die(size_t side, bool silent) {
  const bool was_closed = std::exchange(ends_[side].closed, true);
  Wake(side);
  if (was_closed) return;
  if (silent) network_->Fired(FaultKind::kHalfOpen, id_);
  LoseUnsent(1 - side);
  if (!silent) Launch(1 - side, Segment{Kind::kReset, {}});
}

// A seeded part of what is under way never left the dead machine.
void Connection::LoseUnsent(size_t to_side) {
  End& end = ends_[to_side];
  const uint64_t kept = network_->DrawKept(end.under_way.size());
  while (end.under_way.size() > kept) {
    end.window_used -= end.under_way.back().bytes.size();
    end.under_way.pop_back();
  }
  end.stalled = std::min<uint64_t>(end.stalled, kept);
}

void Connection::Break() {
  if (!ends_[0].reset || !ends_[1].reset) {
    network_->Fired(FaultKind::kConnectionReset, id_);
  }
  for (const size_t side : {size_t{0}, size_t{1}}) {
    ends_[side].reset = true;
    ends_[side].under_way.clear();
    ends_[side].stalled = 0;
  }
  Wake(0);
  Wake(1);
}

void Connection::Heal() {
  for (const size_t side : {size_t{0}, size_t{1}}) {
    if (!IsCut(side) && network_->powered(ends_[side].endpoint.node)) {
      const uint64_t stalled = std::exchange(ends_[side].stalled, 0);
      for (uint64_t i = 0; i < stalled; ++i) PlanArrival(side);
    }
    Acknowledge(side, 0);
  }
}

std::string Connection::Describe() const {
  std::string text;
  for (const size_t side : {size_t{0}, size_t{1}}) {
    const End& end = ends_[side];
    const std::string who = ToString(end.endpoint);
    const std::string peer = ToString(ends_[1 - side].endpoint);
    if (!end.readable.empty()) {
      absl::StrAppend(&text, "  ", who, " receives from ", peer, "\n");
    }
    if (!end.writable.empty()) {
      absl::StrAppend(&text, "  ", who, " sends to ", peer, "\n");
    }
  }
  return text;
}

}  // namespace cairn::sim
