#include "format/cluster/placement.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <utility>

#include "absl/numeric/int128.h"
#include "format/base/status.h"
#include "format/cluster/placement_steps.h"

namespace cairn::format {
namespace {

using internal::Apportion;
using internal::BalancePositions;
using internal::Sequence;

// The PG slots of a target that DefaultPgCount() aims at: enough that a lost
// target's shards are rebuilt by many others, evenly...
constexpr uint32_t kSlotsPerTarget = 96;
// ...and the slots of a whole table, so that a map stays near 1 MiB.
constexpr uint32_t kSlotsPerTableAim = 512 * 1024;

struct Domain {
  std::vector<uint32_t> targets;  // Indices into the sorted targets.
  absl::uint128 weight = 0;
};

std::string DomainWord(FailureDomain domain) {
  switch (domain) {
    case FailureDomain::kTarget:
      return "target";
    case FailureDomain::kHost:
      return "host";
    case FailureDomain::kRack:
      return "rack";
  }
  return "failure domain";
}

absl::Status ValidateRequest(const PlacementRequest& request) {
  const uint32_t shards = request.scheme.shards();
  if (shards < 1 || shards > kShardsMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("a PG of ", shards, " shards; 1 to ", kShardsMax));
  }
  if (request.pg_count < 1 || request.pg_count > kPgsPerPoolMax) {
    return absl::InvalidArgumentError(
        absl::StrCat(request.pg_count, " PGs; 1 to ", kPgsPerPoolMax));
  }
  if (request.targets.size() > kTargetsMax) {
    return absl::InvalidArgumentError(absl::StrCat(
        request.targets.size(), " targets; at most ", kTargetsMax));
  }
  return absl::OkStatus();
}

// Sorted by id, so that the caller's order does not matter. Capacities are all
// known or, when none is, all the same.
absl::StatusOr<std::vector<TargetInfo>> SortedTargets(
    const PlacementRequest& request) {
  std::vector<TargetInfo> targets = request.targets;
  std::sort(targets.begin(), targets.end(),
            [](const auto& a, const auto& b) { return a.id < b.id; });
  const bool unknown =
      std::all_of(targets.begin(), targets.end(),
                  [](const auto& t) { return t.capacity_bytes == 0; });
  for (size_t i = 0; i < targets.size(); ++i) {
    if (i > 0 && targets[i].id == targets[i - 1].id) {
      return absl::InvalidArgumentError(
          absl::StrCat("target ", targets[i].id.value, " is given twice"));
    }
    if (unknown) targets[i].capacity_bytes = 1;
    if (targets[i].capacity_bytes == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("target ", targets[i].id.value,
                       " has capacity 0, while others have more"));
    }
  }
  return targets;
}

// Domains in the order of their names; single targets in the order of ids.
absl::StatusOr<std::vector<Domain>> GroupByDomain(
    const std::vector<TargetInfo>& targets, FailureDomain kind) {
  std::vector<Domain> domains;
  std::map<std::string, std::vector<uint32_t>> named;
  for (uint32_t i = 0; i < targets.size(); ++i) {
    if (kind == FailureDomain::kTarget) {
      domains.push_back({{i}, targets[i].capacity_bytes});
      continue;
    }
    const std::string& name =
        kind == FailureDomain::kHost ? targets[i].host : targets[i].rack;
    if (name.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "target ", targets[i].id.value, " has no ", DomainWord(kind),
          " name, but shards are to be kept on "
          "different ones"));
    }
    named[name].push_back(i);
  }
  for (auto& [name, members] : named) {
    Domain domain;
    for (const uint32_t i : members) domain.weight += targets[i].capacity_bytes;
    domain.targets = std::move(members);
    domains.push_back(std::move(domain));
  }
  return domains;
}

absl::Status CheckEnoughDomains(uint64_t domains, uint64_t targets,
                                const PlacementRequest& request) {
  const uint32_t needed = request.scheme.shards();
  if (domains >= needed) return absl::OkStatus();
  const std::string word = DomainWord(request.failure_domain);
  std::string message =
      absl::StrCat(ToString(request.scheme), " needs ", needed, " different ",
                   word, needed == 1 ? "" : "s", "; there ",
                   domains == 1 ? "is " : "are ", domains);
  if (request.failure_domain != FailureDomain::kTarget) {
    absl::StrAppend(&message, " (with ", targets, " targets in all)");
  }
  return absl::InvalidArgumentError(message);
}

// How often each domain occurs in a table.
std::vector<uint32_t> DomainQuotas(const std::vector<Domain>& domains,
                                   const PlacementRequest& request,
                                   uint64_t seed) {
  std::vector<absl::uint128> weights;
  for (const Domain& domain : domains) weights.push_back(domain.weight);
  const uint32_t rows = request.pg_count;
  return Apportion(weights, rows * request.scheme.shards(), rows, seed);
}

