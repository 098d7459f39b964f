// The superblock: who a target is, in four copies. docs/format/target.md.
//
// Pure bytes. Files are server/target/superblock_file.h's business.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "format/base/bytes.h"
#include "format/base/ids.h"
#include "format/base/limits.h"

namespace cairn::format {

inline constexpr uint64_t kSuperblockBytes = 4 * kKiB;  // Of one copy.
inline constexpr uint32_t kSuperblockCopies = 4;
inline constexpr uint64_t kSuperblockFileBytes =
    kSuperblockBytes * kSuperblockCopies;
inline constexpr uint32_t kSuperblockVersion = 2;

inline constexpr uint64_t kSlabBytesMax = 1024 * kGiB;
inline constexpr uint32_t kSlabsPerTargetMax = 1u << 20;

// Persisted: add values, never renumber.
enum class IndexKind : uint32_t { kRocksDb = 1, kLog = 2 };

struct Superblock {
  ClusterId cluster_id;
  TargetId target_id;
  IndexKind index_kind = IndexKind::kRocksDb;
  uint64_t disk_generation = 0;
  uint64_t slab_bytes = 0;
  uint64_t capacity_bytes = 0;
  uint64_t format_wall_ns = 0;
  uint64_t generation = 0;
  // Number of the admission under which it was served last: metadata counts
  // them. 0: never admitted (also: written by version 1).
  uint64_t admission = 0;
  friend bool operator==(const Superblock&, const Superblock&) = default;
};

// OK, or kInvalidArgument naming the first field that cannot be: target 0,
// generation 0, sizes not multiples of kDiskAlignBytes or beyond the limits, a
// slab smaller than the largest chunk.
absl::Status ValidateSuperblock(const Superblock& superblock);

// The whole file: all copies. `superblock` must be valid (checked).
std::string EncodeSuperblock(const Superblock& superblock);

struct DecodedSuperblock {
  Superblock superblock;
  uint32_t good_copies = 0;  // Whole and equal to the chosen one.
};

// Chooses among the copies in `file`, which may be shorter than it should be.
// kFailedPrecondition: a whole copy has a newer version.
// kDataLoss: no whole copy, or whole ones that contradict each other.
absl::StatusOr<DecodedSuperblock> DecodeSuperblock(ConstBytes file);

}  // namespace cairn::format
