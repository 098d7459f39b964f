#include "server/meta/row_closing.h"

#include "gtest/gtest.h"

namespace cairn::server {
namespace {

using format::ClusterMap;
using format::Pool;
using format::TargetId;
using format::TargetState;

// Row i has targets 2i+1 and 2i+2 alone, so that rows fall ill one by one.
ClusterMap MakeMap(uint32_t rows, uint32_t width) {
  ClusterMap map;
  map.epoch = format::Epoch(1);
  Pool pool;
  pool.id = format::PoolId(1);
  pool.scheme = {format::SchemeKind::kReplicate, 1, 1};
  pool.pg_count = rows;
  pool.stripe_width = width;
  for (uint32_t id = 1; id <= 2 * rows; ++id) {
    format::TargetInfo target;
    target.id = TargetId(id);
    map.targets[target.id] = target;
    pool.pg_targets.push_back(target.id);
  }
  map.pools[pool.id] = pool;
  return map;
}

Pool& PoolOf(ClusterMap& map) { return map.pools.begin()->second; }
void Spoil(ClusterMap* map, uint32_t pg, TargetState state) {
  map->targets[TargetId(2 * pg + 1)].state = state;
}
bool HaveOthers(ClusterMap& map, uint32_t pg) {
  return WritersHaveOthers(map, PoolOf(map), pg);
}

TEST(RowClosing, WritersHaveOthersWhileEveryRunOfTheirRowsHasOne) {
  ClusterMap map = MakeMap(10, 3);
  EXPECT_TRUE(HaveOthers(map, 4));
  Spoil(&map, 3, TargetState::kDown);
  EXPECT_TRUE(HaveOthers(map, 4));  // 2 and 5 are three rows apart.
  Spoil(&map, 5, TargetState::kSuspect);
  EXPECT_FALSE(HaveOthers(map, 4));  // Rows 3, 4, 5.
  EXPECT_TRUE(HaveOthers(map, 8));
}

TEST(RowClosing, RunsGoAroundTheEndOfTheTable) {
  ClusterMap map = MakeMap(10, 3);
  Spoil(&map, 9, TargetState::kOut);
  EXPECT_TRUE(HaveOthers(map, 0));
  Spoil(&map, 1, TargetState::kOut);
  EXPECT_FALSE(HaveOthers(map, 0));
}

TEST(RowClosing, OneOtherIsEnoughForBlobsThatHaveAllRows) {
  ClusterMap map = MakeMap(4, 4);
  Spoil(&map, 0, TargetState::kDown);
  Spoil(&map, 3, TargetState::kDown);
  EXPECT_TRUE(HaveOthers(map, 1));
  PoolOf(map).Close(2);
  EXPECT_FALSE(HaveOthers(map, 1));
}

TEST(RowClosing, RowsThatAreEmptiedTakeStripesUntilTheyClose) {
  ClusterMap map = MakeMap(2, 2);
  Spoil(&map, 0, TargetState::kDraining);
  EXPECT_TRUE(HaveOthers(map, 1));
}

TEST(RowClosing, BlobsOfOneRowWait) {
  ClusterMap map = MakeMap(1, 1);
  EXPECT_TRUE(MayClose(map, PoolOf(map), 0));
}

TEST(RowClosing, FewAreClosedAtATimeAndNoneTwice) {
  ClusterMap map = MakeMap(24, 24);
  Pool& pool = PoolOf(map);
  for (const uint32_t pg : {20u, 3u, 9u}) {
    EXPECT_TRUE(MayClose(map, pool, pg));
    pool.Close(pg);
    EXPECT_FALSE(MayClose(map, pool, pg));
  }
  EXPECT_FALSE(MayClose(map, pool, 12));
  pool.Open(3);
  EXPECT_TRUE(MayClose(map, pool, 12));
}

}  // namespace
}  // namespace cairn::server
