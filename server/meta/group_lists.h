// GroupLists: which chunks the targets of a row have of each stripe, from the
// lists of all of them at once.
//
// Every list ascends, so they are merged page by page: memory is one page a
// target. Chunks that are not of the shard that a target has in the row are
// left out: they are of an older row.
//
// Threads: one loop. Lifetime: the orders outlive it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "format/base/ids.h"
#include "server/cluster/target_orders.h"

namespace cairn::server {

struct GroupStripe {
  struct Chunk {
    uint64_t chunk_bytes = 0;
    uint64_t stripe_bytes = 0;
  };
  format::BlobId blob;
  uint32_t stripe = 0;
  std::vector<std::optional<Chunk>> chunks;  // By shard.
};

class GroupLists {
 public:
  GroupLists(TargetOrders* orders, format::PgId pg,
             std::vector<format::TargetId> row);

  // In order of blob and stripe; nullopt: the end. kDataLoss: a target's list
  // is none that can be. Other errors: it cannot be had now.
  io::Task<absl::StatusOr<std::optional<GroupStripe>>> Next();

 private:
  struct Item {
    format::BlobId blob;
    uint32_t stripe = 0;
    GroupStripe::Chunk chunk;
  };
  struct Cursor {
    std::vector<Item> page;
    size_t at = 0;
    std::string next;
    bool started = false;
    bool is_last = false;
  };
  io::Task<absl::Status> Fill(uint32_t shard);
  absl::Status Take(const wire::ListChunksResponse& page, uint32_t shard);

  TargetOrders* const orders_;
  const format::PgId pg_;
  const std::vector<format::TargetId> row_;
  std::vector<Cursor> cursors_;  // By shard.
};

}  // namespace cairn::server
