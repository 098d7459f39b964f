// TargetService: answers the RPCs of targets (format/wire/target.proto) from
// their chunk stores. docs/format/target.md says what is stored.
//
// Payload is received into, and sent from, buffers of env->pool(): when none is
// free, a put waits before it reads from its socket, so memory is bounded and
// the sender feels it. The store shares its disk between the traffic classes.
//
// Threads:  one loop: that of `env`, the stores and the server.
// Lifetime: `env` and the stores outlive this; this outlives the RpcServer it
//           is registered with (close the server first, then destroy).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "format/wire/target.pb.h"
#include "io/env.h"
#include "io/rpc/server.h"
#include "server/target/chunk_store.h"
#include "server/target/rebuilder.h"
#include "server/target/scrubber.h"

namespace cairn::server {

class TargetService {
 public:
  // With a rate in `scrub` each store is scrubbed while it is served.
  explicit TargetService(io::Env* env, ScrubOptions scrub = {})
      : env_(env), scrub_(scrub), rebuilder_(env) {}
  TargetService(const TargetService&) = delete;
  TargetService& operator=(const TargetService&) = delete;

  // Serves `store` from now on. Its id is not served yet (checked).
  // `incarnation` is what the metadata service knows this start of it by.
  void AddStore(ChunkStore* store, uint64_t incarnation = 0);
  // From now on it is not. Calls under way end as they would have: the store
  // outlives them.
  void RemoveStore(uint32_t target);
  bool Serves(uint32_t target) const { return stores_.contains(target); }

  // Before server->Serve(). Handles kPing, kPutChunk, kGetChunk, kListChunks,
  // kTargetStatus, and of the metadata service's role only: kDeleteBlobs,
  // kRebuildShard and kDropGroup.
  void Register(io::RpcServer* server);
  // Ends rebuilds and scrubbing. After the server was closed, before the stores
  // are; not needed if no rebuild was ever ordered and nothing is scrubbed.
  io::Task<void> Close();

 private:
  // kFailedPrecondition: not served here; the caller's map is old.
  absl::StatusOr<ChunkStore*> FindStore(uint32_t target);

  io::Task<void> Ping(io::ServerCall* call);
  io::Task<void> PutChunk(io::ServerCall* call);
  io::Task<void> GetChunk(io::ServerCall* call);
  io::Task<void> ListChunks(io::ServerCall* call);
  io::Task<void> DeleteBlobs(io::ServerCall* call);
  io::Task<void> RebuildShard(io::ServerCall* call);
  io::Task<void> DropGroup(io::ServerCall* call);
  io::Task<void> TargetStatus(io::ServerCall* call);

  io::Task<absl::StatusOr<wire::PutChunkResponse>> Put(io::ServerCall* call);
  io::Task<absl::StatusOr<ChunkStore::ReadResult>> ReadRange(
      io::ServerCall* call, ChunkStore* store, wire::GetChunkRequest request);
  io::Task<absl::StatusOr<wire::GetChunkResponse>> GetRecord(
      ChunkStore* store, wire::GetChunkRequest request);
  io::Task<absl::StatusOr<wire::ListChunksResponse>> List(io::ServerCall* call);
  io::Task<absl::StatusOr<wire::DeleteBlobsResponse>> Delete(
      io::ServerCall* call);
  absl::StatusOr<wire::RebuildShardResponse> Rebuild(io::ServerCall* call);
  io::Task<absl::StatusOr<wire::DropGroupResponse>> Drop(io::ServerCall* call);

  wire::ScrubProgress ScrubOf(const ChunkStore& store,
                              const Scrubber* scrubber) const;

  io::Env* const env_;
  const ScrubOptions scrub_;
  struct Served {
    ChunkStore* store = nullptr;
    uint64_t incarnation = 0;
    std::unique_ptr<Scrubber> scrubber;  // Null: off.
  };
  std::map<uint32_t, Served> stores_;
  // Of stores that are not served any more: they are just ending.
  std::vector<std::unique_ptr<Scrubber>> stopping_;
  Rebuilder rebuilder_;
};

}  // namespace cairn::server
