// Tunables: everything that a campaign draws from its seed, so that each seed
// is another cluster, another load and another mixture of faults (a swarm: with
// all kinds on at once they would hide each other).
//
// Units: times in nanoseconds of virtual time, sizes in bytes.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "tests/sim/campaign/attack.h"
#include "tests/sim/cluster/sim_cluster.h"

namespace cairn::sim {

struct CheckpointLoad {
  uint32_t runs = 0;          // Series of saves beside each other.
  uint32_t saves = 0;         // Of each run.
  uint32_t ranks_max = 1;     // World sizes are 1 to this.
  uint64_t model_bytes = 0;   // At most.
  uint32_t death_one_in = 0;  // A rank of a save dies; 0: never by plan.
};

struct FileLoad {
  uint32_t writers = 0;     // Each owns a directory.
  uint32_t operations = 0;  // Of each.
  uint32_t files = 0;       // Names in a directory.
  uint64_t file_bytes = 0;  // At most.
};

struct ReaderLoad {
  uint32_t readers = 0;
  io::TimeNs pause_max = 0;  // Between two reads.
};

struct FaultLoad {
  std::array<uint32_t, kAttacks> weights{};  // 0: off.
  io::TimeNs pause_max = 0;  // Between two faults that the nemesis fires.
  io::TimeNs down_max = 0;   // How long one lasts.
  uint32_t at_once = 1;      // That many last at the same time.
  // Targets 1 to this may be damaged: at most what the scheme can lose.
  uint32_t damaged_targets = 0;
  // So many are lost for good at most: none in seeds with damage.
  uint32_t lost_targets = 0;

  bool on(Attack kind) const { return weights[static_cast<size_t>(kind)] > 0; }
};

struct Tunables {
  uint64_t seed = 0;
  ClusterOptions cluster;
  uint32_t shards = 0;  // Of the scheme, and how many may be lost.
  uint32_t parity = 0;
  CheckpointLoad checkpoints;
  FileLoad files;
  ReaderLoad readers;
  FaultLoad faults;
  io::TimeNs fault_time = 0;  // Faults stop then at the latest.
};

Tunables DrawTunables(uint64_t seed);

// In one line.
std::string ToString(const Tunables& tunables);

}  // namespace cairn::sim
