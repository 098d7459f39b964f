#include "format/cluster/placement_steps.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <tuple>

#include "format/base/ids.h"
#include "format/base/limits.h"
#include "format/base/status.h"

namespace cairn::format::internal {
namespace {

// SplitMix64: a counter with this step, mixed.
constexpr uint64_t kGolden = 0x9e3779b97f4a7c15ULL;

// An instant is a fraction of 2^(kRandomBits + kExtraBits). Turns have at most
// 26 bits, so that turns * 2^kRandomBits * 2^kExtraBits fits 63.
constexpr uint32_t kRandomBits = 32;
constexpr uint32_t kExtraBits = 5;
static_assert(uint64_t{kPgsPerPoolMax} * kShardsMax < (uint64_t{1} << 26));

}  // namespace

std::vector<uint32_t> Apportion(const std::vector<absl::uint128>& weights,
                                uint32_t total, uint32_t cap, uint64_t seed) {
  CAIRN_CHECK(uint64_t{cap} * weights.size() >= total);
  std::vector<uint32_t> shares(weights.size(), 0);
  std::vector<uint32_t> open(weights.size());  // Not at the cap.
  std::iota(open.begin(), open.end(), 0u);
  absl::uint128 weight_sum = 0;
  for (const absl::uint128& weight : weights) weight_sum += weight;
  uint32_t left = total;

  // Each round caps someone, or ends. Sums are those of the round's start, so
  // that the order within a round does not matter.
  for (bool capped = true; capped && left > 0;) {
    const uint32_t round_left = left;
    const absl::uint128 round_sum = weight_sum;
    const auto at_cap = [&](uint32_t i) {
      return weights[i] * round_left >= round_sum * cap;
    };
    capped = false;
    for (const uint32_t i : open) {
      if (!at_cap(i)) continue;
      shares[i] = cap;
      left -= cap;
      weight_sum -= weights[i];
      capped = true;
    }
    std::erase_if(open, at_cap);
  }
  if (left == 0) return shares;

  std::vector<std::tuple<absl::uint128, uint64_t, uint32_t>> remainders;
  const uint32_t to_share = left;
  for (const uint32_t i : open) {
    const absl::uint128 product = weights[i] * to_share;
    shares[i] = static_cast<uint32_t>(product / weight_sum);
    left -= shares[i];
    // Greatest remainder first, so its complement sorts ascending.
    remainders.emplace_back(weight_sum - product % weight_sum,
                            Mix64(seed ^ (kGolden * (i + 1))), i);
  }
  std::sort(remainders.begin(), remainders.end());
  CAIRN_CHECK(left <= remainders.size());
  for (uint32_t i = 0; i < left; ++i) ++shares[std::get<2>(remainders[i])];
  return shares;
}

Sequence::Sequence(const std::vector<uint32_t>& turns, uint64_t seed)
    : state_(seed), parties_(turns.size()) {
  for (uint32_t i = 0; i < turns.size(); ++i) {
    parties_[i].turns = turns[i];
    Enqueue(i);
  }
}

void Sequence::Enqueue(uint32_t party) {
  Party& p = parties_[party];
  if (p.taken == p.turns) return;
  state_ += kGolden;
  const uint64_t random = Mix64(state_) >> (64 - kRandomBits);
  const uint64_t point = (uint64_t{p.taken} << kRandomBits) + random;
  p.next = (point << kExtraBits) / p.turns;
  by_instant_.emplace(p.next, party);
  by_turns_left_.emplace(~(p.turns - p.taken), party);
}

uint32_t Sequence::Take(uint32_t party) {
  Party& p = parties_[party];
  by_instant_.erase({p.next, party});
  by_turns_left_.erase({~(p.turns - p.taken), party});
  ++p.taken;
  return party;
}

std::vector<uint32_t> Sequence::TakeDistinct(uint32_t count,
                                             uint32_t calls_left) {
  std::vector<uint32_t> taken;
  taken.reserve(count);
  while (calls_left > 0 && taken.size() < count && !by_turns_left_.empty() &&
         ~by_turns_left_.begin()->first >= calls_left) {
    taken.push_back(Take(by_turns_left_.begin()->second));
  }
  while (taken.size() < count) {
    CAIRN_CHECK(!by_instant_.empty());
    taken.push_back(Take(by_instant_.begin()->second));
  }
  // Back in line only now, so that nobody was taken twice.
  for (const uint32_t party : taken) Enqueue(party);
  return taken;
}

namespace {

constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();

// An edge colouring of a bipartite graph with as many colours as the greatest
// degree (König). Left: a row's positions are the colours of its edges. Right:
// a "group" is `colours` consecutive appearances of one target in the block, so
// distinct colours in each group are balanced positions of the target.
class EdgeColouring {
 public:
  EdgeColouring(uint32_t rows, uint32_t groups, uint32_t colours)
      : colours_(colours),
        group_of_(uint64_t{rows} * colours, kNone),
        row_of_(uint64_t{groups} * colours, kNone) {}

