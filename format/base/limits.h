// Every limit of the formats, in bytes and counts, with the relations between
// them. A decoder checks these before it allocates.
#pragma once

#include <cstdint>

namespace cairn::format {

inline constexpr uint64_t kKiB = 1024;
inline constexpr uint64_t kMiB = 1024 * kKiB;
inline constexpr uint64_t kGiB = 1024 * kMiB;

// A block is what one checksum covers. 64 KiB: 8 bytes of checksum per block
// are 0.012%, and a damaged or partial read costs at most this much more.
inline constexpr uint64_t kBlockBytes = 64 * kKiB;
// Payloads lie on, and are padded to, the logical block of O_DIRECT.
inline constexpr uint64_t kDiskAlignBytes = 4 * kKiB;

// 4 MiB is where this design's disks and sockets stop gaining.
inline constexpr uint64_t kChunkBytesMax = 4 * kMiB;
inline constexpr uint64_t kChunkBytesMin = 4 * kKiB;
inline constexpr uint64_t kBlocksPerChunkMax = kChunkBytesMax / kBlockBytes;

inline constexpr uint32_t kDataShardsMax = 32;
inline constexpr uint32_t kParityShardsMax = 8;
inline constexpr uint32_t kShardsMax = kDataShardsMax + kParityShardsMax;
inline constexpr uint32_t kStripesPerBlobMax = 1u << 30;

// Frames (docs/format/frame.md).
inline constexpr uint64_t kFrameBodyBytesMax = 4 * kMiB;
inline constexpr uint64_t kFramePayloadBytesMax = kChunkBytesMax;
inline constexpr uint64_t kFrameTrailerBytesMax = 8 * (kBlocksPerChunkMax + 2);

// Cluster map.
inline constexpr uint32_t kTargetsMax = 1u << 20;
inline constexpr uint32_t kPoolsMax = 4096;
inline constexpr uint32_t kPgsPerPoolMax = 1u << 20;

// Names: as POSIX, one component; a whole path as Linux.
inline constexpr uint64_t kNameBytesMax = 255;
inline constexpr uint64_t kPathBytesMax = 4096;
inline constexpr uint64_t kSymlinkBytesMax = 4095;

// Tensors.
inline constexpr uint32_t kTensorRankMax = 32;  // Dimensions of one tensor.
inline constexpr uint64_t kTensorNameBytesMax = 4096;
inline constexpr uint32_t kRanksMax = 1u << 20;  // World size of one set.
inline constexpr uint64_t kSafetensorsHeaderBytesMax = 100'000'000;
inline constexpr uint64_t kTensorsPerFileMax = 1'000'000;
inline constexpr uint32_t kJsonDepthMax = 128;  // As the reference's parser.

// Checkpoint manifests (docs/format/manifest.md). A block is closed once it is
// this long, but never inside a tensor: one on all of kRanksMax ranks, cut in a
// few dimensions, still fits.
inline constexpr uint64_t kManifestBlockBytesAim = 64 * kKiB;
inline constexpr uint64_t kManifestBlockBytesMax = 256 * kMiB;
inline constexpr uint64_t kManifestPartBytesMax = 256 * kMiB;
inline constexpr uint64_t kManifestHeaderBytesMax = 256 * kMiB;
inline constexpr uint64_t kManifestEntriesPerPartMax = kTensorsPerFileMax;
inline constexpr uint64_t kSlicesPerTensorMax = 1u << 24;

static_assert(kManifestBlockBytesAim + kTensorNameBytesMax <
              kManifestBlockBytesMax);
static_assert(kSlicesPerTensorMax >= kRanksMax);
static_assert(kChunkBytesMax % kBlockBytes == 0);
static_assert(kBlockBytes % kDiskAlignBytes == 0);
static_assert(kFramePayloadBytesMax >= kChunkBytesMax);

}  // namespace cairn::format
