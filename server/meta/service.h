// MetaService: the metadata service of a cluster, on one KvEngine and one loop.
//
//   MetaService::Bootstrap(kv, map)         once, at `init`
//   auto meta = co_await MetaService::Open(env, kv, orders, options);
//   (*meta)->Register(rpc_server);
//   (*meta)->Start();
//   ...
//   co_await (*meta)->Close();
//
// The operations are plain methods of its parts (names(), extents(),
// sessions(), sets()); Register() only wires them to RPC methods.
//
// Durability: an answer of a mutation means that it is on stable storage; an
//             answer of a read is made of durable state only.
// Threads:    one loop.
// Lifetime:   env, kv and orders outlive it. Close() before destruction
//             (checked); it does not close the engine.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "io/rpc/server.h"
#include "server/cluster/target_orders.h"
#include "server/meta/garbage.h"
#include "server/meta/health.h"
#include "server/meta/membership.h"
#include "server/meta/pools.h"
#include "server/meta/rebuild.h"
#include "server/meta/scrub.h"
#include "server/meta/sets.h"
#include "server/meta/trash.h"

namespace cairn::server {

class MetaService {
 public:
  // Initialises an empty store: the map (epoch 1 or more) and the root
  // directory. kAlreadyExists: it is initialised; nothing is changed.
  static io::Task<absl::Status> Bootstrap(io::Env* env, KvEngine* kv,
                                          format::ClusterMap map);

  // Loads map, sessions and open sets. kInvalidArgument: options that
  // contradict each other. kFailedPrecondition: not initialised, or written
  // by a newer version. kDataLoss: damaged records.
  static io::Task<absl::StatusOr<std::unique_ptr<MetaService>>> Open(
      io::Env* env, KvEngine* kv, TargetOrders* orders, MetaOptions options);
  ~MetaService();

  // Before server->Serve(). The server is closed before this service is.
  void Register(io::RpcServer* server);
  // Starts expiry, trash, garbage collection, heartbeats, rebuild, counting.
  void Start();
  // Stops background work, ends waits, and waits for calls in flight.
  io::Task<absl::Status> Close();

  // kFailedPrecondition: a target has seen newer metadata than this store has:
  // it is an old copy, and must not serve. Targets that do not answer are
  // passed over: call it when they are up.
  io::Task<absl::Status> CheckHighWaterMarks();

  // Where a target listens: in memory, raises no epoch.
  void SetTargetAddress(format::TargetId target, std::string address);
  // A change of PGs or target states: the next epoch, durably. Commits of
  // stripes in rows that got other targets are refused from then on if they
  // were written under an older epoch. Errors: MapHolder::Replace().
  io::Task<absl::Status> ReplaceMap(format::ClusterMap map);
  std::shared_ptr<const format::ClusterMap> map() const {
    return core_.map.map();
  }

  io::Task<absl::StatusOr<wire::GetMapResponse>> GetMap(
      wire::GetMapRequest request);
  io::Task<absl::StatusOr<wire::ClusterStatusResponse>> ClusterStatus(
      wire::ClusterStatusRequest request);

  Sessions& sessions() { return sessions_; }
  Membership& membership() { return membership_; }
  Pools& pools() { return pools_; }
  Namespace& names() { return names_; }
  Extents& extents() { return extents_; }
  Sets& sets() { return sets_; }
  Trash& trash() { return trash_; }
  Garbage& garbage() { return garbage_; }
  HealthMonitor& health() { return health_; }
  Rebuild& rebuild() { return rebuild_; }
  Scrub& scrub() { return scrub_; }

 private:
  MetaService(io::Env* env, KvEngine* kv, TargetOrders* orders,
              MetaOptions options);
  io::Task<absl::Status> Load();
  io::Task<void> SaveClockLoop();
  // Waits for the loops to end and for their Env to be left alone.
  io::Task<void> CountFiles(uint64_t first_new);
  io::Task<absl::Status> CountFilesBelow(uint64_t first_new);
  io::Task<void> AskTarget(format::TargetId target,
                           wire::TargetStatusResponse* status,
                           std::string* error);
  std::string DownReason(format::TargetId target) const;

  Core core_;
  TargetOrders* const orders_;
  Sessions sessions_;
  Extents extents_;
  Namespace names_;
  Sets sets_;
  Trash trash_;
  HealthMonitor health_;
  Membership membership_;
  Pools pools_;
  Chores chores_;
  Garbage garbage_;
  Rebuild rebuild_;
  Scrub scrub_;
  io::TimeNs started_ns_ = 0;
  uint64_t first_new_inode_ = 0;
  bool closed_ = false;
};

}  // namespace cairn::server
