// The checkpoint manifest: where every part of every tensor of a set lies.
//
// A rank encodes what it wrote as a *manifest part* (sorted by tensor name).
// Publishing merges the parts of all ranks into the *manifest*: tensors sorted
// by name in blocks of about 64 KiB, and an index with the first name of each
// block, so that a loader fetches only the blocks it needs. Merging streams:
// it checks by sorted intervals that dtype and global shape agree and that
// the slices of a tensor neither overlap nor leave gaps, in O(n log n).
// docs/format.md#manifest.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "format/checkpoint/dtype.h"

namespace cairn::format {

// Part of a tensor, as one rank wrote it: dense, row-major, in its file.
struct TensorPart {
  uint32_t rank = 0;         // Whose file holds it.
  uint64_t file_offset = 0;  // Of its first byte, in that file.
  uint64_t length = 0;       // Bytes.
  uint64_t xxh3 = 0;         // StreamingXxh3 of those bytes.
  std::vector<uint64_t> offset;  // In the global tensor, one per dimension.
  std::vector<uint64_t> shape;
  friend bool operator==(const TensorPart&, const TensorPart&) = default;
};

// kOpaque: bytes that are no tensor (optimizer step, data loader state): dtype
// kU8, shape {length}, exactly one part.
enum class EntryKind : uint8_t { kTensor = 0, kOpaque = 1 };

struct TensorEntry {
  std::string name;
  EntryKind kind = EntryKind::kTensor;
  Dtype dtype = Dtype::kU8;
  std::vector<uint64_t> shape;  // Global.
  std::vector<TensorPart> parts;  // Sorted by offset, then rank.
  friend bool operator==(const TensorEntry&, const TensorEntry&) = default;
};

// --- One rank's part.
struct ManifestPart {
  uint32_t rank = 0;
  uint64_t file_bytes = 0;
  std::vector<TensorEntry> entries;  // Sorted by name; parts all of this rank.
};
// Sorts; entries of one name become one entry.
std::string EncodeManifestPart(ManifestPart part);
// kDataLoss: not a valid part (checksum, lengths, order, limits).
absl::StatusOr<ManifestPart> DecodeManifestPart(std::string_view bytes);

// --- The manifest of a set.
struct ManifestHeader {
  uint32_t world_size = 0;
  uint64_t tensors = 0;      // Entries of either kind.
  uint64_t tensor_bytes = 0; // Sum over distinct tensors, of the global sizes.
  uint64_t file_bytes = 0;   // Sum over ranks.
  std::vector<std::string> block_first_names;  // The index.
};
std::string EncodeManifestHeader(const ManifestHeader& header);
absl::StatusOr<ManifestHeader> DecodeManifestHeader(std::string_view bytes);

struct Manifest {
  ManifestHeader header;
  std::vector<std::string> blocks;
};
// `parts`: encoded, one per rank, in any order; all of world_size ranks.
// kInvalidArgument names the tensor and the ranks: slices overlap or leave a
//   gap, dtype or global shape differ. Exact duplicates (the same slice by
//   several ranks: replicated tensors) are kept as alternatives.
// kDataLoss: a part does not decode.
absl::StatusOr<Manifest> MergeManifest(uint32_t world_size,
                                       std::span<const std::string> parts);

absl::StatusOr<std::vector<TensorEntry>> DecodeManifestBlock(
    std::string_view block);

// The block that would hold `name`; nullopt if it sorts before every block.
std::optional<uint32_t> FindBlock(const ManifestHeader& header,
                                  std::string_view name);

}  // namespace cairn::format