// How often each target of domain `d` does, in the domain's order.
std::vector<uint32_t> MemberShares(const std::vector<TargetInfo>& targets,
                                   const Domain& domain, uint32_t quota,
                                   uint64_t own_seed) {
  std::vector<absl::uint128> weights;
  for (const uint32_t i : domain.targets) {
    weights.emplace_back(targets[i].capacity_bytes);
  }
  return Apportion(weights, quota, quota, own_seed);
}

// Which target each domain gives at its 1st, 2nd, ... occurrence.
std::vector<Sequence> MemberSequences(const std::vector<TargetInfo>& targets,
                                      const std::vector<Domain>& domains,
                                      const std::vector<uint32_t>& quotas,
                                      uint64_t seed) {
  std::vector<Sequence> members;
  members.reserve(domains.size());
  for (size_t d = 0; d < domains.size(); ++d) {
    const uint64_t own_seed = Mix64(seed + d + 1);
    members.emplace_back(MemberShares(targets, domains[d], quotas[d], own_seed),
                         own_seed);
  }
  return members;
}

}  // namespace

absl::StatusOr<std::map<TargetId, uint32_t>> PlacementShares(
    const PlacementRequest& request) {
  CAIRN_RETURN_IF_ERROR(ValidateRequest(request));
  CAIRN_ASSIGN_OR_RETURN(const std::vector<TargetInfo> targets,
                         SortedTargets(request));
  CAIRN_ASSIGN_OR_RETURN(const std::vector<Domain> domains,
                         GroupByDomain(targets, request.failure_domain));
  CAIRN_RETURN_IF_ERROR(
      CheckEnoughDomains(domains.size(), targets.size(), request));
  const uint64_t seed = Mix64(request.seed + 1);
  const std::vector<uint32_t> quotas = DomainQuotas(domains, request, seed);
  std::map<TargetId, uint32_t> shares;
  for (size_t d = 0; d < domains.size(); ++d) {
    const std::vector<uint32_t> own =
        MemberShares(targets, domains[d], quotas[d], Mix64(seed + d + 1));
    for (size_t i = 0; i < own.size(); ++i) {
      shares[targets[domains[d].targets[i]].id] = own[i];
    }
  }
  return shares;
}

absl::StatusOr<std::vector<TargetId>> MakePgTable(
    const PlacementRequest& request) {
  CAIRN_RETURN_IF_ERROR(ValidateRequest(request));
  CAIRN_ASSIGN_OR_RETURN(const std::vector<TargetInfo> targets,
                         SortedTargets(request));
  CAIRN_ASSIGN_OR_RETURN(const std::vector<Domain> domains,
                         GroupByDomain(targets, request.failure_domain));
  CAIRN_RETURN_IF_ERROR(
      CheckEnoughDomains(domains.size(), targets.size(), request));

  const uint32_t shards = request.scheme.shards();
  const uint32_t rows = request.pg_count;
  const uint64_t seed = Mix64(request.seed + 1);
  const std::vector<uint32_t> quotas = DomainQuotas(domains, request, seed);
  Sequence order(quotas, seed);
  std::vector<Sequence> members =
      MemberSequences(targets, domains, quotas, seed);

  std::vector<uint32_t> slots;
  slots.reserve(uint64_t{rows} * shards);
  for (uint32_t row = 0; row < rows; ++row) {
    for (const uint32_t domain : order.TakeDistinct(shards, rows - row)) {
      const uint32_t member = members[domain].TakeDistinct(1, 0).front();
      slots.push_back(domains[domain].targets[member]);
    }
  }
  const uint32_t block_rows =
      DefaultPgCount(static_cast<uint32_t>(targets.size()), shards);
  BalancePositions(static_cast<uint32_t>(targets.size()), shards, block_rows,
                   &slots);
  std::vector<TargetId> table;
  table.reserve(slots.size());
  for (const uint32_t i : slots) table.push_back(targets[i].id);
  return table;
}

uint32_t DefaultPgCount(uint32_t targets, uint32_t shards) {
  CAIRN_CHECK(shards >= 1 && shards <= kShardsMax);
  if (targets == 0) return 1;
  // Rows in multiples of the targets give equal ones exactly equal slots.
  const uint32_t slots = std::min(kSlotsPerTarget, kSlotsPerTableAim / targets);
  const uint32_t rows_per_target = std::max(1u, slots / shards);
  return std::min(targets * rows_per_target, kPgsPerPoolMax);
}

}  // namespace cairn::format
