#include "format/cluster/replacement.h"

#include <algorithm>
#include <string>

#include "gtest/gtest.h"

namespace cairn::format {
namespace {

// Two targets on each host; one row of replicate:2 on targets 1 and 3.
ClusterMap MakeMap(uint32_t targets, FailureDomain domain) {
  ClusterMap map;
  map.epoch = Epoch(1);
  for (uint32_t id = 1; id <= targets; ++id) {
    TargetInfo target;
    target.id = TargetId(id);
    target.host = "host" + std::to_string((id + 1) / 2);
    target.capacity_bytes = kGiB;
    map.targets[target.id] = target;
  }
  Pool pool;
  pool.id = PoolId(1);
  pool.scheme = {SchemeKind::kReplicate, 1, 1};
  pool.failure_domain = domain;
  pool.pg_count = 1;
  pool.stripe_width = 1;
  pool.pg_targets = {TargetId(1), TargetId(3)};
  map.pools[pool.id] = pool;
  return map;
}

ReplacementRequest RequestOf(const ClusterMap& map, uint32_t shard) {
  ReplacementRequest request;
  request.map = &map;
  request.pg = {PoolId(1), 0};
  request.shard = shard;
  return request;
}

TEST(Replacement, IsNeverInTheRowAlreadyNorTheOneThatLeaves) {
  const ClusterMap map = MakeMap(4, FailureDomain::kTarget);
  for (const uint32_t shard : {0u, 1u}) {
    const auto chosen =
        ChooseReplacement(RequestOf(map, shard), CountSlots(map));
    ASSERT_TRUE(chosen.has_value());
    EXPECT_TRUE(*chosen == TargetId(2) || *chosen == TargetId(4));
  }
}

TEST(Replacement, SharesNoFailureDomainIfThereIsAnother) {
  const ClusterMap map = MakeMap(6, FailureDomain::kHost);
  TargetLoads loads = CountSlots(map);
  // Target 4 is the idlest, but on the host of target 3, which stays.
  for (auto& [id, slots] : loads) slots = id == TargetId(4) ? 0 : 10;
  const auto chosen = ChooseReplacement(RequestOf(map, 0), loads);
  ASSERT_TRUE(chosen.has_value());
  EXPECT_NE(*chosen, TargetId(4));
  // Target 2 is on the host of the one that leaves: that is no harm.
  loads[TargetId(2)] = 0;
  EXPECT_EQ(ChooseReplacement(RequestOf(map, 0), loads), TargetId(2));
}

TEST(Replacement, SharesADomainRatherThanLeaveTheRowWithAShardLess) {
  ClusterMap map = MakeMap(4, FailureDomain::kHost);
  map.targets[TargetId(2)].state = TargetState::kDown;
  EXPECT_EQ(ChooseReplacement(RequestOf(map, 0), CountSlots(map)), TargetId(4));
}

TEST(Replacement, OfATargetThatMayStaySharesNoDomainWhichThatOneDoesNot) {
  ClusterMap map = MakeMap(4, FailureDomain::kHost);
  map.targets[TargetId(2)].state = TargetState::kDown;
  ReplacementRequest request = RequestOf(map, 0);
  request.may_stay = true;
  EXPECT_EQ(ChooseReplacement(request, CountSlots(map)), std::nullopt);
  map.targets[TargetId(2)].state = TargetState::kUp;
  EXPECT_EQ(ChooseReplacement(request, CountSlots(map)), TargetId(2));
  // It shares one already: nothing gets worse.
  map.targets[TargetId(2)].state = TargetState::kDown;
  map.targets[TargetId(1)].host = "host2";
  EXPECT_EQ(ChooseReplacement(request, CountSlots(map)), TargetId(4));
}

TEST(Replacement, IsTheLeastLoadedForItsCapacity) {
  ClusterMap map = MakeMap(6, FailureDomain::kTarget);
  TargetLoads loads = CountSlots(map);
  loads[TargetId(2)] = 9;
  loads[TargetId(4)] = 5;
  loads[TargetId(5)] = 9;
  loads[TargetId(6)] = 9;
  EXPECT_EQ(ChooseReplacement(RequestOf(map, 0), loads), TargetId(4));
  map.targets[TargetId(6)].capacity_bytes = 3 * kGiB;
  EXPECT_EQ(ChooseReplacement(RequestOf(map, 0), loads), TargetId(6));
}

TEST(Replacement, ThereIsNoneIfAllOthersAreAwayJoiningOrExcluded) {
  ClusterMap map = MakeMap(5, FailureDomain::kTarget);
  map.targets[TargetId(5)].state = TargetState::kSuspect;
  ReplacementRequest request = RequestOf(map, 1);
  request.joining.insert(TargetId(2));
  request.excluded.insert(TargetId(4));
  EXPECT_EQ(ChooseReplacement(request, CountSlots(map)), std::nullopt);
  request.shard = 2;
  EXPECT_EQ(ChooseReplacement(request, CountSlots(map)), std::nullopt);
}

TEST(Replacement, EqualTargetsShareTheRows) {
  ClusterMap map = MakeMap(8, FailureDomain::kTarget);
  Pool& pool = map.pools[PoolId(1)];
  pool.pg_count = 60;
  pool.pg_targets.clear();
  for (uint32_t pg = 0; pg < pool.pg_count; ++pg) {
    pool.pg_targets.push_back(TargetId(1));
    pool.pg_targets.push_back(TargetId(3));
  }
  TargetLoads loads = CountSlots(map);
  TargetLoads taken;
  for (uint32_t pg = 0; pg < pool.pg_count; ++pg) {
    ReplacementRequest request = RequestOf(map, 0);
    request.pg.index = pg;
    const auto chosen = ChooseReplacement(request, loads);
    ASSERT_TRUE(chosen.has_value());
    ++loads[*chosen];
    ++taken[*chosen];
  }
  ASSERT_EQ(taken.size(), 6u);
  for (const auto& [id, rows] : taken) EXPECT_EQ(rows, 10u) << id.value;
}

}  // namespace
}  // namespace cairn::format
