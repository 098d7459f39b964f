// TargetService: answers the RPCs of targets (format/wire/target.proto) from
// their chunk stores. docs/format/target.md says what is stored.
//
// Payload is received into, and sent from, buffers of env->pool(): when none is
// free, a put waits before it reads from its socket, so memory is bounded and
// the sender feels it. Disk operations of one target are shared between the
// traffic classes by weight (fair_queue.h).
//
// Threads:  one loop: that of `env`, the stores and the server.
// Lifetime: `env` and the stores outlive this; this outlives the RpcServer it
//           is registered with (close the server first, then destroy).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "format/wire/target.pb.h"
#include "io/env.h"
#include "io/rpc/server.h"
#include "server/target/chunk_store.h"
#include "server/target/fair_queue.h"

namespace cairn::server {

class TargetService {
 public:
  explicit TargetService(io::Env* env) : env_(env) {}
  TargetService(const TargetService&) = delete;
  TargetService& operator=(const TargetService&) = delete;

  // Serves `store` from now on. Its id is not served yet (checked).
  void AddStore(ChunkStore* store);
  bool Serves(uint32_t target) const { return targets_.contains(target); }

  // Before server->Serve(). Handles kPing, kPutChunk, kGetChunk, kListChunks,
  // kDeleteBlobs (of the metadata service's role only) and kTargetStatus.
  void Register(io::RpcServer* server);

 private:
  struct Target {
    ChunkStore* store = nullptr;
    std::unique_ptr<FairQueue> disk;
  };
  // kFailedPrecondition: not served here; the caller's map is old.
  absl::StatusOr<Target*> FindTarget(uint32_t target);

  io::Task<void> Ping(io::ServerCall* call);
  io::Task<void> PutChunk(io::ServerCall* call);
  io::Task<void> GetChunk(io::ServerCall* call);
  io::Task<void> ListChunks(io::ServerCall* call);
  io::Task<void> DeleteBlobs(io::ServerCall* call);
  io::Task<void> TargetStatus(io::ServerCall* call);

  io::Task<absl::StatusOr<wire::PutChunkResponse>> Put(io::ServerCall* call);
  io::Task<absl::Status> StorePut(io::ServerCall* call, Target* target,
                                  wire::PutChunkRequest request,
                                  ChunkRecord record,
                                  format::ConstBytes payload);
  io::Task<absl::StatusOr<ChunkStore::ReadResult>> ReadRange(
      io::ServerCall* call, Target* target, wire::GetChunkRequest request);
  io::Task<absl::StatusOr<wire::GetChunkResponse>> GetRecord(
      Target* target, wire::GetChunkRequest request);
  io::Task<absl::StatusOr<wire::ListChunksResponse>> List(io::ServerCall* call);
  io::Task<absl::StatusOr<wire::DeleteBlobsResponse>> Delete(
      io::ServerCall* call);

  io::Env* const env_;
  std::map<uint32_t, Target> targets_;
};

}  // namespace cairn::server
