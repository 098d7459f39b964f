// ProposeMoves: which slots of a PG table should get another target, after
// targets came, left, or moved to another failure domain.
//
// Pure and deterministic: integers only, each tie broken by rule; the order of
// the targets does not matter. docs/format/placement.md#moves.
//
// Least movement: a slot moves only if it must (its target may hold no data, or
//            shares a failure domain with another of the row) or if its target
//            has more than its share while another has less. Never between two
//            targets that have their shares, give or take one.
// One a row: a proposal names at most one slot of each row, so that no row
//            lacks more than one shard while it is carried out. Ask again with
//            the new table until nothing is proposed.
// Balance:   when nothing is proposed any more, and enough failure domains have
//            room, every target's slots differ from its share by at most 1; two
//            targets that both do differ by 2 at most. Of the slots that could
//            move, those are taken whose shard position the new target has
//            least.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "format/cluster/placement.h"

namespace cairn::format {

struct SlotMove {
  uint32_t pg = 0;
  uint32_t shard = 0;  // Position in the row: stays.
  TargetId from;
  TargetId to;
  friend bool operator==(const SlotMove&, const SlotMove&) = default;
};

struct RebalanceRequest {
  // As for a new table; its targets are those that may hold data from now on.
  PlacementRequest placement;
  // What is there: pg_count rows; it may name others, too.
  std::vector<TargetId> table;
  uint32_t moves_max = UINT32_MAX;
};

struct Rebalance {
  std::vector<SlotMove> moves;  // Those that must be first, then by row.
  // Slots that must move, but for which no failure domain has room in the row.
  uint64_t stuck = 0;
};

// Errors as MakePgTable(); also kInvalidArgument: a table of another size.
absl::StatusOr<Rebalance> ProposeMoves(const RebalanceRequest& request);

// The table with the moves made.
std::vector<TargetId> ApplyMoves(std::vector<TargetId> table, uint32_t shards,
                                 const std::vector<SlotMove>& moves);

}  // namespace cairn::format
