// ClientPool: the client processes of a campaign that fate may kill, and the
// way to get a new one.
//
// A workload takes a client, works on it with tasks started by Spawn(), and
// gives it back. Between the two the nemesis may kill it: then all its calls
// fail, alive() is false, and what it had in flight may or may not have
// happened, until its session is fenced: AwaitFenced().
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/sim/campaign/context.h"

namespace cairn::sim {

class ClientPool {
 public:
  explicit ClientPool(Context* context) : context_(context) {}

  // A started client, tried again while faults excuse that it does not start.
  // Null: the campaign stops, or it was killed while it started.
  io::Task<SimClient*> Take(std::string name);
  // Ends its session if it lives. Nothing of it runs any more.
  io::Task<void> GiveBack(SimClient* client);
  // Kills one of those that are taken now; null if there is none. `victim` is
  // any number.
  SimClient* KillOne(uint64_t victim);
  void Kill(SimClient* client);
  const std::vector<SimClient*>& taken() const { return taken_; }

  // Returns when nothing that the session sent can have an effect any more.
  io::Task<void> AwaitFenced(uint64_t session);

 private:
  Context* const context_;
  std::vector<SimClient*> taken_;
  uint64_t made_ = 0;
};

namespace internal {
template <typename T>
io::Task<void> KeepAndTell(io::Task<T> task, std::optional<T>* out,
                           io::Event* done) {
  out->emplace(co_await std::move(task));
  done->Set();
}
inline io::Task<void> Tell(io::Task<void> task, io::Event* done) {
  co_await std::move(task);
  done->Set();
}
}  // namespace internal

// Runs `task` as the client's, which lives now, and waits for it: the client
// may be killed meanwhile.
template <typename T>
io::Task<T> RunOn(World* world, SimClient* client, io::Task<T> task) {
  std::optional<T> out;
  io::Event done(world);
  client->Spawn(internal::KeepAndTell(std::move(task), &out, &done));
  co_await done.Wait();
  co_return *std::move(out);
}
inline io::Task<void> RunOn(World* world, SimClient* client,
                            io::Task<void> task) {
  io::Event done(world);
  client->Spawn(internal::Tell(std::move(task), &done));
  co_await done.Wait();
}

}  // namespace cairn::sim
