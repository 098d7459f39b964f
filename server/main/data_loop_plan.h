// How the targets of a process are shared among its data loops.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "server/main/data_loop.h"
#include "server/target/limits.h"

namespace cairn::server {

struct DataLoopPlan {
  std::string listen;          // HOST:PORT; its port is not used.
  std::string advertise_host;  // Empty: that of `listen`.
  uint16_t port = 0;           // Of the first loop; 0: any free ones.
  uint64_t memory_bytes = 0;   // Buffers of all loops; 0: the default.
  format::ClusterId cluster_id;
  bool tolerate_bad_disks = false;
  ScrubOptions scrub;
  io::Backend backend = io::Backend::kAuto;
};

// `wanted` 0: one for every two cores. Never more than there are targets.
uint32_t PickLoops(uint32_t wanted, size_t targets);

// Options of loop `loop` of `loops`: every loops-th target is its.
DataLoop::Options PlanDataLoop(const DataLoopPlan& plan,
                               const std::vector<TargetPlace>& targets,
                               uint32_t loop, uint32_t loops);

// Of this machine.
std::string HostName();

}  // namespace cairn::server
