#include "format/cluster/placement.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "tests/support/status_matchers.h"

namespace cairn::format {
namespace {

using ::cairn::testing::StatusIs;

constexpr Scheme kRs42{SchemeKind::kReedSolomon, 4, 2};

TargetInfo MakeTarget(uint32_t id, uint64_t capacity_bytes = kGiB) {
  TargetInfo target;
  target.id = TargetId(id);
  target.capacity_bytes = capacity_bytes;
  return target;
}

PlacementRequest EqualTargets(uint32_t targets, Scheme scheme) {
  PlacementRequest request;
  for (uint32_t id = 1; id <= targets; ++id) {
    request.targets.push_back(MakeTarget(id));
  }
  request.scheme = scheme;
  request.pg_count = DefaultPgCount(targets, scheme.shards());
  request.seed = 7;
  return request;
}

// How often each target stands at each position.
using Counts = std::map<uint32_t, std::vector<uint64_t>>;

Counts CountPositions(const PlacementRequest& request,
                      const std::vector<TargetId>& table) {
  const uint32_t shards = request.scheme.shards();
  Counts counts;
  for (const TargetInfo& target : request.targets) {
    counts[target.id.value].resize(shards);
  }
  for (size_t i = 0; i < table.size(); ++i) {
    ++counts.at(table[i].value).at(i % shards);
  }
  return counts;
}

uint64_t Sum(const std::vector<uint64_t>& counts) {
  return std::accumulate(counts.begin(), counts.end(), uint64_t{0});
}

uint64_t Spread(const std::vector<uint64_t>& counts) {
  const auto [low, high] = std::minmax_element(counts.begin(), counts.end());
  return *high - *low;
}

std::string DomainOf(const PlacementRequest& request, TargetId id) {
  for (const TargetInfo& target : request.targets) {
    if (target.id != id) continue;
    if (request.failure_domain == FailureDomain::kHost) return target.host;
    if (request.failure_domain == FailureDomain::kRack) return target.rack;
    return std::to_string(id.value);
  }
  return "unknown";
}

void ExpectRowsCrossDomains(const PlacementRequest& request,
                            const std::vector<TargetId>& table) {
  const uint32_t shards = request.scheme.shards();
  ASSERT_EQ(table.size(), uint64_t{request.pg_count} * shards);
  std::map<TargetId, std::string> domain_of;
  for (const TargetInfo& target : request.targets) {
    domain_of[target.id] = DomainOf(request, target.id);
  }
  for (uint32_t pg = 0; pg < request.pg_count; ++pg) {
    std::set<std::string> domains;
    for (uint32_t i = 0; i < shards; ++i) {
      domains.insert(domain_of.at(table[uint64_t{pg} * shards + i]));
    }
    ASSERT_EQ(domains.size(), shards) << "PG " << pg;
  }
}

// The algorithm is part of the format: whoever makes a table again, with any
// compiler, must get this one.
TEST(MakePgTable, GivesTheGoldenTableWithEveryCompiler) {
  PlacementRequest request = EqualTargets(5, {SchemeKind::kReedSolomon, 2, 1});
  request.pg_count = 10;
  const auto table = MakePgTable(request);
  ASSERT_OK(table);
  std::string text;
  for (size_t i = 0; i < table->size(); ++i) {
    text += std::to_string((*table)[i].value);
    text += i % 3 == 2 ? " " : "";
  }
  EXPECT_EQ(text, "214 453 521 342 135 345 231 452 514 123 ");
}

uint64_t Digest(const std::vector<TargetId>& table) {
  uint64_t digest = 0;
  for (const TargetId id : table) {
    digest = Mix64((digest ^ id.value) + 0x9e3779b97f4a7c15ULL);
  }
  return digest;
}

// The same for unequal hosts, a capped target, and more rows than one block.
// Both numbers come from a second program, written from the document.
TEST(MakePgTable, GivesTheTablesOfTheDocumentsOtherReader) {
  PlacementRequest hosts = EqualTargets(40, kRs42);
  for (TargetInfo& target : hosts.targets) {
    target.capacity_bytes = (1 + target.id.value % 5) * 1000;
    target.host = "host" + std::to_string(target.id.value % 9);
  }
  hosts.failure_domain = FailureDomain::kHost;
  hosts.pg_count = 1000;
  hosts.seed = 3;
  const auto host_table = MakePgTable(hosts);
  ASSERT_OK(host_table);
  EXPECT_EQ(Digest(*host_table), 0xccfe994735cf98e4ULL);

  PlacementRequest capped = EqualTargets(30, {SchemeKind::kReedSolomon, 3, 2});
  for (TargetInfo& target : capped.targets) {
    target.capacity_bytes = target.id.value == 4 ? 1'000'000 : target.id.value;
  }
  capped.pg_count = 700;
  capped.seed = 11;
  const auto capped_table = MakePgTable(capped);
  ASSERT_OK(capped_table);
  EXPECT_EQ(Digest(*capped_table), 0xa567969be6e21c49ULL);
}

TEST(MakePgTable, GivesEqualTargetsEqualSlotsAtEveryPosition) {
  for (const uint32_t targets : {6u, 7u, 50u, 7500u}) {
    SCOPED_TRACE(targets);
    const PlacementRequest request = EqualTargets(targets, kRs42);
    const auto table = MakePgTable(request);
    ASSERT_OK(table);
    const Counts counts = CountPositions(request, *table);
    const uint64_t share = table->size() / targets;
    for (const auto& [id, positions] : counts) {
      ASSERT_EQ(Sum(positions), share) << "target " << id;
      ASSERT_EQ(Spread(positions), 0u) << "target " << id;
    }
  }
}

TEST(MakePgTable, KeepsThePositionBoundForAnyPgCount) {
  for (const uint32_t pg_count : {1u, 5u, 97u, 1000u}) {
    SCOPED_TRACE(pg_count);
    PlacementRequest request = EqualTargets(9, kRs42);
    const uint64_t block_rows = request.pg_count;
    request.pg_count = pg_count;
    const auto table = MakePgTable(request);
    ASSERT_OK(table);
    ExpectRowsCrossDomains(request, *table);
    const uint64_t blocks = (pg_count + block_rows - 1) / block_rows;
    const uint64_t share = table->size() / 9;
    for (const auto& [id, positions] : CountPositions(request, *table)) {
      EXPECT_LE(Spread(positions), blocks) << "target " << id;
      EXPECT_GE(Sum(positions), share) << "target " << id;
      EXPECT_LE(Sum(positions), share + 1) << "target " << id;
    }
  }
}

TEST(MakePgTable, DoesNotDependOnTheOrderOfTheTargets) {
  PlacementRequest request = EqualTargets(11, kRs42);
  const auto table = MakePgTable(request);
  std::reverse(request.targets.begin(), request.targets.end());
  const auto again = MakePgTable(request);
  ASSERT_OK(table);
  ASSERT_OK(again);
  EXPECT_EQ(*table, *again);
}

TEST(MakePgTable, DiffersFromSeedToSeed) {
  PlacementRequest request = EqualTargets(11, kRs42);
  const auto table = MakePgTable(request);
  request.seed += 1;
  const auto other = MakePgTable(request);
  ASSERT_OK(table);
  ASSERT_OK(other);
  EXPECT_NE(*table, *other);
}

// 12 hosts of 4 disks in 6 racks of 2 hosts.
PlacementRequest HostsAndRacks(FailureDomain domain) {
  PlacementRequest request = EqualTargets(48, kRs42);
  for (TargetInfo& target : request.targets) {
    const uint32_t index = target.id.value - 1;
    target.host = "host" + std::to_string(index / 4);
    target.rack = "rack" + std::to_string(index / 8);
  }
  request.failure_domain = domain;
  return request;
}

TEST(MakePgTable, PutsNoTwoShardsOfAPgOnOneHostOrRack) {
  for (const auto domain : {FailureDomain::kHost, FailureDomain::kRack}) {
    SCOPED_TRACE(static_cast<uint32_t>(domain));
    const PlacementRequest request = HostsAndRacks(domain);
    const auto table = MakePgTable(request);
    ASSERT_OK(table);
    ExpectRowsCrossDomains(request, *table);
    for (const auto& [id, positions] : CountPositions(request, *table)) {
      EXPECT_EQ(Sum(positions), table->size() / 48) << "target " << id;
      EXPECT_LE(Spread(positions), 1u) << "target " << id;
    }
  }
}

TEST(MakePgTable, SharesSlotsByCapacity) {
  PlacementRequest request = EqualTargets(20, kRs42);
  uint64_t capacity_sum = 0;
  for (TargetInfo& target : request.targets) {
    target.capacity_bytes = (1 + target.id.value % 4) * 1000 * kGiB;
    capacity_sum += target.capacity_bytes;
  }
  const auto table = MakePgTable(request);
  ASSERT_OK(table);
  ExpectRowsCrossDomains(request, *table);
  const Counts counts = CountPositions(request, *table);
  for (const TargetInfo& target : request.targets) {
    const double share = static_cast<double>(table->size()) *
                         static_cast<double>(target.capacity_bytes) /
                         static_cast<double>(capacity_sum);
    const auto slots = static_cast<double>(Sum(counts.at(target.id.value)));
    EXPECT_LT(std::abs(slots - share), 1.0) << "target " << target.id.value;
    EXPECT_LE(Spread(counts.at(target.id.value)), 1u);
  }
}

// 6 shards over 7 targets, one of them with most of the bytes: it is in every
// PG, and what it cannot take is shared by the others.
TEST(MakePgTable, GivesATooLargeTargetOneSlotInEveryPg) {
  PlacementRequest request = EqualTargets(7, kRs42);
  request.targets[2].capacity_bytes = 1000 * kGiB;
  const auto table = MakePgTable(request);
  ASSERT_OK(table);
  ExpectRowsCrossDomains(request, *table);
  const Counts counts = CountPositions(request, *table);
  EXPECT_EQ(Sum(counts.at(3)), request.pg_count);
  const uint64_t others = (table->size() - request.pg_count) / 6;
  for (const uint32_t id : {1u, 2u, 4u, 5u, 6u, 7u}) {
    EXPECT_GE(Sum(counts.at(id)), others);
    EXPECT_LE(Sum(counts.at(id)), others + 1);
  }
}

TEST(MakePgTable, TakesTheGreatestCapacitiesWithoutOverflow) {
  PlacementRequest request =
      EqualTargets(40, {SchemeKind::kReedSolomon, 32, 8});
  for (TargetInfo& target : request.targets) target.capacity_bytes = ~0ull;
  const auto table = MakePgTable(request);
  ASSERT_OK(table);
  ExpectRowsCrossDomains(request, *table);
}

TEST(MakePgTable, TreatsUnknownCapacitiesAsEqual) {
  PlacementRequest request = EqualTargets(7, kRs42);
  const auto table = MakePgTable(request);
  for (TargetInfo& target : request.targets) target.capacity_bytes = 0;
  const auto unknown = MakePgTable(request);
  ASSERT_OK(table);
  ASSERT_OK(unknown);
  EXPECT_EQ(*table, *unknown);
}

// A lost target's PGs must have many partners, none of them much more often
// than the others: they all are read to rebuild it.
TEST(MakePgTable, GivesEachTargetManyPartners) {
  const PlacementRequest request = EqualTargets(50, kRs42);
  const auto table = MakePgTable(request);
  ASSERT_OK(table);
  std::map<uint32_t, std::map<uint32_t, uint64_t>> together;
  for (size_t row = 0; row < table->size(); row += 6) {
    for (size_t i = 0; i < 6; ++i) {
      for (size_t j = 0; j < 6; ++j) {
        if (i == j) continue;
        ++together[(*table)[row + i].value][(*table)[row + j].value];
      }
    }
  }
  const uint64_t mean = 96 * 5 / 49;
  for (const auto& [id, partners] : together) {
    EXPECT_GE(partners.size(), 48u) << "target " << id;
    for (const auto& [partner, times] : partners) {
      EXPECT_LE(times, 3 * mean) << "targets " << id << " and " << partner;
    }
  }
}

// A blob's stripes lie on consecutive PGs; they should use all the disks.
TEST(MakePgTable, SpreadsConsecutivePgsOverAllTargets) {
  const PlacementRequest request = EqualTargets(60, kRs42);
  const auto table = MakePgTable(request);
  ASSERT_OK(table);
  for (size_t row = 0; row + 10 <= request.pg_count; row += 10) {
    const auto begin = table->begin() + static_cast<int64_t>(row * 6);
    const std::set<TargetId> used(begin, begin + 60);
    EXPECT_EQ(used.size(), 60u) << "rows from " << row;
  }
}

TEST(MakePgTable, RefusesFewerDomainsThanShardsAndSaysTheNumbers) {
  EXPECT_THAT(MakePgTable(EqualTargets(5, kRs42)),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "rs:4+2 needs 6 different targets; there are 5"));
  PlacementRequest request = HostsAndRacks(FailureDomain::kRack);
  request.scheme = {SchemeKind::kReplicate, 1, 6};
  EXPECT_THAT(MakePgTable(request),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "replicate:7 needs 7 different racks; there are 6 "
                       "(with 48 targets in all)"));
  request.targets.clear();
  request.scheme = {SchemeKind::kReplicate, 1, 0};
  EXPECT_THAT(MakePgTable(request),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "replicate:1 needs 1 different rack; there are 0"));
}

