// A loop thread that owns some targets and serves them on a port of its own:
// those that the metadata service lets in (server/cluster/joiner.h).
//
// Threads: made, asked and destroyed by one other thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "io/event_loop.h"
#include "io/rpc/server.h"
#include "server/cluster/joiner.h"
#include "server/main/cluster_config.h"
#include "server/target/chunk_store.h"
#include "server/target/target_service.h"

namespace cairn::server {

class DataLoop {
 public:
  struct Options {
    std::string name;
    std::string listen_host;  // "127.0.0.1"
    // Under which name others reach it; empty: listen_host.
    std::string advertise_host;
    uint16_t port = 0;  // 0: any free one.
    format::ClusterId cluster_id;
    std::vector<TargetPlace> targets;
    // Go on without a target whose disk cannot be read, and say so.
    bool tolerate_bad_disks = false;
    ScrubOptions scrub;
    io::LoopOptions loop;
  };

  // Opens the stores and listens; serves none of them yet. Errors as
  // ChunkStore::Open and Listen.
  static absl::StatusOr<std::unique_ptr<DataLoop>> Start(Options options);
  // Stops serving, closes the stores, ends the thread.
  ~DataLoop();

  // Once: starts to join with all targets; `options.address` is filled in.
  void Join(JoinerOptions options);
  // After Join(): whether each was let in or turned away, and all their states.
  struct JoinStates {
    bool decided = false;
    std::vector<Joiner::State> targets;
  };
  JoinStates join_states();
  // Waits until all are decided (true), or for `ms`.
  bool AwaitJoined(uint64_t ms);

  // As others reach it.
  const std::string& address() const { return address_; }
  const std::vector<TargetPlace>& targets() const { return options_.targets; }
  const char* backend() const { return backend_; }
  // The highest metadata sequence that any of its targets has seen.
  uint64_t meta_sequence() const { return meta_sequence_; }

 private:
  explicit DataLoop(Options options) : options_(std::move(options)) {}
  io::Task<absl::Status> Open(io::Env* env);
  io::Task<absl::Status> Serve(io::Env* env);
  io::Task<bool> StartJoin(io::Env* env, JoinerOptions options);
  io::Task<JoinStates> ReadStates();
  io::Task<bool> WaitForJoin(io::Env* env, uint64_t ms);
  io::Task<bool> Stop();

  const Options options_;
  std::unique_ptr<io::LoopThread> thread_;
  // On the loop from here on.
  std::vector<std::unique_ptr<ChunkStore>> stores_;
  std::vector<std::string> directories_;  // Of each store.
  std::unique_ptr<TargetService> service_;
  std::unique_ptr<io::RpcServer> server_;
  std::unique_ptr<Joiner> joiner_;
  std::string address_;
  const char* backend_ = "";
  uint64_t meta_sequence_ = 0;
};

}  // namespace cairn::server
