// PointMonitor: watches the servers of a cluster and finds the points at which
// they may crash: just before and after each event in which one of them wrote,
// flushed or changed a name on its disk, or a commit of the metadata store was
// made or became durable. Between the two of one operation nothing happens;
// between two operations answers are sent.
//
// An operation on a name that changed nothing (an open, a list) is no point: a
// crash after it is one after the operation before. Two operations of one event
// are one point: the second one is a write that is not flushed yet, so what a
// crash between them would leave is one of the subsets that a crash after both
// may leave.
//
// Lifetime: the cluster outlives it. It takes the World's OnEvent and OnNote.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "tests/sim/cluster/sim_cluster.h"
#include "tests/sim/crash_points/plan.h"

namespace cairn::sim {

class PointMonitor {
 public:
  // `counts`: whose operations are points; 0: the metadata service.
  PointMonitor(SimCluster* cluster, std::function<bool(uint32_t)> counts);
  ~PointMonitor();

  // Counts operations from here on. At the moment that `crash` names calls
  // `then`, once, before the next event.
  void WatchFor(const PlannedCrash& crash, std::function<void()> then);
  // Keeps all points in points().
  void WatchAll();
  void Stop() { watching_ = false; }

  const std::vector<CrashPoint>& points() const { return points_; }
  // Since WatchAll(): what the points are made of.
  uint64_t operations() const { return operations_; }

 private:
  void Noted(Trace what, uint64_t process);
  void NoteCommits();
  void BeforeEvent();
  std::optional<uint32_t> ServerOf(uint64_t process) const;
  Disk* DiskOf(uint32_t server) const;
  bool Changed(uint32_t server);
  void Start();
  void KeepPoints(uint32_t server, uint64_t events);
  CrashPoint Make(uint32_t server) const;
  void LookAtDisks();

  SimCluster* const cluster_;
  const std::function<bool(uint32_t)> counts_;
  std::optional<PlannedCrash> crash_;
  std::function<void()> then_;
  bool watching_ = false;
  uint64_t number_ = 0;         // Of operations that changed something.
  uint64_t event_of_last_ = 0;  // World::events_run() after the last of them.
  uint64_t operations_ = 0;
  std::vector<CrashPoint> points_;
  std::optional<uint32_t> acted_;           // Who did I/O since the last event.
  bool names_only_ = true;                  // And nothing but names.
  std::map<uint32_t, uint64_t> unflushed_;  // By server, as last seen.
  uint64_t commits_ = 0;                    // In flight, likewise.
  // The metadata store as last seen.
  const server::ModelKv* kv_ = nullptr;
  uint64_t made_ = 0;
  uint64_t durable_ = 0;
};

// Commits of the metadata store that nobody was told of yet.
uint64_t CommitsInFlight(SimCluster* cluster);

// Makes them crash, as the plan says.
void CrashServers(SimCluster* cluster, const PlannedCrash& crash);

}  // namespace cairn::sim
