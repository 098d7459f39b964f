#include "format/cluster/cluster_map.h"

#include <algorithm>
#include <optional>
#include <set>

#include "format/base/status.h"
#include "format/path/names.h"

namespace cairn::format {
namespace {

constexpr char kSchemeHelp[] =
    "a scheme is rs:K+M (K data shards, 1 to 32, and M parity shards, 0 to 8) "
    "or replicate:R (R copies, 1 to 9)";
static_assert(kDataShardsMax == 32 && kParityShardsMax == 8);

absl::Status BadScheme(std::string_view text, std::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat(
      "\"", EscapeForDisplay(text), "\": ", AbslText(why), "; ", kSchemeHelp));
}

// A count as ToString() prints it: digits, no sign, no leading zero, at most 4
// digits (so that it cannot overflow). Nothing else is one.
std::optional<uint32_t> ParseCount(std::string_view digits) {
  if (digits.empty() || digits.size() > 4) return std::nullopt;
  if (digits.size() > 1 && digits[0] == '0') return std::nullopt;
  uint32_t value = 0;
  for (const char c : digits) {
    if (c < '0' || c > '9') return std::nullopt;
    value = value * 10 + static_cast<uint32_t>(c - '0');
  }
  return value;
}

absl::StatusOr<Scheme> ParseReedSolomon(std::string_view text,
                                        std::string_view counts) {
  const size_t plus = counts.find('+');
  if (plus == std::string_view::npos) {
    return BadScheme(text, "the '+' between K and M is missing");
  }
  const auto data = ParseCount(counts.substr(0, plus));
  const auto parity = ParseCount(counts.substr(plus + 1));
  if (!data) return BadScheme(text, "K is not a number");
  if (!parity) return BadScheme(text, "M is not a number");
  if (*data < 1 || *data > kDataShardsMax) {
    return BadScheme(text, absl::StrCat("K is ", *data));
  }
  if (*parity > kParityShardsMax) {
    return BadScheme(text, absl::StrCat("M is ", *parity));
  }
  return Scheme{SchemeKind::kReedSolomon, *data, *parity};
}

absl::StatusOr<Scheme> ParseReplicate(std::string_view text,
                                      std::string_view count) {
  const auto copies = ParseCount(count);
  if (!copies) return BadScheme(text, "R is not a number");
  if (*copies < 1 || *copies > kParityShardsMax + 1) {
    return BadScheme(text, absl::StrCat("R is ", *copies));
  }
  return Scheme{SchemeKind::kReplicate, 1, *copies - 1};
}

absl::Status Invalid(std::string what) {
  return absl::InvalidArgumentError(std::move(what));
}

absl::Status ValidateText(std::string_view text, uint64_t bytes_max,
                          std::string_view what) {
  if (text.size() > bytes_max) {
    return Invalid(absl::StrCat(AbslText(what), " has ", text.size(),
                                " bytes; at most ", bytes_max));
  }
  if (!IsValidUtf8(text)) {
    return Invalid(absl::StrCat(AbslText(what),
                                " is not UTF-8: ", EscapeForDisplay(text)));
  }
  return absl::OkStatus();
}

absl::Status ValidateTarget(const TargetInfo& target) {
  if (target.id.value == 0) return Invalid("target id 0 is never valid");
  switch (target.state) {
    case TargetState::kUp:
    case TargetState::kSuspect:
    case TargetState::kDown:
    case TargetState::kOut:
    case TargetState::kDraining:
      break;
    default:
      return Invalid(absl::StrCat("unknown target state ",
                                  static_cast<uint32_t>(target.state)));
  }
  CAIRN_RETURN_IF_ERROR(
      ValidateText(target.address, kNameBytesMax, "the address"));
  CAIRN_RETURN_IF_ERROR(ValidateText(target.host, kNameBytesMax, "the host"));
  CAIRN_RETURN_IF_ERROR(ValidateText(target.rack, kNameBytesMax, "the rack"));
  return ValidateText(target.directory, kPathBytesMax, "the directory");
}

absl::Status ValidateScheme(const Scheme& scheme) {
  switch (scheme.kind) {
    case SchemeKind::kReplicate:
      if (scheme.data_shards != 1) {
        return Invalid(absl::StrCat("replicate with ", scheme.data_shards,
                                    " data shards instead of 1"));
      }
      break;
    case SchemeKind::kReedSolomon:
      if (scheme.data_shards < 1 || scheme.data_shards > kDataShardsMax) {
        return Invalid(absl::StrCat(scheme.data_shards, " data shards; 1 to ",
                                    kDataShardsMax, " are allowed"));
      }
      break;
    default:
      return Invalid(absl::StrCat("unknown scheme kind ",
                                  static_cast<uint32_t>(scheme.kind)));
  }
  if (scheme.parity_shards > kParityShardsMax) {
    return Invalid(absl::StrCat(scheme.parity_shards, " parity shards; 0 to ",
                                kParityShardsMax, " are allowed"));
  }
  return absl::OkStatus();
}

absl::Status ValidatePoolShape(const Pool& pool) {
  CAIRN_RETURN_IF_ERROR(ValidateName(pool.name));
  CAIRN_RETURN_IF_ERROR(ValidateScheme(pool.scheme));
  if (pool.chunk_size < kChunkBytesMin || pool.chunk_size > kChunkBytesMax ||
      pool.chunk_size % kDiskAlignBytes != 0) {
    return Invalid(absl::StrCat(
        "chunk size ", pool.chunk_size, " is not a multiple of ",
        kDiskAlignBytes, " from ", kChunkBytesMin, " to ", kChunkBytesMax));
  }
  switch (pool.failure_domain) {
    case FailureDomain::kTarget:
    case FailureDomain::kHost:
    case FailureDomain::kRack:
      break;
    default:
      return Invalid(absl::StrCat("unknown failure domain ",
                                  static_cast<uint32_t>(pool.failure_domain)));
  }
  if (pool.pg_count < 1 || pool.pg_count > kPgsPerPoolMax) {
    return Invalid(absl::StrCat(pool.pg_count, " PGs; 1 to ", kPgsPerPoolMax,
                                " are allowed"));
  }
  if (pool.stripe_width < 1 || pool.stripe_width > pool.pg_count) {
    return Invalid(absl::StrCat("stripe width ", pool.stripe_width,
                                " is not 1 to the PG count ", pool.pg_count));
  }
  const uint64_t slots = uint64_t{pool.pg_count} * pool.scheme.shards();
  if (pool.pg_targets.size() != slots) {
    return Invalid(absl::StrCat("the PG table has ", pool.pg_targets.size(),
                                " slots instead of ", slots));
  }
  return absl::OkStatus();
}

absl::Status ValidatePgEpochs(const ClusterMap& map, const Pool& pool) {
  if (pool.pg_epochs.empty()) return absl::OkStatus();
  if (pool.pg_epochs.size() != pool.pg_count) {
    return Invalid(absl::StrCat(pool.pg_epochs.size(), " PG epochs for ",
                                pool.pg_count, " PGs"));
  }
  for (uint32_t pg = 0; pg < pool.pg_count; ++pg) {
    if (pool.pg_epochs[pg] > map.epoch) {
      return Invalid(absl::StrCat("PG ", pg, " has epoch ",
                                  pool.pg_epochs[pg].value, ", the map only ",
                                  map.epoch.value));
    }
  }
  return absl::OkStatus();
}

absl::Status ValidateClosed(const Pool& pool) {
  for (size_t i = 0; i < pool.closed_pgs.size(); ++i) {
    const uint32_t pg = pool.closed_pgs[i];
    if (pg >= pool.pg_count) {
      return Invalid(absl::StrCat("PG ", pg, " of ", pool.pg_count,
                                  " is said to be closed"));
    }
    if (i > 0 && pg <= pool.closed_pgs[i - 1]) {
      return Invalid(absl::StrCat("the closed PGs do not ascend: ", pg,
                                  " after ", pool.closed_pgs[i - 1]));
    }
  }
  return absl::OkStatus();
}

// What a chunk's place depends on besides the row it is in.
bool SameShape(const Pool& a, const Pool& b) {
  return a.scheme == b.scheme && a.chunk_size == b.chunk_size &&
         a.stripe_width == b.stripe_width && a.pg_count == b.pg_count;
}

absl::Status ValidateRows(const ClusterMap& map, const Pool& pool) {
  for (uint32_t pg = 0; pg < pool.pg_count; ++pg) {
    const std::span<const TargetId> row = pool.PgTargets(pg);
    for (size_t i = 0; i < row.size(); ++i) {
      if (map.FindTarget(row[i]) == nullptr) {
        return Invalid(absl::StrCat("PG ", pg, " names target ", row[i].value,
                                    ", which is not in the map"));
      }
      if (std::find(row.begin(), row.begin() + static_cast<int64_t>(i),
                    row[i]) != row.begin() + static_cast<int64_t>(i)) {
        return Invalid(
            absl::StrCat("PG ", pg, " names target ", row[i].value, " twice"));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Scheme> ParseScheme(std::string_view text) {
  constexpr std::string_view kRs = "rs:";
  constexpr std::string_view kReplicate = "replicate:";
  if (text.starts_with(kRs)) {
    return ParseReedSolomon(text, text.substr(kRs.size()));
  }
  if (text.starts_with(kReplicate)) {
    return ParseReplicate(text, text.substr(kReplicate.size()));
  }
  return BadScheme(text, "it starts with neither rs: nor replicate:");
}

std::string ToString(const Scheme& scheme) {
  if (scheme.kind == SchemeKind::kReplicate) {
    return absl::StrCat("replicate:", scheme.shards());
  }
  return absl::StrCat("rs:", scheme.data_shards, "+", scheme.parity_shards);
}

std::string_view ToString(TargetState state) {
  switch (state) {
    case TargetState::kUp:
      return "up";
    case TargetState::kSuspect:
      return "suspect";
    case TargetState::kDown:
      return "down";
    case TargetState::kOut:
      return "out";
    case TargetState::kDraining:
      return "draining";
  }
  return "unknown";
}

std::span<const TargetId> Pool::PgTargets(uint32_t pg) const {
  CAIRN_CHECK(pg < pg_count);
  const uint64_t shards = scheme.shards();
  CAIRN_CHECK(pg_targets.size() == pg_count * shards);
  return std::span(pg_targets).subspan(pg * shards, shards);
}

bool Pool::IsClosed(uint32_t pg) const {
  return std::binary_search(closed_pgs.begin(), closed_pgs.end(), pg);
}

void Pool::Close(uint32_t pg) {
  CAIRN_CHECK(pg < pg_count);
  const auto place = std::lower_bound(closed_pgs.begin(), closed_pgs.end(), pg);
  if (place == closed_pgs.end() || *place != pg) closed_pgs.insert(place, pg);
}

void Pool::Open(uint32_t pg) { std::erase(closed_pgs, pg); }

uint32_t Pool::PgOf(BlobId blob, uint32_t stripe) const {
  CAIRN_CHECK(pg_count > 0 && stripe_width > 0);
  // Reduced before the sum: a sum that wrapped would give two of a blob's
  // stripes the same PG.
  const uint64_t first = Mix64(blob.value) % pg_count;
  return static_cast<uint32_t>((first + stripe % stripe_width) % pg_count);
}

const TargetInfo* ClusterMap::FindTarget(TargetId id) const {
  const auto found = targets.find(id);
  return found == targets.end() ? nullptr : &found->second;
}

const Pool* ClusterMap::FindPool(PoolId id) const {
  const auto found = pools.find(id);
  return found == pools.end() ? nullptr : &found->second;
}

const Pool* ClusterMap::FindPool(std::string_view name) const {
  for (const auto& [id, pool] : pools) {
    if (pool.name == name) return &pool;
  }
  return nullptr;
}

bool ClusterMap::PgHealthy(const Pool& pool, uint32_t pg) const {
  if (pool.IsClosed(pg)) return false;
  const std::span<const TargetId> row = pool.PgTargets(pg);
  return std::all_of(row.begin(), row.end(), [this](TargetId id) {
    const TargetInfo* target = FindTarget(id);
    return target != nullptr && target->state == TargetState::kUp;
  });
}

bool ClusterMap::MayRead(TargetId id) const {
  const TargetInfo* const target = FindTarget(id);
  return target != nullptr && target->state != TargetState::kDown &&
         target->state != TargetState::kOut;
}

Epoch ClusterMap::PgEpoch(const Pool& pool, uint32_t pg) const {
  CAIRN_CHECK(pg < pool.pg_count);
  return pool.pg_epochs.empty() ? epoch : pool.pg_epochs[pg];
}

namespace {

bool IsOut(const ClusterMap& map, TargetId id) {
  const TargetInfo* const target = map.FindTarget(id);
  return target != nullptr && target->state == TargetState::kOut;
}

}  // namespace

void CarryPgEpochs(const ClusterMap& before, ClusterMap* next) {
  const auto fences = [&](TargetId id) {
    return IsOut(before, id) != IsOut(*next, id);
  };
  for (auto& [id, pool] : next->pools) {
    const Pool* const old = before.FindPool(id);
    const bool same = old != nullptr && SameShape(*old, pool);
    const std::vector<Epoch> given = std::move(pool.pg_epochs);
    pool.pg_epochs.assign(pool.pg_count, next->epoch);
    for (uint32_t pg = 0; same && pg < pool.pg_count; ++pg) {
      if (pg < given.size() && given[pg] == next->epoch) continue;
      const std::span<const TargetId> was = old->PgTargets(pg);
      const std::span<const TargetId> is = pool.PgTargets(pg);
      if (std::equal(was.begin(), was.end(), is.begin(), is.end()) &&
          std::none_of(is.begin(), is.end(), fences) &&
          (old->IsClosed(pg) || !pool.IsClosed(pg))) {
        pool.pg_epochs[pg] = before.PgEpoch(*old, pg);
      }
    }
  }
}

absl::Status ValidateMap(const ClusterMap& map) {
  if (map.targets.size() > kTargetsMax) {
    return Invalid(
        absl::StrCat(map.targets.size(), " targets; at most ", kTargetsMax));
  }
  if (map.pools.size() > kPoolsMax) {
    return Invalid(
        absl::StrCat(map.pools.size(), " pools; at most ", kPoolsMax));
  }
  for (const auto& [id, target] : map.targets) {
    CAIRN_CHECK(id == target.id);
    CAIRN_RETURN_IF_ERROR(
        Annotate(ValidateTarget(target), absl::StrCat("target ", id.value)));
  }
  std::set<std::string_view> names;
  for (const auto& [id, pool] : map.pools) {
    CAIRN_CHECK(id == pool.id);
    const std::string where = absl::StrCat("pool ", id.value);
    CAIRN_RETURN_IF_ERROR(Annotate(ValidatePoolShape(pool), where));
    CAIRN_RETURN_IF_ERROR(Annotate(ValidateRows(map, pool), where));
    CAIRN_RETURN_IF_ERROR(Annotate(ValidatePgEpochs(map, pool), where));
    CAIRN_RETURN_IF_ERROR(Annotate(ValidateClosed(pool), where));
    if (!names.insert(pool.name).second) {
      return Invalid(absl::StrCat("two pools are named ", pool.name));
    }
  }
  return absl::OkStatus();
}

}  // namespace cairn::format
