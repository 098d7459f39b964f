// The encoding of one entry of a manifest, shared by parts and blocks, in a
// flat form that holds millions of slices without an allocation for each.
// docs/format/manifest.md#entry.
//
// Every record has exactly one encoding, so bytes that decode also encode back
// to themselves. Errors here are kDataLoss; who knows the name adds it.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "format/base/limits.h"
#include "format/checkpoint/byte_codec.h"
#include "format/checkpoint/manifest.h"

namespace cairn::format {

// What all slices of a tensor have in common.
struct EntryHead {
  EntryKind kind = EntryKind::kTensor;
  Dtype dtype = Dtype::kU8;
  uint32_t dims = 0;
  std::array<uint64_t, kTensorRankMax> dim{};
  uint64_t bytes = 0;  // Of the whole tensor.

  std::span<const uint64_t> Shape() const { return {dim.data(), dims}; }
  // Same kind, dtype and global shape.
  friend bool operator==(const EntryHead& a, const EntryHead& b);
};
std::string ToString(const EntryHead& head);  // "F32 [2,3]"

// The slices of one tensor, as they come. Clear() keeps the memory.
struct FlatParts {
  struct Place {
    uint64_t file_offset = 0;
    uint64_t xxh3 = 0;
    uint32_t rank = 0;
  };
  uint32_t dims = 0;
  std::vector<Place> places;
  std::vector<uint64_t> boxes;  // For each: dims offsets, then dims lengths.

  void Clear(uint32_t new_dims);
  size_t size() const { return places.size(); }
  std::span<const uint64_t> Box(size_t i) const {
    return std::span(boxes).subspan(i * 2 * dims, 2 * dims);
  }
  std::span<const uint64_t> Offset(size_t i) const {
    return Box(i).first(dims);
  }
  std::span<const uint64_t> Shape(size_t i) const { return Box(i).last(dims); }
  // In the order of the format: by offset, shape and rank.
  bool Less(size_t a, size_t b) const;
};

// The head of `entry`. kInvalidArgument: over a limit, or not whole bytes.
absl::StatusOr<EntryHead> HeadOf(const TensorEntry& entry);

// Names are stored as the length of what they share with the name before, and
// the rest. The first of a record shares nothing.
void AppendName(std::string_view previous, std::string_view name,
                std::string* out);
// Turns `name` from the previous name into the next one, which must be greater.
absl::Status ReadName(ByteReader* reader, bool first, std::string* name);

// Appends everything after the name: slices in the order that `order` gives.
// `with_rank`: in blocks each slice names its rank; in parts the part does.
void AppendBody(const EntryHead& head, const FlatParts& parts,
                std::span<const uint32_t> order, bool with_rank,
                std::string* out);

// The head, and how many slices follow (at least one).
struct HeadAndCount {
  EntryHead head;
  uint64_t parts = 0;
};
absl::StatusOr<HeadAndCount> ReadHead(ByteReader* reader);

// Reads `count` slices and appends them to `out`; checks that they are inside
// the tensor, are whole bytes, and come in order. `rank`: that of all slices;
// absent: each names its own. `file_bytes`: no slice ends beyond.
absl::Status ReadParts(ByteReader* reader, const EntryHead& head,
                       uint64_t count, std::optional<uint32_t> rank,
                       uint64_t file_bytes, FlatParts* out);

// Bytes of slice `i`. Requires: it is inside the tensor and whole bytes.
uint64_t PartBytes(const EntryHead& head, const FlatParts& parts, size_t i);

TensorEntry ToEntry(std::string name, const EntryHead& head,
                    const FlatParts& parts);
// Requires: each part has as many dimensions as the entry.
FlatParts ToFlatParts(const TensorEntry& entry);

}  // namespace cairn::format
