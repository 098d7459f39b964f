// Sources: the other targets of a row, asked for their lists and bytes.
//
// Trust:    nothing. Lists must ascend, sizes must fit the scheme, and bytes
//           their checksums; what does not is an error of that source.
// Threads:  one loop.
// Lifetime: Close() before destruction (checked), which fails what is in
//           flight; `env` outlives this.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "format/cluster/cluster_map.h"
#include "format/wire/target.pb.h"
#include "io/rpc/channel.h"

namespace cairn::server {

class RepairGuard;

// What is to be made: shard `shard` of a row, for a pool of this shape.
struct ShardGoal {
  format::ClusterId cluster_id;
  format::TargetId target;  // That makes it.
  format::PgId pg;
  uint32_t shard = 0;
  format::Pool pool;  // Scheme and chunk size only.
  uint64_t meta_sequence = 0;
  // Null: for a target that is new in the row. Else it has the shard already,
  // and its damaged chunks are replaced.
  RepairGuard* repair = nullptr;
};

struct SourceChunk {
  format::ChunkId chunk;
  uint64_t chunk_bytes = 0;
  uint64_t stripe_bytes = 0;
};

class Sources {
 public:
  // `sources` were validated; in the order in which to read.
  Sources(io::Env* env, ShardGoal goal,
          std::vector<wire::RebuildSource> sources);
  ~Sources();
  Sources(const Sources&) = delete;
  Sources& operator=(const Sources&) = delete;

  uint32_t count() const { return static_cast<uint32_t>(sources_.size()); }
  uint32_t ShardOf(uint32_t source) const {
    return sources_[source].info.shard();
  }
  std::string NameOf(uint32_t source) const;

  // The source's chunks of its shard in the group, ascending, after `cursor`.
  // kDataLoss: the answer is none that a target may give.
  struct Page {
    std::vector<SourceChunk> chunks;
    std::string next;  // Empty: the end.
  };
  io::Task<absl::StatusOr<Page>> List(uint32_t source, std::string cursor);

  // What the source says it has of a chunk of its shard, without reading it;
  // nullopt: nothing that can be used.
  io::Task<absl::StatusOr<std::optional<SourceChunk>>> Look(uint32_t source,
                                                            format::BlobId blob,
                                                            uint32_t stripe);

  // Fills `to` with the chunk's bytes from `offset` on, verified. Asks twice
  // before it believes that bytes are damaged.
  // kDataLoss, kNotFound: the source does not have them. Others: not now.
  io::Task<absl::Status> Read(uint32_t source, SourceChunk chunk,
                              uint64_t offset, format::MutableBytes to);

  io::Task<void> Close();

 private:
  struct Source {
    wire::RebuildSource info;
    std::unique_ptr<io::Channel> channel;
  };
  io::CallOptions Options() const;
  io::Task<absl::Status> ReadOnce(uint32_t source, SourceChunk chunk,
                                  uint64_t offset, format::MutableBytes to);

  io::Env* const env_;
  const ShardGoal goal_;
  std::vector<Source> sources_;
  bool closed_ = false;
};

}  // namespace cairn::server
