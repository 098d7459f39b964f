// Which slots move when targets come, go, and change their failure domain.
#include "format/cluster/rebalance.h"

#include <map>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace cairn::format {
namespace {

using ::cairn::testing::StatusIs;

TargetInfo Target(uint32_t id, uint32_t host, uint64_t capacity = 100) {
  TargetInfo target;
  target.id = TargetId(id);
  target.host = absl::StrCat("h", host);
  target.rack = absl::StrCat("r", host / 2);
  target.capacity_bytes = capacity;
  return target;
}

// `hosts` hosts with `per_host` targets each, ids from 1 on.
RebalanceRequest Request(uint32_t hosts, uint32_t per_host, Scheme scheme,
                         FailureDomain domain, uint32_t pgs) {
  RebalanceRequest request;
  for (uint32_t i = 0; i < hosts * per_host; ++i) {
    request.placement.targets.push_back(Target(i + 1, i / per_host));
  }
  request.placement.scheme = scheme;
  request.placement.failure_domain = domain;
  request.placement.pg_count = pgs;
  request.placement.seed = 7;
  auto table = MakePgTable(request.placement);
  CAIRN_CHECK(table.ok());
  request.table = *std::move(table);
  return request;
}

constexpr Scheme kRs42 = {SchemeKind::kReedSolomon, 4, 2};

// Proposes and moves until nothing is left; all moves.
std::vector<SlotMove> Settle(RebalanceRequest* request) {
  std::vector<SlotMove> all;
  for (int round = 0; round < 1000; ++round) {
    const auto proposed = ProposeMoves(*request);
    EXPECT_OK(proposed);
    if (!proposed.ok() || proposed->moves.empty()) return all;
    std::set<uint32_t> rows;
    for (const SlotMove& move : proposed->moves) {
      EXPECT_TRUE(rows.insert(move.pg).second) << "row " << move.pg;
      all.push_back(move);
    }
    request->table =
        ApplyMoves(std::move(request->table),
                   request->placement.scheme.shards(), proposed->moves);
  }
  ADD_FAILURE() << "moves without end";
  return all;
}

std::map<TargetId, int64_t> Counts(const RebalanceRequest& request) {
  std::map<TargetId, int64_t> counts;
  for (const TargetInfo& target : request.placement.targets) {
    counts[target.id] = 0;
  }
  for (const TargetId target : request.table) ++counts[target];
  return counts;
}

void ExpectBalanced(const RebalanceRequest& request) {
  const auto shares = PlacementShares(request.placement);
  ASSERT_OK(shares);
  for (const auto& [target, count] : Counts(request)) {
    ASSERT_TRUE(shares->contains(target)) << target.value;
    EXPECT_NEAR(static_cast<double>(count), shares->at(target), 2)
        << "target " << target.value;
  }
}

void ExpectSpread(const RebalanceRequest& request) {
  std::map<TargetId, std::string> domain;
  for (const TargetInfo& target : request.placement.targets) {
    domain[target.id] =
        request.placement.failure_domain == FailureDomain::kHost ? target.host
        : request.placement.failure_domain == FailureDomain::kRack
            ? target.rack
            : absl::StrCat(target.id.value);
  }
  const uint32_t shards = request.placement.scheme.shards();
  for (uint32_t pg = 0; pg < request.placement.pg_count; ++pg) {
    std::set<std::string> seen;
    for (uint32_t i = 0; i < shards; ++i) {
      const TargetId target = request.table[pg * shards + i];
      ASSERT_TRUE(domain.contains(target)) << "pg " << pg;
      EXPECT_TRUE(seen.insert(domain[target]).second) << "pg " << pg;
    }
  }
}

TEST(ProposeMoves, SharesAreWhatANewTableGives) {
  RebalanceRequest request =
      Request(4, 3, {SchemeKind::kReplicate, 1, 2}, FailureDomain::kHost, 100);
  request.placement.targets[0].capacity_bytes = 250;
  const auto table = MakePgTable(request.placement);
  ASSERT_OK(table);
  request.table = *table;
  const auto shares = PlacementShares(request.placement);
  ASSERT_OK(shares);
  for (const auto& [target, count] : Counts(request)) {
    EXPECT_EQ(count, shares->at(target));
  }
}

TEST(ProposeMoves, NewTableNeedsNoMove) {
  for (const FailureDomain domain :
       {FailureDomain::kTarget, FailureDomain::kHost, FailureDomain::kRack}) {
    const auto proposed = ProposeMoves(Request(16, 2, kRs42, domain, 512));
    ASSERT_OK(proposed);
    EXPECT_THAT(proposed->moves, ::testing::IsEmpty());
    EXPECT_EQ(proposed->stuck, 0u);
  }
}

TEST(ProposeMoves, OnlyTheNewTargetGainsAndNoMoreThanItsShare) {
  RebalanceRequest request = Request(10, 1, kRs42, FailureDomain::kTarget, 160);
  request.placement.targets.push_back(Target(11, 10));
  const auto shares = PlacementShares(request.placement);
  ASSERT_OK(shares);
  const std::vector<SlotMove> moves = Settle(&request);
  for (const SlotMove& move : moves) EXPECT_EQ(move.to, TargetId(11));
  EXPECT_LE(moves.size(), shares->at(TargetId(11)));
  EXPECT_GE(moves.size() + 2, shares->at(TargetId(11)));
  ExpectBalanced(request);
  ExpectSpread(request);
}

TEST(ProposeMoves, NewHostTakesFromAllAndKeepsRowsSpread) {
  RebalanceRequest request = Request(8, 4, kRs42, FailureDomain::kHost, 512);
  for (uint32_t i = 0; i < 4; ++i) {
    request.placement.targets.push_back(Target(33 + i, 8));
  }
  const uint64_t slots = request.table.size();
  const std::vector<SlotMove> moves = Settle(&request);
  std::map<TargetId, uint32_t> given;
  for (const SlotMove& move : moves) {
    EXPECT_GE(move.to.value, 33u);
    ++given[move.from];
  }
  EXPECT_LE(moves.size(), slots / 9 + 4);
  EXPECT_EQ(given.size(), 32u);
  ExpectBalanced(request);
  ExpectSpread(request);
}

TEST(ProposeMoves, NewTargetStandsAtEveryPositionAboutEquallyOften) {
  RebalanceRequest request = Request(11, 1, kRs42, FailureDomain::kTarget, 176);
  request.placement.targets.push_back(Target(12, 11));
  Settle(&request);
  std::vector<int> at(6);
  for (size_t slot = 0; slot < request.table.size(); ++slot) {
    if (request.table[slot] == TargetId(12)) ++at[slot % 6];
  }
  const auto [least, most] = std::minmax_element(at.begin(), at.end());
  EXPECT_LE(*most - *least, 2);
}

TEST(ProposeMoves, TargetThatMayHoldNothingIsEmptiedAndNothingElseMoves) {
  RebalanceRequest request = Request(10, 1, kRs42, FailureDomain::kTarget, 160);
  std::erase_if(request.placement.targets,
                [](const TargetInfo& t) { return t.id == TargetId(4); });
  const int64_t had = 96;
  const std::vector<SlotMove> moves = Settle(&request);
  EXPECT_EQ(moves.size(), had);
  for (const SlotMove& move : moves) EXPECT_EQ(move.from, TargetId(4));
  ExpectBalanced(request);
  ExpectSpread(request);
}

TEST(ProposeMoves, TargetThatMovedToAnotherHostLeavesRowsOfThatHost) {
  RebalanceRequest request = Request(8, 2, kRs42, FailureDomain::kHost, 256);
  request.placement.targets[0].host = request.placement.targets[2].host;
  Settle(&request);
  ExpectSpread(request);
  ExpectBalanced(request);
}

TEST(ProposeMoves, TooFewFailureDomainsAreRefused) {
  RebalanceRequest request = Request(7, 1, kRs42, FailureDomain::kTarget, 70);
  request.placement.failure_domain = FailureDomain::kHost;
  request.placement.targets[0].host = request.placement.targets[1].host;
  const auto proposed = ProposeMoves(request);
  ASSERT_OK(proposed);  // Six hosts are enough for new rows.
  request.table = ApplyMoves(std::move(request.table), 6, proposed->moves);
  std::erase_if(request.placement.targets,
                [](const TargetInfo& t) { return t.id == TargetId(3); });
  EXPECT_THAT(ProposeMoves(request),
              StatusIs(absl::StatusCode::kInvalidArgument, "hosts"));
}

TEST(ProposeMoves, ProposalIsBoundedAndTheNextOneGoesOn) {
  RebalanceRequest request = Request(10, 1, kRs42, FailureDomain::kTarget, 160);
  request.placement.targets.push_back(Target(11, 10));
  request.moves_max = 5;
  const auto proposed = ProposeMoves(request);
  ASSERT_OK(proposed);
  EXPECT_EQ(proposed->moves.size(), 5u);
  Settle(&request);
  ExpectBalanced(request);
}

TEST(ProposeMoves, OrderOfTheTargetsDoesNotMatter) {
  RebalanceRequest request = Request(8, 2, kRs42, FailureDomain::kHost, 128);
  request.placement.targets.push_back(Target(17, 8));
  const auto one = ProposeMoves(request);
  std::reverse(request.placement.targets.begin(),
               request.placement.targets.end());
  const auto other = ProposeMoves(request);
  ASSERT_OK(one);
  ASSERT_OK(other);
  EXPECT_FALSE(one->moves.empty());
  EXPECT_EQ(one->moves, other->moves);
}

TEST(ProposeMoves, TableOfAnotherSizeIsRefused) {
  RebalanceRequest request = Request(10, 1, kRs42, FailureDomain::kTarget, 160);
  request.table.pop_back();
  EXPECT_THAT(ProposeMoves(request),
              StatusIs(absl::StatusCode::kInvalidArgument, "959"));
}

}  // namespace
}  // namespace cairn::format
