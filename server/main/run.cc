#include "server/main/run.h"

#include <algorithm>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "format/base/limits.h"

namespace cairn::server {

namespace {

// Enough for the chunks of every client to be between socket and disk.
constexpr uint64_t kDefaultMemoryBytes = 160 * format::kMiB;

std::string HostOf(const std::string& listen) {
  return listen.substr(0, listen.rfind(':'));
}

bool IsLoopback(const std::string& host) {
  return host == "localhost" || host == "[::1]" ||
         absl::StartsWith(host, "127.");
}

uint32_t PickLoops(const RunOptions& options, size_t targets) {
  const uint32_t cores = std::max(1u, std::thread::hardware_concurrency());
  const uint32_t wanted =
      options.loops != 0 ? options.loops : std::max(1u, cores / 2);
  return std::min<uint32_t>(wanted, static_cast<uint32_t>(targets));
}

DataLoop::Options MakeDataOptions(const RunOptions& options,
                                  const ClusterConfig& config, uint32_t loop,
                                  uint32_t loops) {
  DataLoop::Options data;
  data.name = absl::StrCat("data-", loop);
  data.listen_host = HostOf(options.listen);
  data.port = options.data_port == 0
                  ? uint16_t{0}
                  : static_cast<uint16_t>(options.data_port + loop);
  data.cluster_id = config.cluster_id;
  for (size_t i = loop; i < config.targets.size(); i += loops) {
    data.targets.push_back(config.targets[i]);
  }
  const uint64_t memory =
      options.memory_bytes == 0 ? kDefaultMemoryBytes : options.memory_bytes;
  data.loop.backend = options.backend;
  data.loop.pool_lazy = false;
  data.loop.pool_large_buffers = static_cast<uint32_t>(
      std::max<uint64_t>(4, memory / loops / format::kChunkBytesMax));
  return data;
}

}  // namespace

absl::Status CheckListenAddress(const std::string& listen, bool insecure) {
  const size_t colon = listen.rfind(':');
  uint32_t port = 0;
  if (colon == std::string::npos || colon == 0 ||
      !absl::SimpleAtoi(listen.substr(colon + 1), &port) || port > 65535) {
    return absl::InvalidArgumentError(
        absl::StrCat("--listen ", listen,
                     ": must be HOST:PORT, for example 127.0.0.1:7400"));
  }
  if (insecure || IsLoopback(HostOf(listen))) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrCat(
      "--listen ", listen,
      " is reachable from other machines, and this version has no "
      "authentication: anybody who reaches the port can read and delete "
      "everything. Use 127.0.0.1, or pass --insecure on a trusted network."));
}

absl::StatusOr<std::unique_ptr<AllInOne>> AllInOne::Start(RunOptions options) {
  CAIRN_RETURN_IF_ERROR(CheckListenAddress(options.listen, options.insecure));
  CAIRN_ASSIGN_OR_RETURN(const ClusterConfig config,
                         LoadConfig(options.directory));
  std::unique_ptr<AllInOne> server(new AllInOne());
  server->targets_ = config.targets.size();
  MetaLoop::Options meta;
  const uint32_t loops = PickLoops(options, config.targets.size());
  for (uint32_t loop = 0; loop < loops; ++loop) {
    CAIRN_ASSIGN_OR_RETURN(
        std::unique_ptr<DataLoop> data,
        DataLoop::Start(MakeDataOptions(options, config, loop, loops)));
    for (const TargetPlace& target : data->targets()) {
      meta.target_addresses[target.id] = data->address();
    }
    meta.targets_sequence_max =
        std::max(meta.targets_sequence_max, data->meta_sequence());
    server->data_.push_back(std::move(data));
  }
  meta.directory = options.directory;
  meta.listen = options.listen;
  meta.cluster_id = config.cluster_id;
  meta.accept_metadata_loss = options.accept_metadata_loss;
  meta.meta.trash_grace_ms = options.trash_grace_ms;
  meta.meta.health = options.health;
  meta.meta.rebuild = options.rebuild;
  meta.loop.backend = options.backend;
  meta.loop.pool_large_buffers = 1;
  CAIRN_ASSIGN_OR_RETURN(server->meta_, MetaLoop::Start(std::move(meta)));
  return server;
}

}  // namespace cairn::server
