// Two simulated nodes, a server on one and a client on the other.
#pragma once

#include <memory>

#include "gtest/gtest.h"
#include "tests/sim/sim_env.h"
#include "tests/sim/world.h"
#include "tests/unit/io/rpc/rig.h"

namespace cairn::io {

class SimRpc : public ::testing::Test {
 protected:
  SimRpc() : world_(sim::WorldOptions()) {
    server_node_ = world_.AddNode();
    client_node_ = world_.AddNode();
    server_ = world_.Start(server_node_);
    client_ = world_.Start(client_node_);
  }
  void Run(Task<void> (*body)(Rig* rig)) {
    world_.Run(RunBody(server_, client_, body));
  }
  // Against a server that the test plays itself.
  void RunRaw(Task<void> (*body)(Channel* channel, Env* client, Env* server,
                                 Listener* listener)) {
    world_.Run(RunRawBody(server_, client_, body));
  }

  static Task<void> RunBody(sim::SimEnv* server, sim::SimEnv* client,
                            Task<void> (*body)(Rig* rig)) {
    Rig rig(server, client, RigOptions());
    co_await rig.Start(server->Address(7400));
    co_await body(&rig);
    co_await rig.Close();
  }
  static Task<void> RunRawBody(sim::SimEnv* server, sim::SimEnv* client,
                               Task<void> (*body)(Channel*, Env*, Env*,
                                                  Listener*)) {
    absl::StatusOr<std::unique_ptr<Listener>> listener =
        co_await server->Listen(server->Address(7400));
    CAIRN_CHECK(listener.ok());
    ChannelOptions options;
    options.address = (*listener)->address();
    options.cluster_id = TestCluster();
    options.server_name = "raw server";
    const std::unique_ptr<Channel> channel = Channel::Create(client, options);
    co_await body(channel.get(), client, server, listener->get());
    co_await channel->Close();
    (*listener)->Shutdown();
    co_await (*listener)->Close();
  }

  sim::World world_;
  sim::NodeId server_node_;
  sim::NodeId client_node_;
  sim::SimEnv* server_;
  sim::SimEnv* client_;
};

inline sim::SimEnv* Sim(Env* env) { return static_cast<sim::SimEnv*>(env); }

inline Task<void> CallAndKeep(Channel* channel, format::Method method,
                              CallOptions options,
                              absl::StatusOr<std::string>* answer, bool* done) {
  *answer = co_await channel->Call(method, "ask", options);
  *done = true;
}

}  // namespace cairn::io
