#include <algorithm>
#include <iterator>
#include <numeric>
#include <tuple>

#include "format/base/status.h"
#include "format/checkpoint/manifest.h"
#include "format/checkpoint/manifest_entry.h"
#include "format/checkpoint/manifest_envelope.h"
#include "format/checkpoint/part_cursor.h"
#include "format/checkpoint/slice.h"
#include "format/path/names.h"

namespace cairn::format {
namespace {

std::string Quoted(std::string_view name) {
  return absl::StrCat("tensor \"", EscapeForDisplay(name), "\"");
}

// Entries of one name become one; sorted, with sorted slices.
absl::Status Normalize(ManifestPart* part) {
  std::stable_sort(part->entries.begin(), part->entries.end(),
                   [](const TensorEntry& a, const TensorEntry& b) {
                     return a.name < b.name;
                   });
  std::vector<TensorEntry> merged;
  for (TensorEntry& entry : part->entries) {
    if (merged.empty() || merged.back().name != entry.name) {
      merged.push_back(std::move(entry));
      continue;
    }
    TensorEntry& before = merged.back();
    if (before.kind != entry.kind || before.dtype != entry.dtype ||
        before.shape != entry.shape) {
      return absl::InvalidArgumentError(absl::StrCat(
          Quoted(entry.name), ": added with two dtypes or shapes"));
    }
    std::move(entry.parts.begin(), entry.parts.end(),
              std::back_inserter(before.parts));
  }
  for (TensorEntry& entry : merged) {
    std::sort(entry.parts.begin(), entry.parts.end(),
              [](const TensorPart& a, const TensorPart& b) {
                return std::tie(a.offset, a.shape) <
                       std::tie(b.offset, b.shape);
              });
  }
  part->entries = std::move(merged);
  return absl::OkStatus();
}

absl::Status CheckSlice(const ManifestPart& file, const TensorEntry& entry,
                        const TensorPart& part) {
  CAIRN_RETURN_IF_ERROR(ValidateSlice(entry.shape, {part.offset, part.shape}));
  CAIRN_ASSIGN_OR_RETURN(const uint64_t bytes,
                         TensorBytes(entry.dtype, part.shape));
  if (part.length != bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("slice of ", bytes, " bytes has length ", part.length));
  }
  if (part.rank != file.rank) {
    return absl::InvalidArgumentError(
        absl::StrCat("slice of rank ", part.rank));
  }
  if (part.file_offset > file.file_bytes ||
      bytes > file.file_bytes - part.file_offset) {
    return absl::InvalidArgumentError("slice ends beyond its file");
  }
  return absl::OkStatus();
}

absl::Status CheckEntry(const ManifestPart& part, const TensorEntry& entry) {
  CAIRN_RETURN_IF_ERROR(HeadOf(entry));
  if (entry.parts.empty()) {
    return absl::InvalidArgumentError("no slice");
  }
  if (entry.kind == EntryKind::kOpaque &&
      (entry.parts.size() != 1 || entry.parts[0].shape != entry.shape)) {
    return absl::InvalidArgumentError("opaque bytes are one whole slice");
  }
  for (size_t i = 0; i < entry.parts.size(); ++i) {
    const TensorPart& slice = entry.parts[i];
    CAIRN_RETURN_IF_ERROR(CheckSlice(part, entry, slice));
    if (i > 0 && entry.parts[i - 1].offset == slice.offset &&
        entry.parts[i - 1].shape == slice.shape) {
      return absl::InvalidArgumentError("the same slice twice");
    }
  }
  return absl::OkStatus();
}

// At least what the entry takes when it is encoded.
uint64_t EncodedBytesMax(const TensorEntry& entry) {
  const uint64_t dims = entry.shape.size();
  const uint64_t slice_bytes = (3 + 2 * dims) * kVarintBytesMax;
  return entry.name.size() + (5 + dims) * kVarintBytesMax +
         entry.parts.size() * slice_bytes;
}

absl::Status CheckNormalized(const ManifestPart& part) {
  if (part.rank >= kRanksMax) {
    return absl::InvalidArgumentError(absl::StrCat("rank ", part.rank));
  }
  if (part.entries.size() > kManifestEntriesPerPartMax) {
    return absl::InvalidArgumentError(
        absl::StrCat(part.entries.size(), " tensors of one rank"));
  }
  uint64_t bytes = 0;
  for (const TensorEntry& entry : part.entries) {
    absl::Status checked = CheckEntry(part, entry);
    if (!checked.ok()) return Annotate(std::move(checked), Quoted(entry.name));
    bytes += EncodedBytesMax(entry);
  }
  if (bytes > kManifestPartBytesMax - kKiB) {
    return absl::InvalidArgumentError(
        absl::StrCat("manifest part of up to ", bytes, " bytes"));
  }
  return absl::OkStatus();
}

std::vector<uint32_t> Ascending(size_t count) {
  std::vector<uint32_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  return order;
}

}  // namespace

absl::Status ValidateManifestPart(const ManifestPart& part) {
  ManifestPart copy = part;
  CAIRN_RETURN_IF_ERROR(Normalize(&copy));
  return CheckNormalized(copy);
}

std::string EncodeManifestPart(ManifestPart part) {
  CAIRN_CHECK(Normalize(&part).ok());
  CAIRN_CHECK(CheckNormalized(part).ok());
  std::string bytes = BeginEnvelope(kManifestPartMagic);
  AppendVarint(part.rank, &bytes);
  AppendVarint(part.file_bytes, &bytes);
  std::string_view previous;
  for (const TensorEntry& entry : part.entries) {
    AppendName(previous, entry.name, &bytes);
    AppendBody(HeadOf(entry).value(), ToFlatParts(entry),
               Ascending(entry.parts.size()), /*with_rank=*/false, &bytes);
    previous = entry.name;
  }
  FinishEnvelope(&bytes);
  return bytes;
}

absl::StatusOr<ManifestPart> DecodeManifestPart(std::string_view bytes) {
  PartCursor cursor;
  CAIRN_RETURN_IF_ERROR(cursor.Open(bytes));
  ManifestPart part;
  part.rank = cursor.rank();
  part.file_bytes = cursor.file_bytes();
  FlatParts slices;
  while (!cursor.AtEnd()) {
    CAIRN_ASSIGN_OR_RETURN(const EntryHead head, cursor.ReadEntryHead());
    slices.Clear(head.dims);
    CAIRN_RETURN_IF_ERROR(cursor.ReadSlices(head, &slices));
    part.entries.push_back(ToEntry(cursor.name(), head, slices));
    CAIRN_RETURN_IF_ERROR(cursor.NextName());
  }
  return part;
}

}  // namespace cairn::format
