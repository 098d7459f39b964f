#include "format/target/superblock.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <type_traits>
#include <vector>

#include "format/base/status.h"
#include "format/checksum/block_checksum.h"

namespace cairn::format {
namespace {

constexpr uint64_t kMagic = 0x31425347544e5243;  // "CRNTGSB1".

// On disk, little-endian: docs/format/target.md#superblock.
struct RawSuperblock {
  uint64_t magic = kMagic;
  uint32_t version = kSuperblockVersion;
  uint32_t copy = 0;
  std::array<uint8_t, 16> cluster_id{};
  uint32_t target_id = 0;
  uint32_t index_kind = 0;
  uint64_t disk_generation = 0;
  uint64_t slab_bytes = 0;
  uint64_t capacity_bytes = 0;
  uint64_t format_wall_ns = 0;
  uint64_t generation = 0;
  uint64_t admission = 0;  // Since version 2; zero in version 1.
  std::array<uint8_t, 4000> zero{};
  uint64_t xxh3 = 0;  // Of the bytes before.
};
static_assert(sizeof(RawSuperblock) == kSuperblockBytes);
static_assert(offsetof(RawSuperblock, generation) == 72);
static_assert(offsetof(RawSuperblock, admission) == 80);
static_assert(offsetof(RawSuperblock, xxh3) == 4088);
static_assert(std::has_unique_object_representations_v<RawSuperblock>);

enum class CopyState { kDamaged, kNewer, kWhole };

struct ParsedCopy {
  CopyState state = CopyState::kDamaged;
  Superblock superblock;
};

Superblock FromRaw(const RawSuperblock& raw) {
  Superblock superblock;
  superblock.cluster_id.bytes = raw.cluster_id;
  superblock.target_id = TargetId(raw.target_id);
  superblock.index_kind = static_cast<IndexKind>(raw.index_kind);
  superblock.disk_generation = raw.disk_generation;
  superblock.slab_bytes = raw.slab_bytes;
  superblock.capacity_bytes = raw.capacity_bytes;
  superblock.format_wall_ns = raw.format_wall_ns;
  superblock.generation = raw.generation;
  superblock.admission = raw.admission;
  return superblock;
}

ParsedCopy ParseCopy(ConstBytes bytes, uint32_t copy) {
  ParsedCopy parsed;
  const auto raw = LoadLe<RawSuperblock>(bytes.data());
  if (raw.magic != kMagic) return parsed;
  if (raw.xxh3 != Xxh3(bytes.first(offsetof(RawSuperblock, xxh3)))) {
    return parsed;
  }
  if (raw.version > kSuperblockVersion) {
    parsed.state = CopyState::kNewer;
    return parsed;
  }
  if (raw.version == 0 || raw.copy != copy) return parsed;
  const bool is_zero = std::all_of(raw.zero.begin(), raw.zero.end(),
                                   [](uint8_t byte) { return byte == 0; });
  if (!is_zero) return parsed;
  if (raw.version == 1 && raw.admission != 0) return parsed;
  parsed.superblock = FromRaw(raw);
  if (!ValidateSuperblock(parsed.superblock).ok()) return parsed;
  parsed.state = CopyState::kWhole;
  return parsed;
}

struct Votes {
  Superblock superblock;
  uint32_t count = 0;
};

// Of the greatest generation: the superblock that most copies agree on.
absl::StatusOr<DecodedSuperblock> Elect(const std::vector<Superblock>& whole) {
  CAIRN_CHECK(!whole.empty());
  uint64_t newest = 0;
  for (const Superblock& each : whole) {
    newest = std::max(newest, each.generation);
  }
  std::vector<Votes> votes;
  for (const Superblock& each : whole) {
    if (each.generation != newest) continue;
    const auto same = std::find_if(
        votes.begin(), votes.end(),
        [&](const Votes& other) { return other.superblock == each; });
    if (same != votes.end()) {
      ++same->count;
    } else {
      votes.push_back({each, 1});
    }
  }
  std::sort(votes.begin(), votes.end(),
            [](const Votes& a, const Votes& b) { return a.count > b.count; });
  if (votes.size() > 1 && votes[0].count == votes[1].count) {
    return absl::DataLossError("the superblock's copies contradict each other");
  }
  DecodedSuperblock decoded;
  decoded.superblock = votes[0].superblock;
  decoded.good_copies = votes[0].count;
  return decoded;
}

}  // namespace

absl::Status ValidateSuperblock(const Superblock& superblock) {
  if (superblock.target_id.value == 0) {
    return absl::InvalidArgumentError("target id 0");
  }
  if (superblock.index_kind != IndexKind::kRocksDb &&
      superblock.index_kind != IndexKind::kLog) {
    return absl::InvalidArgumentError("unknown index kind");
  }
  if (superblock.generation == 0) {
    return absl::InvalidArgumentError("superblock generation 0");
  }
  const uint64_t slab = superblock.slab_bytes;
  if (slab % kDiskAlignBytes != 0 || slab < kChunkBytesMax ||
      slab > kSlabBytesMax) {
    return absl::InvalidArgumentError(absl::StrCat(
        "slab of ", slab, " bytes: must be a multiple of ", kDiskAlignBytes,
        " from ", kChunkBytesMax, " to ", kSlabBytesMax));
  }
  const uint64_t capacity = superblock.capacity_bytes;
  if (capacity % kDiskAlignBytes != 0 || capacity < kChunkBytesMax ||
      (capacity - 1) / slab >= kSlabsPerTargetMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("capacity of ", capacity, " bytes: must be a multiple of ",
                     kDiskAlignBytes, ", at least ", kChunkBytesMax,
                     " and at most ", kSlabsPerTargetMax, " slabs"));
  }
  return absl::OkStatus();
}

