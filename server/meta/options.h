// Options of the metadata service; every duration has a range in which tests
// may set it (down to 0 for grace times).
#pragma once

#include <cstdint>
#include <string>

#include "io/executor.h"
#include "server/meta/health_options.h"

namespace cairn::server {

struct RebuildOptions {
  // A target that has been down for so long is taken out, and its shards are
  // made on others. Longer than a server takes to be repaired by hand: a
  // rebuild moves a whole disk.
  io::TimeNs out_after_ns = 600 * io::kSecond;
  // Shards of rows on their way at once, in all and to one target.
  uint32_t moves = 64;
  uint32_t moves_per_target = 4;
  // Of them, those from targets that live: their rows take no new data until
  // they have moved.
  uint32_t moves_of_living = 16;
  // Move shards to targets that have fewer than their share.
  bool balance = true;
};

struct RepairOptions {
  // How often targets are asked for chunks that they found damaged.
  io::TimeNs poll_ns = 10 * io::kSecond;
  // In which the chunk lists of all rows are compared once; 0: never.
  io::TimeNs compare_ns = 86'400 * io::kSecond;
  // Before a chunk of which too little is left is tried again.
  io::TimeNs retry_ns = 600 * io::kSecond;
};

struct MetaOptions {
  // A session that does not renew for this long is fenced.
  io::TimeNs lease_ns = 30 * io::kSecond;
  // Pause between two rounds of each background loop.
  io::TimeNs tick_ns = io::kSecond;
  // The service clock is saved this often; a crash loses at most as much, which
  // only lengthens grace times.
  io::TimeNs clock_save_ns = 10 * io::kSecond;

  // --- Grace times, in milliseconds of the service clock.
  // Unlinked files and removed sets stay readable by those who have them open.
  uint64_t trash_grace_ms = 3'600'000;
  // Blobs that lost their last reference, or their dead writer. Longer than a
  // put may be under way after its session ended (the client's timeout, and a
  // target's disk that hangs): one that comes after the deletion stays.
  uint64_t orphan_grace_ms = 600'000;
  // After a target refused or missed a delete order.
  uint64_t garbage_retry_ms = 30'000;
  // A set in which nobody alive has a claim is given up after this long.
  io::TimeNs open_set_idle_ns = 3600 * io::kSecond;

  // --- Heartbeats to targets.
  HealthOptions health;
  // --- What follows when a target stays away.
  RebuildOptions rebuild;
  // --- What is done about damaged and lost chunks.
  RepairOptions repair;

  // Let targets in that have seen newer metadata than the store has.
  bool accept_metadata_loss = false;

  // Shown in ClusterStatus.
  std::string version = "0.1.0";
};

}  // namespace cairn::server