TEST(MakePgTable, RefusesATargetWithoutTheNameOfItsDomain) {
  PlacementRequest request = HostsAndRacks(FailureDomain::kHost);
  request.targets[10].host.clear();
  EXPECT_THAT(MakePgTable(request), StatusIs(absl::StatusCode::kInvalidArgument,
                                             "target 11 has no host name"));
}

TEST(MakePgTable, RefusesARepeatedTarget) {
  PlacementRequest request = EqualTargets(7, kRs42);
  request.targets.push_back(MakeTarget(3));
  EXPECT_THAT(MakePgTable(request), StatusIs(absl::StatusCode::kInvalidArgument,
                                             "target 3 is given twice"));
}

TEST(MakePgTable, RefusesOneUnknownCapacityAmongKnownOnes) {
  PlacementRequest request = EqualTargets(7, kRs42);
  request.targets[4].capacity_bytes = 0;
  EXPECT_THAT(MakePgTable(request), StatusIs(absl::StatusCode::kInvalidArgument,
                                             "target 5 has capacity 0"));
}

TEST(MakePgTable, RefusesCountsOverTheLimits) {
  PlacementRequest request = EqualTargets(7, kRs42);
  request.pg_count = 0;
  EXPECT_THAT(MakePgTable(request),
              StatusIs(absl::StatusCode::kInvalidArgument, "0 PGs"));
  request.pg_count = kPgsPerPoolMax + 1;
  EXPECT_THAT(MakePgTable(request),
              StatusIs(absl::StatusCode::kInvalidArgument, "PGs; 1 to"));
  request.pg_count = 1;
  request.scheme.parity_shards = kShardsMax;
  EXPECT_THAT(MakePgTable(request),
              StatusIs(absl::StatusCode::kInvalidArgument, "44 shards"));
}

TEST(DefaultPgCount, IsAMultipleOfTheTargetsAndWithinTheLimits) {
  EXPECT_EQ(DefaultPgCount(6, 6), 96u);
  EXPECT_EQ(DefaultPgCount(7, 6), 112u);
  EXPECT_EQ(DefaultPgCount(1, 1), 96u);
  EXPECT_EQ(DefaultPgCount(3, 40), 6u);
  EXPECT_EQ(DefaultPgCount(0, 3), 1u);
  EXPECT_EQ(DefaultPgCount(7500, 6), 82'500u);
  for (uint32_t targets = 1; targets <= kTargetsMax;
       targets = targets * 3 + 1) {
    const uint32_t count = DefaultPgCount(targets, 6);
    EXPECT_EQ(count % targets, 0u);
    EXPECT_LE(count, kPgsPerPoolMax);
  }
}

}  // namespace
}  // namespace cairn::format