std::string EncodeSuperblock(const Superblock& superblock) {
  CAIRN_CHECK(ValidateSuperblock(superblock).ok());
  RawSuperblock raw;
  raw.cluster_id = superblock.cluster_id.bytes;
  raw.target_id = superblock.target_id.value;
  raw.index_kind = static_cast<uint32_t>(superblock.index_kind);
  raw.disk_generation = superblock.disk_generation;
  raw.slab_bytes = superblock.slab_bytes;
  raw.capacity_bytes = superblock.capacity_bytes;
  raw.format_wall_ns = superblock.format_wall_ns;
  raw.generation = superblock.generation;
  raw.admission = superblock.admission;
  std::string file(kSuperblockFileBytes, '\0');
  for (uint32_t copy = 0; copy < kSuperblockCopies; ++copy) {
    char* const to = file.data() + copy * kSuperblockBytes;
    raw.copy = copy;
    StoreLe(to, raw);
    raw.xxh3 = Xxh3(
        {reinterpret_cast<const uint8_t*>(to), offsetof(RawSuperblock, xxh3)});
    StoreLe(to + offsetof(RawSuperblock, xxh3), raw.xxh3);
  }
  return file;
}

absl::StatusOr<DecodedSuperblock> DecodeSuperblock(ConstBytes file) {
  std::vector<Superblock> whole;
  for (uint32_t copy = 0; copy < kSuperblockCopies; ++copy) {
    const uint64_t offset = copy * kSuperblockBytes;
    if (file.size() < offset + kSuperblockBytes) break;
    const ParsedCopy parsed =
        ParseCopy(file.subspan(offset, kSuperblockBytes), copy);
    if (parsed.state == CopyState::kNewer) {
      return absl::FailedPreconditionError(
          "the superblock has a newer version than this program knows: use "
          "the program that wrote it, or a later one");
    }
    if (parsed.state == CopyState::kWhole) whole.push_back(parsed.superblock);
  }
  if (whole.empty()) {
    return absl::DataLossError("all copies of the superblock are damaged");
  }
  return Elect(whole);
}

}  // namespace cairn::format