  void Add(uint32_t row, uint32_t group) {
    const uint32_t at_row = FirstFree(group_of_, row);
    const uint32_t at_group = FirstFree(row_of_, group);
    // Both ends must agree on a colour: make the row's free at the group too.
    if (row_of_[Cell(group, at_row)] != kNone) {
      SwapPath(group, at_row, at_group);
    }
    Set(row, group, at_row);
  }

  // The group at `position` of `row`.
  uint32_t GroupAt(uint32_t row, uint32_t position) const {
    return group_of_[Cell(row, position)];
  }

 private:
  struct Edge {
    uint32_t row;
    uint32_t group;
    uint32_t colour;
  };

  uint64_t Cell(uint32_t node, uint32_t colour) const {
    return uint64_t{node} * colours_ + colour;
  }

  uint32_t FirstFree(const std::vector<uint32_t>& cells, uint32_t node) const {
    uint32_t colour = 0;
    while (colour < colours_ && cells[Cell(node, colour)] != kNone) ++colour;
    CAIRN_CHECK(colour < colours_);  // No node has more edges than colours.
    return colour;
  }

  void Set(uint32_t row, uint32_t group, uint32_t colour) {
    group_of_[Cell(row, colour)] = group;
    row_of_[Cell(group, colour)] = row;
  }

  // Follows the edges of colours a, b, a, ... from `group`, and swaps the two
  // colours on all of them. The path ends, for a and b alternate and `group`
  // has no edge of colour b. It never reaches a row without an edge of colour
  // a, because it enters rows by such edges.
  void SwapPath(uint32_t group, uint32_t a, uint32_t b) {
    path_.clear();
    while (true) {
      const uint32_t row = row_of_[Cell(group, a)];
      if (row == kNone) break;
      path_.push_back({row, group, a});
      const uint32_t next = group_of_[Cell(row, b)];
      if (next == kNone) break;
      path_.push_back({row, next, b});
      group = next;
    }
    for (const Edge& edge : path_) {
      group_of_[Cell(edge.row, edge.colour)] = kNone;
      row_of_[Cell(edge.group, edge.colour)] = kNone;
    }
    for (const Edge& edge : path_) {
      Set(edge.row, edge.group, edge.colour == a ? b : a);
    }
  }

  uint32_t colours_;
  std::vector<uint32_t> group_of_;  // [row][colour]
  std::vector<uint32_t> row_of_;    // [group][colour]
  std::vector<Edge> path_;
};

void BalanceBlock(uint32_t targets, uint32_t shards, uint32_t* slots,
                  uint32_t rows) {
  // Groups are numbered in the order in which they are opened.
  struct Open {
    uint32_t group = kNone;
    uint32_t appearances = 0;
  };
  std::vector<Open> open(targets);
  std::vector<uint32_t> target_of;  // By group.
  std::vector<uint32_t> groups(uint64_t{rows} * shards);
  for (uint64_t i = 0; i < groups.size(); ++i) {
    Open& own = open[slots[i]];
    if (own.appearances++ % shards == 0) {
      own.group = static_cast<uint32_t>(target_of.size());
      target_of.push_back(slots[i]);
    }
    groups[i] = own.group;
  }
  EdgeColouring colouring(rows, static_cast<uint32_t>(target_of.size()),
                          shards);
  for (uint64_t i = 0; i < groups.size(); ++i) {
    colouring.Add(static_cast<uint32_t>(i / shards), groups[i]);
  }
  for (uint64_t i = 0; i < groups.size(); ++i) {
    const auto row = static_cast<uint32_t>(i / shards);
    const auto position = static_cast<uint32_t>(i % shards);
    slots[i] = target_of[colouring.GroupAt(row, position)];
  }
}

}  // namespace

void BalancePositions(uint32_t targets, uint32_t shards, uint32_t block_rows,
                      std::vector<uint32_t>* slots) {
  CAIRN_CHECK(shards > 0 && block_rows > 0);
  CAIRN_CHECK(slots->size() % shards == 0);
  const auto rows = static_cast<uint32_t>(slots->size() / shards);
  for (uint32_t row = 0; row < rows; row += block_rows) {
    BalanceBlock(targets, shards, slots->data() + uint64_t{row} * shards,
                 std::min(block_rows, rows - row));
  }
}

}  // namespace cairn::format::internal
