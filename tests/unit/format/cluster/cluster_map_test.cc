#include "format/cluster/cluster_map.h"

#include <set>
#include <string>
#include <vector>

#include "format/cluster/placement.h"
#include "format/wire/common.pb.h"
#include "tests/support/status_matchers.h"

namespace cairn::format {
namespace {

using ::cairn::testing::StatusIs;
using ::testing::ElementsAre;

// Two pools over seven targets.
ClusterMap MakeMap() {
  ClusterMap map;
  for (uint8_t i = 0; i < 16; ++i) map.cluster_id.bytes[i] = i;
  map.epoch = Epoch(12);
  PlacementRequest request;
  for (uint32_t id = 1; id <= 7; ++id) {
    TargetInfo target;
    target.id = TargetId(id);
    target.address = "127.0.0.1:" + std::to_string(40000 + id);
    target.host = "host" + std::to_string(id);
    target.rack = "räck";
    target.state = id == 7 ? TargetState::kDraining : TargetState::kUp;
    target.capacity_bytes = uint64_t{id} << 40;
    target.directory = "/srv/t" + std::to_string(id);
    request.targets.push_back(target);
    map.targets[target.id] = target;
  }
  for (const uint16_t id : {uint16_t{1}, uint16_t{9}}) {
    Pool pool;
    pool.id = PoolId(id);
    pool.name = "pool" + std::to_string(id);
    pool.scheme = id == 1 ? Scheme{SchemeKind::kReedSolomon, 4, 2}
                          : Scheme{SchemeKind::kReplicate, 1, 2};
    pool.chunk_size = id == 1 ? 1u << 20 : 4u << 20;
    pool.failure_domain = FailureDomain::kHost;
    pool.pg_count = 14;
    pool.stripe_width = 5;
    request.scheme = pool.scheme;
    request.pg_count = pool.pg_count;
    pool.pg_targets = *MakePgTable(request);
    for (uint32_t pg = 0; pg < pool.pg_count; ++pg) {
      pool.pg_epochs.push_back(Epoch(pg % 3 == 0 ? 12 : 1 + pg % 3));
    }
    if (id == 1) pool.closed_pgs = {2, 5, 13};
    map.pools[pool.id] = pool;
  }
  return map;
}

wire::ClusterMap MakeProto() {
  wire::ClusterMap proto;
  MapToProto(MakeMap(), &proto);
  return proto;
}

TEST(Scheme, TextAndSchemeAreEachOthersInverse) {
  for (const char* text : {"rs:1+0", "rs:4+2", "rs:32+8", "rs:10+4",
                           "replicate:1", "replicate:3", "replicate:9"}) {
    const auto scheme = ParseScheme(text);
    ASSERT_OK(scheme);
    EXPECT_EQ(ToString(*scheme), text);
  }
  const auto scheme = ParseScheme("rs:4+2");
  ASSERT_OK(scheme);
  EXPECT_EQ(*scheme, (Scheme{SchemeKind::kReedSolomon, 4, 2}));
  const auto copies = ParseScheme("replicate:3");
  ASSERT_OK(copies);
  EXPECT_EQ(*copies, (Scheme{SchemeKind::kReplicate, 1, 2}));
}

TEST(Scheme, BadTextIsRefusedWithTheReasonAndWhatIsAllowed) {
  const struct {
    const char* text;
    const char* reason;
  } kCases[] = {
      {"", "it starts with neither rs: nor replicate:"},
      {"RS:4+2", "it starts with neither rs: nor replicate:"},
      {"raid:5", "it starts with neither rs: nor replicate:"},
      {"rs:4", "the '+' between K and M is missing"},
      {"rs:", "the '+' between K and M is missing"},
      {"rs:+2", "K is not a number"},
      {"rs:x+2", "K is not a number"},
      {"rs:-4+2", "K is not a number"},
      {"rs: 4+2", "K is not a number"},
      {"rs:04+2", "K is not a number"},
      {"rs:4294967300+2", "K is not a number"},
      {"rs:4+", "M is not a number"},
      {"rs:4+2 ", "M is not a number"},
      {"rs:4+2+1", "M is not a number"},
      {"rs:0+2", "K is 0"},
      {"rs:33+2", "K is 33"},
      {"rs:4+9", "M is 9"},
      {"replicate:", "R is not a number"},
      {"replicate:two", "R is not a number"},
      {"replicate:0", "R is 0"},
      {"replicate:10", "R is 10"},
  };
  for (const auto& [text, reason] : kCases) {
    SCOPED_TRACE(text);
    EXPECT_THAT(ParseScheme(text),
                StatusIs(absl::StatusCode::kInvalidArgument, reason));
    EXPECT_THAT(ParseScheme(text), StatusIs(absl::StatusCode::kInvalidArgument,
                                            "rs:K+M (K data shards, 1 to 32"));
  }
  EXPECT_THAT(ParseScheme("rs:\n+2"),
              StatusIs(absl::StatusCode::kInvalidArgument, "\"rs:\\x0a+2\""));
}

TEST(Pool, ABlobsStripesUseStripeWidthConsecutivePgs) {
  const ClusterMap map = MakeMap();
  const Pool& pool = *map.FindPool(PoolId(1));
  for (uint64_t sequence = 1; sequence < 200; ++sequence) {
    const BlobId blob = BlobId::Make(pool.id, sequence);
    const uint32_t first = pool.PgOf(blob, 0);
    EXPECT_EQ(first, Mix64(blob.value) % pool.pg_count);
    std::set<uint32_t> used;
    for (uint32_t stripe = 0; stripe < 20; ++stripe) {
      const uint32_t pg = pool.PgOf(blob, stripe);
      EXPECT_EQ(pg, (first + stripe % pool.stripe_width) % pool.pg_count);
      used.insert(pg);
    }
    EXPECT_EQ(used.size(), pool.stripe_width);
  }
}

// Placement is computed by everyone, for ever: these are part of the format.
TEST(Pool, PgOfKnownBlobsNeverChanges) {
  Pool pool;
  pool.pg_count = 96;
  pool.stripe_width = 16;
  const BlobId blob = BlobId::Make(PoolId(1), 42);
  EXPECT_EQ(pool.PgOf(blob, 0), 33u);
  EXPECT_EQ(pool.PgOf(blob, 15), 48u);
  EXPECT_EQ(pool.PgOf(blob, 16), 33u);
}

TEST(Pool, RowsAreTheSlicesOfTheTable) {
  Pool pool;
  pool.scheme = {SchemeKind::kReedSolomon, 2, 1};
  pool.pg_count = 2;
  for (uint32_t id = 1; id <= 6; ++id) pool.pg_targets.emplace_back(id);
  const auto row = pool.PgTargets(1);
  EXPECT_THAT(std::vector<TargetId>(row.begin(), row.end()),
              ElementsAre(TargetId(4), TargetId(5), TargetId(6)));
  EXPECT_DEATH(pool.PgTargets(2), "check failed");
}

TEST(ClusterMap, FindsWhatItHasAndNothingElse) {
  const ClusterMap map = MakeMap();
  EXPECT_EQ(map.FindTarget(TargetId(3))->host, "host3");
  EXPECT_EQ(map.FindTarget(TargetId(8)), nullptr);
  EXPECT_EQ(map.FindPool(PoolId(9))->name, "pool9");
  EXPECT_EQ(map.FindPool(PoolId(2)), nullptr);
  EXPECT_EQ(map.FindPool("pool9")->id, PoolId(9));
  EXPECT_EQ(map.FindPool("pool"), nullptr);
}

TEST(ClusterMap, APgIsHealthyOnlyWhileAllItsTargetsAreUp) {
  ClusterMap map = MakeMap();
  map.targets[TargetId(7)].state = TargetState::kUp;
  const Pool& pool = *map.FindPool(PoolId(9));
  const TargetId member = pool.PgTargets(3)[1];
  EXPECT_TRUE(map.PgHealthy(pool, 3));
  for (const TargetState state : {TargetState::kSuspect, TargetState::kDown,
                                  TargetState::kOut, TargetState::kDraining}) {
    map.targets[member].state = state;
    EXPECT_FALSE(map.PgHealthy(pool, 3)) << static_cast<uint32_t>(state);
  }
  map.targets.erase(member);
  EXPECT_FALSE(map.PgHealthy(pool, 3));
}

void ExpectSameTarget(const TargetInfo& a, const TargetInfo& b) {
  EXPECT_EQ(a.id, b.id);
  EXPECT_EQ(a.address, b.address);
  EXPECT_EQ(a.host, b.host);
  EXPECT_EQ(a.rack, b.rack);
  EXPECT_EQ(a.state, b.state);
  EXPECT_EQ(a.capacity_bytes, b.capacity_bytes);
  EXPECT_EQ(a.directory, b.directory);
}

void ExpectSamePool(const Pool& a, const Pool& b) {
  EXPECT_EQ(a.id, b.id);
  EXPECT_EQ(a.name, b.name);
  EXPECT_EQ(a.scheme, b.scheme);
  EXPECT_EQ(a.chunk_size, b.chunk_size);
  EXPECT_EQ(a.stripe_width, b.stripe_width);
  EXPECT_EQ(a.failure_domain, b.failure_domain);
  EXPECT_EQ(a.pg_count, b.pg_count);
  EXPECT_EQ(a.pg_targets, b.pg_targets);
  EXPECT_EQ(a.pg_epochs, b.pg_epochs);
  EXPECT_EQ(a.closed_pgs, b.closed_pgs);
}

TEST(ClusterMapProto, RoundTripKeepsEveryField) {
  const ClusterMap map = MakeMap();
  wire::ClusterMap parsed;
  ASSERT_TRUE(parsed.ParseFromString(MakeProto().SerializeAsString()));
  const auto again = MapFromProto(parsed);
  ASSERT_OK(again);
  EXPECT_EQ(again->cluster_id, map.cluster_id);
  EXPECT_EQ(again->epoch, map.epoch);
  ASSERT_EQ(again->targets.size(), 7u);
  for (const auto& [id, target] : map.targets) {
    ExpectSameTarget(again->targets.at(id), target);
  }
  ASSERT_EQ(again->pools.size(), 2u);
  for (const auto& [id, pool] : map.pools) {
    ExpectSamePool(again->pools.at(id), pool);
  }
}

// As maps were stored before rows had epochs.
TEST(ClusterMapProto, RowsWithoutEpochsAreAsOldAsTheMap) {
  wire::ClusterMap proto = MakeProto();
  for (wire::Pool& pool : *proto.mutable_pools()) pool.clear_pg_epochs();
  const auto map = MapFromProto(proto);
  ASSERT_OK(map);
  const Pool& pool = map->pools.at(PoolId(1));
  for (uint32_t pg = 0; pg < pool.pg_count; ++pg) {
    EXPECT_EQ(map->PgEpoch(pool, pg), Epoch(12));
  }
}

TEST(ClusterMap, ReadsAskTargetsThatAreDownOutOrUnknownLast) {
  ClusterMap map = MakeMap();
  TargetState& state = map.targets[TargetId(2)].state;
  for (const auto& [is, may] :
       std::vector<std::pair<TargetState, bool>>{{TargetState::kUp, true},
                                                 {TargetState::kSuspect, true},
                                                 {TargetState::kDraining, true},
                                                 {TargetState::kDown, false},
                                                 {TargetState::kOut, false}}) {
    state = is;
    EXPECT_EQ(map.MayRead(TargetId(2)), may) << ToString(is);
  }
  EXPECT_FALSE(map.MayRead(TargetId(77)));
}

TEST(ClusterMap, RowsCloseAndOpenOneByOneInAnyOrder) {
  ClusterMap map = MakeMap();
  Pool& pool = map.pools.at(PoolId(9));
  for (const uint32_t pg : {7u, 3u, 7u, 12u}) pool.Close(pg);
  EXPECT_THAT(pool.closed_pgs, ElementsAre(3, 7, 12));
  EXPECT_TRUE(pool.IsClosed(7));
  EXPECT_FALSE(pool.IsClosed(8));
  pool.Open(7);
  pool.Open(8);
  EXPECT_THAT(pool.closed_pgs, ElementsAre(3, 12));
}

TEST(ClusterMap, APgThatIsClosedIsNotHealthy) {
  ClusterMap map = MakeMap();
  map.targets[TargetId(7)].state = TargetState::kUp;
  Pool& pool = map.pools.at(PoolId(9));
  ASSERT_TRUE(map.PgHealthy(pool, 3));
  pool.Close(3);
  EXPECT_FALSE(map.PgHealthy(pool, 3));
}

// What is put under the map before may be missing in the list that a shard is
// made of.
TEST(CarryPgEpochs, RowIsFencedWhenItClosesAndNotWhenItOpens) {
  const ClusterMap before = MakeMap();
  ClusterMap next = before;
  next.epoch = Epoch(13);
  Pool& pool = next.pools.at(PoolId(1));
  pool.Open(2);
  pool.Close(4);
  CarryPgEpochs(before, &next);
  std::vector<Epoch> expected = before.pools.at(PoolId(1)).pg_epochs;
  expected[4] = Epoch(13);
  EXPECT_EQ(pool.pg_epochs, expected);
}

// What was put in its rows before, and is not committed, must never count: a
// rebuild may have listed the row already.
TEST(CarryPgEpochs, TargetTakenOutOrPutBackFencesItsRows) {
  const ClusterMap before = MakeMap();
  const Pool& pool = before.pools.at(PoolId(9));
  ClusterMap out = before;
  out.epoch = Epoch(13);
  const TargetId gone = pool.PgTargets(1)[0];
  out.targets[gone].state = TargetState::kOut;
  CarryPgEpochs(before, &out);
  ClusterMap back = out;
  back.epoch = Epoch(14);
  back.targets[gone].state = TargetState::kUp;
  CarryPgEpochs(out, &back);
  uint32_t fenced = 0;
  for (uint32_t pg = 0; pg < pool.pg_count; ++pg) {
    const auto row = pool.PgTargets(pg);
    const bool has = std::find(row.begin(), row.end(), gone) != row.end();
    fenced += has;
    const Epoch was = before.PgEpoch(pool, pg);
    EXPECT_EQ(out.PgEpoch(out.pools.at(PoolId(9)), pg), has ? Epoch(13) : was);
    EXPECT_EQ(back.PgEpoch(back.pools.at(PoolId(9)), pg),
              has ? Epoch(14) : was);
  }
  EXPECT_GT(fenced, 0u);
  EXPECT_LT(fenced, pool.pg_count);
  EXPECT_OK(ValidateMap(back));
}

TEST(CarryPgEpochs, ChangeOfAStateLeavesEveryRowsEpoch) {
  const ClusterMap before = MakeMap();
  ClusterMap next = before;
  next.epoch = Epoch(13);
  next.targets[TargetId(3)].state = TargetState::kDown;
  next.targets[TargetId(3)].address = "elsewhere:1";
  for (auto& [id, pool] : next.pools) pool.pg_epochs.clear();
  CarryPgEpochs(before, &next);
  EXPECT_EQ(next.pools.at(PoolId(1)).pg_epochs,
            before.pools.at(PoolId(1)).pg_epochs);
  EXPECT_EQ(next.pools.at(PoolId(9)).pg_epochs,
            before.pools.at(PoolId(9)).pg_epochs);
  EXPECT_OK(ValidateMap(next));
}

TEST(CarryPgEpochs, RowWithAnotherTargetOrOrderGetsTheMapsEpoch) {
  const ClusterMap before = MakeMap();
  ClusterMap next = before;
  next.epoch = Epoch(13);
  Pool& pool = next.pools.at(PoolId(1));
  std::swap(pool.pg_targets[5 * 6], pool.pg_targets[5 * 6 + 1]);
  CarryPgEpochs(before, &next);
  for (uint32_t pg = 0; pg < pool.pg_count; ++pg) {
    const Epoch old = before.PgEpoch(before.pools.at(PoolId(1)), pg);
    EXPECT_EQ(next.PgEpoch(pool, pg), pg == 5 ? Epoch(13) : old) << pg;
  }
}

TEST(CarryPgEpochs, RowThatIsFencedOnPurposeKeepsTheMapsEpoch) {
  const ClusterMap before = MakeMap();
  ClusterMap next = before;
  next.epoch = Epoch(13);
  next.pools.at(PoolId(1)).pg_epochs[4] = Epoch(13);
  CarryPgEpochs(before, &next);
  std::vector<Epoch> expected = before.pools.at(PoolId(1)).pg_epochs;
  expected[4] = Epoch(13);
  EXPECT_EQ(next.pools.at(PoolId(1)).pg_epochs, expected);
}

TEST(CarryPgEpochs, NewPoolsAndPoolsOfAnotherShapeAreNewThroughout) {
  const ClusterMap before = MakeMap();
  ClusterMap next = before;
  next.epoch = Epoch(13);
  next.pools.at(PoolId(1)).stripe_width = 4;  // Stripes move between rows.
  Pool fresh = before.pools.at(PoolId(9));
  fresh.id = PoolId(10);
  fresh.name = "fresh";
  next.pools[fresh.id] = fresh;
  CarryPgEpochs(before, &next);
  const std::vector<Epoch> all_new(14, Epoch(13));
  EXPECT_EQ(next.pools.at(PoolId(1)).pg_epochs, all_new);
  EXPECT_EQ(next.pools.at(PoolId(10)).pg_epochs, all_new);
  EXPECT_EQ(next.pools.at(PoolId(9)).pg_epochs,
            before.pools.at(PoolId(9)).pg_epochs);
}

TEST(ClusterMapProto, AMapWithoutTargetsAndPoolsIsValid) {
  wire::ClusterMap proto;
  MapToProto(ClusterMap{}, &proto);
  EXPECT_OK(MapFromProto(proto));
}

struct Damage {
  const char* message;
  void (*apply)(wire::ClusterMap*);
};

const Damage kDamages[] = {
    {"the cluster id has 15 bytes instead of 16",
     [](wire::ClusterMap* map) { map->mutable_cluster_id()->pop_back(); }},
    {"the cluster id has 0 bytes instead of 16",
     [](wire::ClusterMap* map) { map->clear_cluster_id(); }},
    {"target 2 is listed twice",
     [](wire::ClusterMap* map) { map->mutable_targets(0)->set_id(2); }},
    {"target id 0 is never valid",
     [](wire::ClusterMap* map) { map->mutable_targets(0)->set_id(0); }},
    {"target 1: unknown target state 0",
     [](wire::ClusterMap* map) { map->mutable_targets(0)->clear_state(); }},
    {"target 1: unknown target state 6",
     [](wire::ClusterMap* map) { map->mutable_targets(0)->set_state(6); }},
    {"target 3: the host has 256 bytes",
     [](wire::ClusterMap* map) {
       map->mutable_targets(2)->set_host(std::string(256, 'h'));
     }},
    {"target 3: the rack has 256 bytes",
     [](wire::ClusterMap* map) {
       map->mutable_targets(2)->set_rack(std::string(256, 'h'));
     }},
    {"target 3: the address has 256 bytes",
     [](wire::ClusterMap* map) {
       map->mutable_targets(2)->set_address(std::string(256, 'h'));
     }},
    {"target 3: the directory has 4097 bytes",
     [](wire::ClusterMap* map) {
       map->mutable_targets(2)->set_directory(std::string(4097, 'h'));
     }},
    {"the host is not UTF-8: a\\xff",
     [](wire::ClusterMap* map) { map->mutable_targets(2)->set_host("a\xff"); }},
    {"pool id 65536 has more than 16 bits",
     [](wire::ClusterMap* map) { map->mutable_pools(0)->set_id(65536); }},
    {"pool 9 is listed twice",
     [](wire::ClusterMap* map) { map->mutable_pools(0)->set_id(9); }},
    {"two pools are named pool1",
     [](wire::ClusterMap* map) { map->mutable_pools(1)->set_name("pool1"); }},
    {"pool 1: name \"\": it is empty",
     [](wire::ClusterMap* map) { map->mutable_pools(0)->clear_name(); }},
    {"pool 1: name \"a/b\": it contains '/'",
     [](wire::ClusterMap* map) { map->mutable_pools(0)->set_name("a/b"); }},
    {"pool 1: unknown scheme kind 0",
     [](wire::ClusterMap* map) { map->mutable_pools(0)->clear_scheme(); }},
    {"pool 1: unknown scheme kind 3",
     [](wire::ClusterMap* map) {
       map->mutable_pools(0)->mutable_scheme()->set_kind(3);
     }},
    {"pool 1: 0 data shards",
     [](wire::ClusterMap* map) {
       map->mutable_pools(0)->mutable_scheme()->set_data_shards(0);
     }},
    {"pool 1: 33 data shards",
     [](wire::ClusterMap* map) {
       map->mutable_pools(0)->mutable_scheme()->set_data_shards(33);
     }},
    {"pool 1: 9 parity shards",
     [](wire::ClusterMap* map) {
       map->mutable_pools(0)->mutable_scheme()->set_parity_shards(9);
     }},
    {"pool 1: 4294967295 parity shards",
     [](wire::ClusterMap* map) {
       map->mutable_pools(0)->mutable_scheme()->set_parity_shards(~0u);
     }},
    {"pool 9: replicate with 2 data shards",
     [](wire::ClusterMap* map) {
       map->mutable_pools(1)->mutable_scheme()->set_data_shards(2);
     }},
    {"pool 1: chunk size 0",
     [](wire::ClusterMap* map) { map->mutable_pools(0)->set_chunk_size(0); }},
    {"pool 1: chunk size 2048",
     [](wire::ClusterMap* map) {
       map->mutable_pools(0)->set_chunk_size(2048);
     }},
    {"pool 1: chunk size 1048577",
     [](wire::ClusterMap* map) {
       map->mutable_pools(0)->set_chunk_size(1048577);
     }},
    {"pool 1: chunk size 8388608",
     [](wire::ClusterMap* map) {
       map->mutable_pools(0)->set_chunk_size(8u << 20);
     }},
    {"pool 1: unknown failure domain 0",
     [](wire::ClusterMap* map) {
       map->mutable_pools(0)->set_failure_domain(0);
     }},
    {"pool 1: unknown failure domain 4",
     [](wire::ClusterMap* map) {
       map->mutable_pools(0)->set_failure_domain(4);
     }},
    {"pool 1: 0 PGs",
     [](wire::ClusterMap* map) { map->mutable_pools(0)->set_pg_count(0); }},
    {"pool 1: 4294967295 PGs",
     [](wire::ClusterMap* map) { map->mutable_pools(0)->set_pg_count(~0u); }},
    {"pool 1: the PG table has 84 slots instead of 90",
     [](wire::ClusterMap* map) { map->mutable_pools(0)->set_pg_count(15); }},
    {"pool 1: the PG table has 83 slots instead of 84",
     [](wire::ClusterMap* map) {
       map->mutable_pools(0)->mutable_pg_targets()->RemoveLast();
     }},
    {"pool 1: stripe width 0",
     [](wire::ClusterMap* map) { map->mutable_pools(0)->set_stripe_width(0); }},
    {"pool 1: stripe width 15",
     [](wire::ClusterMap* map) {
       map->mutable_pools(0)->set_stripe_width(15);
     }},
    {"pool 1: PG 2 names target 77, which is not in the map",
     [](wire::ClusterMap* map) {
       map->mutable_pools(0)->set_pg_targets(12, 77);
     }},
    {"pool 1: PG 0 names target 0, which is not in the map",
     [](wire::ClusterMap* map) {
       map->mutable_pools(0)->set_pg_targets(0, 0);
     }},
    {"pool 1: PG 3 names target",
     [](wire::ClusterMap* map) {
       map->mutable_pools(0)->set_pg_targets(18, map->pools(0).pg_targets(19));
     }},
    {"pool 1: 13 PG epochs for 14 PGs",
     [](wire::ClusterMap* map) {
       map->mutable_pools(0)->mutable_pg_epochs()->RemoveLast();
     }},
    {"pool 9: 15 PG epochs for 14 PGs",
     [](wire::ClusterMap* map) { map->mutable_pools(1)->add_pg_epochs(1); }},
    {"pool 1: PG 4 has epoch 13, the map only 12",
     [](wire::ClusterMap* map) {
       map->mutable_pools(0)->set_pg_epochs(4, 13);
     }},
    {"pool 1: PG 14 of 14 is said to be closed",
     [](wire::ClusterMap* map) {
       map->mutable_pools(0)->set_closed_pgs(2, 14);
     }},
    {"pool 1: the closed PGs do not ascend: 2 after 2",
     [](wire::ClusterMap* map) {
       map->mutable_pools(0)->set_closed_pgs(1, 2);
     }},
};

TEST(ClusterMapProto, EachDamageIsDataLossAndNamed) {
  for (const Damage& damage : kDamages) {
    wire::ClusterMap proto = MakeProto();
    damage.apply(&proto);
    EXPECT_THAT(MapFromProto(proto),
                StatusIs(absl::StatusCode::kDataLoss, damage.message));
  }
}

TEST(ClusterMapProto, CountsOverTheLimitsAreDataLoss) {
  wire::ClusterMap proto = MakeProto();
  for (uint32_t id = 10; id < 10 + kPoolsMax; ++id) {
    *proto.add_pools() = proto.pools(1);
    proto.mutable_pools(proto.pools_size() - 1)->set_id(id);
  }
  EXPECT_THAT(MapFromProto(proto),
              StatusIs(absl::StatusCode::kDataLoss, "4098 pools"));
}

TEST(ValidateMap, GivesTheCallersMistakesAsInvalidArgument) {
  ClusterMap map = MakeMap();
  EXPECT_OK(ValidateMap(map));
  map.pools[PoolId(1)].pg_targets[5] = TargetId(99);
  EXPECT_THAT(ValidateMap(map), StatusIs(absl::StatusCode::kInvalidArgument,
                                         "pool 1: PG 0 names target 99"));
}

}  // namespace
}  // namespace cairn::format
