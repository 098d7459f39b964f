#include "server/main/data_loop_plan.h"

#include <unistd.h>

#include <algorithm>
#include <thread>

#include "absl/strings/str_cat.h"
#include "format/base/limits.h"
#include "server/main/listen.h"

namespace cairn::server {

namespace {
// Enough for the chunks of every client to be between socket and disk.
constexpr uint64_t kDefaultMemoryBytes = 160 * format::kMiB;
}  // namespace

uint32_t PickLoops(uint32_t wanted, size_t targets) {
  const uint32_t cores = std::max(1u, std::thread::hardware_concurrency());
  const uint32_t loops = wanted != 0 ? wanted : std::max(1u, cores / 2);
  return std::min<uint32_t>(loops, static_cast<uint32_t>(targets));
}

DataLoop::Options PlanDataLoop(const DataLoopPlan& plan,
                               const std::vector<TargetPlace>& targets,
                               uint32_t loop, uint32_t loops) {
  DataLoop::Options data;
  data.name = absl::StrCat("data-", loop);
  data.listen_host = HostOf(plan.listen);
  data.advertise_host = plan.advertise_host;
  data.port =
      plan.port == 0 ? uint16_t{0} : static_cast<uint16_t>(plan.port + loop);
  data.cluster_id = plan.cluster_id;
  data.tolerate_bad_disks = plan.tolerate_bad_disks;
  data.scrub = plan.scrub;
  for (size_t i = loop; i < targets.size(); i += loops) {
    data.targets.push_back(targets[i]);
  }
  const uint64_t memory =
      plan.memory_bytes == 0 ? kDefaultMemoryBytes : plan.memory_bytes;
  data.loop.backend = plan.backend;
  data.loop.pool_lazy = false;
  data.loop.pool_large_buffers = static_cast<uint32_t>(
      std::max<uint64_t>(4, memory / loops / format::kChunkBytesMax));
  return data;
}

std::string HostName() {
  char host[256] = "localhost";
  (void)gethostname(host, sizeof(host) - 1);
  return host;
}

}  // namespace cairn::server
