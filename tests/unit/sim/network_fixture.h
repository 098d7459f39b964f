// Two simulated machines with a connection between them.
//
// Operations that may hang run in the background and leave an Outcome.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/sim/sim_env.h"
#include "tests/sim/world.h"
#include "tests/support/co_assert.h"

namespace cairn::sim {

// What one operation on a stream came to; `done` once it ended.
struct Outcome {
  bool done = false;
  absl::Status status;
  uint64_t bytes = 0;  // Finished before the status.
};

inline io::Task<void> SendInto(io::Stream* stream, std::vector<uint8_t> bytes,
                               Outcome* outcome) {
  io::ConstBytes left(bytes);
  while (!left.empty() && outcome->status.ok()) {
    const io::ConstBytes part = left.first(std::min<size_t>(1000, left.size()));
    const std::array<io::ConstBytes, 1> pieces = {part};
    outcome->status = co_await stream->SendAll(pieces);
    if (outcome->status.ok()) outcome->bytes += part.size();
    left = left.subspan(part.size());
  }
  outcome->done = true;
}

inline io::Task<void> ReceiveInto(io::Stream* stream,
                                  std::vector<uint8_t>* bytes,
                                  Outcome* outcome) {
  const std::array<io::MutableBytes, 1> pieces = {io::MutableBytes(*bytes)};
  outcome->status = co_await stream->ReceiveAll(pieces);
  outcome->done = true;
}

inline io::Task<void> ConnectInto(SimEnv* env, std::string address,
                                  io::TimeNs deadline,
                                  std::unique_ptr<io::Stream>* stream,
                                  Outcome* outcome) {
  auto connected = co_await env->Connect(address, deadline);
  outcome->status = connected.status();
  if (connected.ok()) *stream = *std::move(connected);
  outcome->done = true;
}

inline io::Task<void> AcceptInto(io::Listener* listener,
                                 std::unique_ptr<io::Stream>* stream,
                                 Outcome* outcome) {
  auto accepted = co_await listener->Accept();
  outcome->status = accepted.status();
  if (accepted.ok()) *stream = *std::move(accepted);
  outcome->done = true;
}

inline io::Task<void> ListenInto(SimEnv* env,
                                 std::unique_ptr<io::Listener>* into) {
  auto listening = co_await env->Listen(env->Address(7400));
  CO_ASSERT_OK(listening);
  *into = *std::move(listening);
}

inline io::Task<void> CloseStream(io::Stream* stream) {
  co_await stream->Close();
}
inline io::Task<void> CloseListener(io::Listener* listener) {
  co_await listener->Close();
}

inline std::vector<uint8_t> Counting(size_t size) {
  std::vector<uint8_t> bytes(size);
  std::iota(bytes.begin(), bytes.end(), uint8_t{0});
  return bytes;
}

// Two nodes with a connection between them.
class NetworkTest : public ::testing::Test {
 protected:
  explicit NetworkTest(uint64_t seed = 1)
      : world_({.seed = seed}),
        server_node_(world_.AddNode()),
        client_node_(world_.AddNode()),
        server_(world_.Start(server_node_)),
        client_(world_.Start(client_node_)),
        gate_(&world_) {
    world_.Run(ListenInto(server_, &listener_));
    Outcome connected;
    Outcome accepted;
    gate_.Spawn(AcceptInto(listener_.get(), &at_server_, &accepted));
    gate_.Spawn(ConnectInto(client_, server_->Address(7400), io::kNoDeadline,
                            &at_client_, &connected));
    world_.RunUntilIdle();
    EXPECT_OK(connected.status);
    EXPECT_OK(accepted.status);
  }

  ~NetworkTest() override {
    for (const auto& stream : {&at_client_, &at_server_}) {
      if (*stream == nullptr) continue;
      (*stream)->Shutdown();
      world_.RunUntilIdle();
      world_.Run(CloseStream(stream->get()));
    }
    listener_->Shutdown();
    world_.RunUntilIdle();
    world_.Run(CloseListener(listener_.get()));
    EXPECT_EQ(gate_.in_flight(), 0u);
  }

  void Pass(io::TimeNs duration) { world_.RunUntil(world_.NowNs() + duration); }

  World world_;
  const NodeId server_node_;
  const NodeId client_node_;
  SimEnv* const server_;
  SimEnv* const client_;
  io::Gate gate_;
  std::unique_ptr<io::Listener> listener_;
  std::unique_ptr<io::Stream> at_client_;
  std::unique_ptr<io::Stream> at_server_;
};

}  // namespace cairn::sim
