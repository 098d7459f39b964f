// Stage: what a scenario of the crash enumeration works with: the cluster, its
// clients, what must be there whatever crashes, and the first violation.
//
// Methods with a plain result drive the world; tasks run in it.
// Lifetime: models handed in outlive it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tests/sim/cluster/sample_model.h"
#include "tests/sim/cluster/sim_cluster.h"

namespace cairn::sim {

class Stage {
 public:
  explicit Stage(SimCluster* cluster) : cluster_(cluster) {}

  SimCluster* cluster() { return cluster_; }
  World* world() { return cluster_->world(); }

  // --- Clients. A process that is not connected yet, and a connected one; not
  // to be used if that was a violation.
  SimClient* AddClient(const std::string& name);
  SimClient* NewClient(const std::string& name);
  // Ends their sessions: nothing they asked for happens after that.
  void CloseClients();
  // For an action that is given up: what it waits for ends by its deadline.
  // They are closed with the cluster, after it.
  void KillClients();

  // --- What was acknowledged, to be there whatever crashes. The scenario
  // takes out what its action changes, and checks that itself.
  std::map<std::string, std::string> files;        // By path.
  std::map<std::string, const SampleModel*> sets;  // By path.
  // Makes the file with these bytes, or saves the set with two ranks, and adds
  // it to them.
  void MakeFile(const std::string& path, std::string bytes);
  void MakeSet(const std::string& path, const SampleModel* model);
  // All of them are there, with their bytes, every shard of every stripe too.
  void CheckKept();

  // --- The verdict.
  void Violation(std::string what);
  // It must be OK.
  bool Must(const absl::Status& status, const std::string& what);
  // It may be an error that tells the caller to try again.
  void MayFailCleanly(const absl::Status& status, const std::string& what);
  bool violated() const { return !violation_.empty(); }
  const std::string& violation() const { return violation_; }
  // The action did all that it wanted.
  bool finished = false;

 private:
  SimCluster* const cluster_;
  std::vector<SimClient*> clients_;  // Those that are not closed.
  uint64_t clients_made_ = 0;
  std::string violation_;
};

// One thing to do while servers crash. A new object for each run; it outlives
// the cluster. Its methods are called in this order.
class Scenario {
 public:
  virtual ~Scenario() = default;
  virtual ClusterOptions Cluster(uint64_t seed) const = 0;
  // Are I/O operations of this server (0: metadata) points to crash at?
  virtual bool Counts(uint32_t) const { return true; }
  // Before: acknowledged data. May leave servers down: they are then started
  // beside the action.
  virtual void Prepare(Stage* stage) = 0;
  // What servers crash in the middle of. Ends by itself, whatever crashes.
  virtual io::Task<void> Act(Stage* stage) = 0;
  // All servers are up, the action has ended, its clients are gone.
  virtual void Check(Stage* stage) = 0;
  // The action once more: now it must succeed.
  virtual void Repeat(Stage* stage) = 0;
};

}  // namespace cairn::sim
