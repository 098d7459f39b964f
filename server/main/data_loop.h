// A loop thread that owns some targets and serves them on a port of its own.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "io/event_loop.h"
#include "io/rpc/server.h"
#include "server/main/cluster_config.h"
#include "server/target/chunk_store.h"
#include "server/target/target_service.h"

namespace cairn::server {

class DataLoop {
 public:
  struct Options {
    std::string name;
    std::string listen_host;  // "127.0.0.1"
    uint16_t port = 0;        // 0: any free one.
    format::ClusterId cluster_id;
    std::vector<TargetPlace> targets;
    io::LoopOptions loop;
  };

  // Opens the stores and serves them. Errors as ChunkStore::Open and Listen.
  static absl::StatusOr<std::unique_ptr<DataLoop>> Start(Options options);
  // Stops serving, closes the stores, ends the thread.
  ~DataLoop();

  const std::string& address() const { return address_; }
  const std::vector<TargetPlace>& targets() const { return options_.targets; }
  const char* backend() const { return backend_; }
  // The highest metadata sequence that any of its targets has seen.
  uint64_t meta_sequence() const { return meta_sequence_; }

 private:
  explicit DataLoop(Options options) : options_(std::move(options)) {}
  io::Task<absl::Status> Open(io::Env* env);
  io::Task<absl::Status> Serve(io::Env* env);
  io::Task<bool> Stop();

  const Options options_;
  std::unique_ptr<io::LoopThread> thread_;
  // On the loop from here on.
  std::vector<std::unique_ptr<ChunkStore>> stores_;
  std::unique_ptr<TargetService> service_;
  std::unique_ptr<io::RpcServer> server_;
  std::string address_;
  const char* backend_ = "";
  uint64_t meta_sequence_ = 0;
};

}  // namespace cairn::server
