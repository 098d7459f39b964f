#include "server/main/meta_server.h"

#include <utility>

#include "server/main/listen.h"

namespace cairn::server {

absl::StatusOr<std::unique_ptr<MetaLoop>> StartMetaServer(
    const RunOptions& options) {
  CAIRN_RETURN_IF_ERROR(CheckListenAddress(options.listen, options.insecure));
  CAIRN_ASSIGN_OR_RETURN(const ClusterConfig config,
                         LoadConfig(options.directory));
  return MetaLoop::Start(PlanMetaLoop(options, config.cluster_id));
}

}  // namespace cairn::server
