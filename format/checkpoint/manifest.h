// The checkpoint manifest: where every part of every tensor of a set lies.
//
// A rank encodes what it wrote as a *manifest part* (sorted by tensor name).
// Publishing merges the parts of all ranks into the *manifest*: tensors sorted
// by name in blocks of about 64 KiB, and a header with the first name of each
// block, so that a loader fetches only the blocks it needs. Merging streams
// over the parts; what it checks is listed at MergeManifest().
//
// Format:  docs/format/manifest.md. Part, header and block each carry magic,
//          version, length and XXH3. Names sort by their bytes.
// Units:   offsets and shapes of slices count elements; everything else bytes.
// Threads: pure functions; safe from anywhere.
// Errors of the decoders: kDataLoss, the bytes are damaged;
// kFailedPrecondition,
//          a newer version wrote them. Nothing is allocated that the given
//          bytes do not pay for.
#pragma once

#include <cstdint>
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
  uint32_t rank = 0;             // Whose file holds it.
  uint64_t file_offset = 0;      // Of its first byte, in that file.
  uint64_t length = 0;           // Bytes.
  uint64_t xxh3 = 0;             // StreamingXxh3 of those bytes.
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
  std::vector<uint64_t> shape;    // Global.
  std::vector<TensorPart> parts;  // Sorted by offset, shape, rank.
  friend bool operator==(const TensorEntry&, const TensorEntry&) = default;
};

// --- One rank's part.
struct ManifestPart {
  uint32_t rank = 0;
  uint64_t file_bytes = 0;
  std::vector<TensorEntry> entries;  // Sorted by name; parts all of this rank.
  friend bool operator==(const ManifestPart&, const ManifestPart&) = default;
};
// Whether `part` can be encoded; its entries and their parts in any order.
// kInvalidArgument names the tensor: a limit is passed, a slice is not inside
// its tensor, has another length than its shape says, cuts a byte, lies outside
// the file or is there twice; entries of one name differ in dtype or shape; an
// opaque entry is not one whole part.
absl::Status ValidateManifestPart(const ManifestPart& part);
// Sorts; entries of one name become one entry.
// Requires: ValidateManifestPart(part) is OK (checked).
std::string EncodeManifestPart(ManifestPart part);
// What it returns is valid and sorted.
absl::StatusOr<ManifestPart> DecodeManifestPart(std::string_view bytes);

// --- The manifest of a set.
struct ManifestHeader {
  uint32_t world_size = 0;
  uint64_t tensors = 0;       // Entries of either kind.
  uint64_t tensor_bytes = 0;  // Sum over all entries, of the global sizes.
  uint64_t file_bytes = 0;    // Sum over ranks.
  std::vector<std::string> block_first_names;  // The index; ascending.
  friend bool operator==(const ManifestHeader&,
                         const ManifestHeader&) = default;
};
// Requires: names within the limits and strictly ascending, no more of them
// than tensors (checked).
std::string EncodeManifestHeader(const ManifestHeader& header);
absl::StatusOr<ManifestHeader> DecodeManifestHeader(std::string_view bytes);

struct Manifest {
  ManifestHeader header;
  std::vector<std::string> blocks;
};
// Merges `parts`: encoded, one per rank, in any order; all of world_size ranks.
// Every tensor is covered exactly: each of its elements lies in the slice of
// one rank, or in the same slice of several (replicated; all of them are kept
// as alternatives, in order of rank). Slices without elements are dropped,
// unless the tensor has none either.
// Cost: O(n log r) for n slices of r ranks, O(n d) more to check that slices
// with d cut dimensions cover their tensor (exact_cover.h). Memory: the result,
// the parts of one tensor, and a name per rank.
// kInvalidArgument names the tensor and the ranks: slices overlap or leave a
//   gap; kind, dtype or global shape differ; the bytes of a replicated slice
//   differ; an opaque name was written by two ranks. Also: a rank is missing,
//   is there twice, or is not below world_size.
// kDataLoss: a part does not decode.
absl::StatusOr<Manifest> MergeManifest(uint32_t world_size,
                                       std::span<const std::string> parts);

// Requires: valid entries, sorted by name, parts sorted (checked).
std::string EncodeManifestBlock(const std::vector<TensorEntry>& entries);
absl::StatusOr<std::vector<TensorEntry>> DecodeManifestBlock(
    std::string_view block);

// The block that would hold `name`; nullopt if it sorts before every block.
std::optional<uint32_t> FindBlock(const ManifestHeader& header,
                                  std::string_view name);

}  // namespace cairn::format
