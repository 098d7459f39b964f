// The three steps of placement: shares, order, and shard positions. Internal
// to placement.cc, apart so that each can be tested and stated by itself.
//
// Part of the format: every step is exact integer arithmetic, with every tie
// broken by rule, so that tables can be made again anywhere.
// docs/format/placement.md says the same in prose.
#pragma once

#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "absl/numeric/int128.h"

namespace cairn::format::internal {

// Splits `total` among parties in proportion to `weights` (each > 0), at most
// `cap` each: first those whose share would reach the cap get it, then the rest
// is shared by largest remainder. The result sums to `total`, which is at most
// cap * weights.size() (checked). `seed` decides between equal remainders.
std::vector<uint32_t> Apportion(const std::vector<absl::uint128>& weights,
                                uint32_t total, uint32_t cap, uint64_t seed);

// An order in which parties take turns, evenly over time: the j-th turn of a
// party with n turns comes at a random instant of [j/n, (j+1)/n).
class Sequence {
 public:
  Sequence(const std::vector<uint32_t>& turns, uint64_t seed);

  // The next `count` different parties, soonest first. Parties that have as
  // many turns left as there are calls left (`calls_left`, this one included)
  // must take one in every call, and come before the others; 0: nobody must.
  std::vector<uint32_t> TakeDistinct(uint32_t count, uint32_t calls_left);

 private:
  struct Party {
    uint32_t turns = 0;
    uint32_t taken = 0;
    uint64_t next = 0;  // The instant of the next turn.
  };
  void Enqueue(uint32_t party);
  uint32_t Take(uint32_t party);

  uint64_t state_;  // Of the random numbers.
  std::vector<Party> parties_;
  std::set<std::pair<uint64_t, uint32_t>> by_instant_;
  // By turns left, most first (as ~left, so that begin() is the greatest).
  std::set<std::pair<uint32_t, uint32_t>> by_turns_left_;
};

// Permutes each row of `slots` (rows of `shards` different values below
// `targets`) so that within `block_rows` consecutive rows (counted from row 0)
// the numbers of times that a target stands at any two positions differ by at
// most 1.
void BalancePositions(uint32_t targets, uint32_t shards, uint32_t block_rows,
                      std::vector<uint32_t>* slots);

}  // namespace cairn::format::internal
