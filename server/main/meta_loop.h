// The loop thread of the metadata service.
#pragma once

#include <memory>
#include <string>

#include "io/event_loop.h"
#include "io/rpc/server.h"
#include "server/cluster/target_client.h"
#include "server/meta/kv/high_water_mark.h"
#include "server/meta/kv/rocks_kv.h"
#include "server/meta/service.h"

namespace cairn::server {

class MetaLoop {
 public:
  struct Options {
    std::string directory;  // The cluster's.
    std::string listen;
    format::ClusterId cluster_id;
    // The highest sequence that a target of this process has seen.
    uint64_t targets_sequence_max = 0;
    // Serve although acknowledged metadata is missing.
    bool accept_metadata_loss = false;
    MetaOptions meta;
    io::LoopOptions loop;
  };

  // kFailedPrecondition: the store has lost its end or is an old copy; says
  // how to go on. kAlreadyExists: the address is in use.
  static absl::StatusOr<std::unique_ptr<MetaLoop>> Start(Options options);
  ~MetaLoop();

  const std::string& address() const { return address_; }

 private:
  explicit MetaLoop(Options options) : options_(std::move(options)) {}
  io::Task<absl::Status> Open(io::Env* env);
  io::Task<absl::Status> OpenStore(io::Env* env);
  io::Task<absl::Status> Serve(io::Env* env);
  io::Task<bool> Stop();

  const Options options_;
  std::unique_ptr<io::LoopThread> thread_;
  // On the loop from here on.
  std::unique_ptr<HighWaterMark> mark_;
  std::unique_ptr<RocksKv> kv_;
  std::unique_ptr<TargetClient> targets_;
  std::unique_ptr<MetaService> service_;
  std::unique_ptr<io::RpcServer> server_;
  std::string address_;
};

}  // namespace cairn::server
