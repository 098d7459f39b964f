#include "format/checkpoint/manifest_entry.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/str_join.h"
#include "format/base/status.h"

namespace cairn::format {
namespace {

// One byte holds both: the kind in the top bit.
constexpr uint8_t kOpaqueBit = 0x80;

absl::Status Damaged(std::string_view what) {
  return absl::DataLossError(absl::StrCat("manifest: ", AbslText(what)));
}

// Also the rules that a head must keep whoever made it.
absl::Status CheckHead(EntryHead* head) {
  absl::StatusOr<uint64_t> bytes = TensorBytes(
      head->dtype, absl::Span<const uint64_t>(head->dim.data(), head->dims));
  CAIRN_RETURN_IF_ERROR(bytes);
  head->bytes = *bytes;
  if (head->kind == EntryKind::kOpaque &&
      (head->dtype != Dtype::kU8 || head->dims != 1)) {
    return absl::InvalidArgumentError("opaque bytes that are no U8 vector");
  }
  return absl::OkStatus();
}

// Bit d is set if the slice is not the whole dimension d.
uint32_t CutMask(const EntryHead& head, std::span<const uint64_t> box) {
  uint32_t mask = 0;
  for (uint32_t d = 0; d < head.dims; ++d) {
    const bool cut = box[d] != 0 || box[head.dims + d] != head.dim[d];
    mask |= static_cast<uint32_t>(cut) << d;
  }
  return mask;
}
static_assert(kTensorRankMax <= 32, "a cut mask has 32 bits");

// Reads the cut dimensions of a slice into `box`, which holds the whole tensor.
absl::Status ReadCuts(ByteReader* reader, const EntryHead& head, uint64_t mask,
                      uint64_t* box) {
  if (head.dims < 64 && (mask >> head.dims) != 0) {
    return Damaged("a slice is cut in a dimension that is not there");
  }
  for (; mask != 0; mask &= mask - 1) {
    const auto d = static_cast<uint32_t>(std::countr_zero(mask));
    const uint64_t offset = reader->Varint();
    const uint64_t length = reader->Varint();
    const uint64_t global = head.dim[d];
    if (offset > global || length > global - offset) {
      return Damaged("a slice is not inside its tensor");
    }
    if (length == global) return Damaged("a whole dimension is stored as cut");
    box[d] = offset;
    box[head.dims + d] = length;
  }
  return absl::OkStatus();
}

absl::Status ReadPart(ByteReader* reader, const EntryHead& head,
                      std::optional<uint32_t> rank, uint64_t file_bytes,
                      FlatParts* out) {
  const uint64_t stored_rank = rank ? *rank : reader->Varint();
  if (stored_rank >= kRanksMax) return Damaged("rank over the limit");
  FlatParts::Place place;
  place.rank = static_cast<uint32_t>(stored_rank);
  place.file_offset = reader->Varint();
  place.xxh3 = reader->U64();
  const uint64_t mask = reader->Varint();
  const size_t at = out->boxes.size();
  out->boxes.resize(at + 2 * head.dims);
  std::copy_n(head.dim.begin(), head.dims,
              out->boxes.begin() + static_cast<ptrdiff_t>(at + head.dims));
  CAIRN_RETURN_IF_ERROR(ReadCuts(reader, head, mask, out->boxes.data() + at));
  if (!reader->ok()) return Damaged("a slice is cut short");
  out->places.push_back(place);

  const std::span<const uint64_t> shape = out->Shape(out->size() - 1);
  const uint64_t elements = std::accumulate(shape.begin(), shape.end(),
                                            uint64_t{1}, std::multiplies<>());
  const uint64_t bits = elements * DtypeBits(head.dtype);
  if (bits % 8 != 0) return Damaged("a slice is cut inside a byte");
  if (place.file_offset > file_bytes ||
      bits / 8 > file_bytes - place.file_offset) {
    return Damaged("a slice ends beyond its file");
  }
  return absl::OkStatus();
}

}  // namespace

bool operator==(const EntryHead& a, const EntryHead& b) {
  return a.kind == b.kind && a.dtype == b.dtype && a.dims == b.dims &&
         std::equal(a.dim.begin(), a.dim.begin() + a.dims, b.dim.begin());
}

std::string ToString(const EntryHead& head) {
  if (head.kind == EntryKind::kOpaque) {
    return absl::StrCat(head.bytes, " opaque bytes");
  }
  return absl::StrCat(AbslText(DtypeName(head.dtype)), " [",
                      absl::StrJoin(head.Shape(), ","), "]");
}

void FlatParts::Clear(uint32_t new_dims) {
  dims = new_dims;
  places.clear();
  boxes.clear();
}

bool FlatParts::Less(size_t a, size_t b) const {
  const std::span<const uint64_t> box_a = Box(a);
  const std::span<const uint64_t> box_b = Box(b);
  for (size_t i = 0; i < box_a.size(); ++i) {
    if (box_a[i] != box_b[i]) return box_a[i] < box_b[i];
  }
  return places[a].rank < places[b].rank;
}

absl::StatusOr<EntryHead> HeadOf(const TensorEntry& entry) {
  if (entry.name.size() > kTensorNameBytesMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("name of ", entry.name.size(), " bytes"));
  }
  if (entry.shape.size() > kTensorRankMax) {
    return absl::InvalidArgumentError(
        absl::StrCat(entry.shape.size(), " dimensions"));
  }
  EntryHead head;
  head.kind = entry.kind;
  head.dtype = entry.dtype;
  head.dims = static_cast<uint32_t>(entry.shape.size());
  std::copy(entry.shape.begin(), entry.shape.end(), head.dim.begin());
  CAIRN_RETURN_IF_ERROR(CheckHead(&head));
  return head;
}

void AppendName(std::string_view previous, std::string_view name,
                std::string* out) {
  const auto end =
      std::mismatch(previous.begin(), previous.end(), name.begin(), name.end());
  const auto shared = static_cast<size_t>(end.second - name.begin());
  AppendVarint(shared, out);
  AppendVarint(name.size() - shared, out);
  out->append(name.substr(shared));
}

absl::Status ReadName(ByteReader* reader, bool first, std::string* name) {
  const uint64_t shared = reader->Varint();
  const uint64_t rest_bytes = reader->Varint();
  const std::string_view rest = reader->Bytes(rest_bytes);
  if (!reader->ok()) return Damaged("a name is cut short");
  if (first) name->clear();
  if (shared > name->size() || shared + rest_bytes > kTensorNameBytesMax) {
    return Damaged("a name has a bad length");
  }
  // Greater than the name before, and what is shared is all that could be.
  const auto at = static_cast<size_t>(shared);
  const auto byte = [](char c) { return static_cast<unsigned char>(c); };
  const bool ascends = !rest.empty() && (at == name->size() ||
                                         byte(rest[0]) > byte((*name)[at]));
  if (!first && !ascends) return Damaged("names are not in order");
  name->resize(at);
  name->append(rest);
  return absl::OkStatus();
}

void AppendBody(const EntryHead& head, const FlatParts& parts,
                std::span<const uint32_t> order, bool with_rank,
                std::string* out) {
  CAIRN_CHECK(!order.empty() && parts.dims == head.dims);
  const uint8_t opaque = head.kind == EntryKind::kOpaque ? kOpaqueBit : 0;
  out->push_back(static_cast<char>(static_cast<uint8_t>(head.dtype) | opaque));
  AppendVarint(head.dims, out);
  for (const uint64_t dim : head.Shape()) AppendVarint(dim, out);
  AppendVarint(order.size(), out);
  for (const uint32_t i : order) {
    const FlatParts::Place& place = parts.places[i];
    if (with_rank) AppendVarint(place.rank, out);
    AppendVarint(place.file_offset, out);
    AppendU64(place.xxh3, out);
    const std::span<const uint64_t> box = parts.Box(i);
    uint32_t mask = CutMask(head, box);
    AppendVarint(mask, out);
    for (; mask != 0; mask &= mask - 1) {
      const auto d = static_cast<uint32_t>(std::countr_zero(mask));
      AppendVarint(box[d], out);
      AppendVarint(box[head.dims + d], out);
    }
  }
}

absl::StatusOr<HeadAndCount> ReadHead(ByteReader* reader) {
  HeadAndCount result;
  EntryHead& head = result.head;
  const uint8_t type = reader->U8();
  const uint64_t dims = reader->Varint();
  const uint8_t dtype = type & static_cast<uint8_t>(~kOpaqueBit);
  if (dtype >= kDtypeCount) return Damaged("unknown dtype");
  if (dims > kTensorRankMax) return Damaged("too many dimensions");
  head.kind =
      (type & kOpaqueBit) != 0 ? EntryKind::kOpaque : EntryKind::kTensor;
  head.dtype = static_cast<Dtype>(dtype);
  head.dims = static_cast<uint32_t>(dims);
  for (uint32_t d = 0; d < head.dims; ++d) head.dim[d] = reader->Varint();
  result.parts = reader->Varint();
  if (!reader->ok()) return Damaged("an entry is cut short");
  const absl::Status checked = CheckHead(&head);
  if (!checked.ok()) return Damaged(StdText(checked.message()));
  if (result.parts == 0) return Damaged("an entry without slices");
  if (head.kind == EntryKind::kOpaque && result.parts != 1) {
    return Damaged("opaque bytes in several slices");
  }
  return result;
}

absl::Status ReadParts(ByteReader* reader, const EntryHead& head,
                       uint64_t count, std::optional<uint32_t> rank,
                       uint64_t file_bytes, FlatParts* out) {
  CAIRN_CHECK(out->dims == head.dims);
  for (uint64_t i = 0; i < count; ++i) {
    CAIRN_RETURN_IF_ERROR(ReadPart(reader, head, rank, file_bytes, out));
    const size_t last = out->size() - 1;
    if (i > 0 && !out->Less(last - 1, last)) {
      return Damaged("slices are not in order");
    }
    if (head.kind == EntryKind::kOpaque && CutMask(head, out->Box(last)) != 0) {
      return Damaged("opaque bytes that are not whole");
    }
  }
  return absl::OkStatus();
}

uint64_t PartBytes(const EntryHead& head, const FlatParts& parts, size_t i) {
  const std::span<const uint64_t> shape = parts.Shape(i);
  const uint64_t elements = std::accumulate(shape.begin(), shape.end(),
                                            uint64_t{1}, std::multiplies<>());
  return elements * DtypeBits(head.dtype) / 8;
}

TensorEntry ToEntry(std::string name, const EntryHead& head,
                    const FlatParts& parts) {
  TensorEntry entry;
  entry.name = std::move(name);
  entry.kind = head.kind;
  entry.dtype = head.dtype;
  entry.shape.assign(head.Shape().begin(), head.Shape().end());
  entry.parts.resize(parts.size());
  for (size_t i = 0; i < parts.size(); ++i) {
    TensorPart& part = entry.parts[i];
    part.rank = parts.places[i].rank;
    part.file_offset = parts.places[i].file_offset;
    part.xxh3 = parts.places[i].xxh3;
    part.length = PartBytes(head, parts, i);
    part.offset.assign(parts.Offset(i).begin(), parts.Offset(i).end());
    part.shape.assign(parts.Shape(i).begin(), parts.Shape(i).end());
  }
  return entry;
}

FlatParts ToFlatParts(const TensorEntry& entry) {
  FlatParts parts;
  parts.Clear(static_cast<uint32_t>(entry.shape.size()));
  for (const TensorPart& part : entry.parts) {
    CAIRN_CHECK(part.offset.size() == parts.dims);
    CAIRN_CHECK(part.shape.size() == parts.dims);
    parts.places.push_back({part.file_offset, part.xxh3, part.rank});
    parts.boxes.insert(parts.boxes.end(), part.offset.begin(),
                       part.offset.end());
    parts.boxes.insert(parts.boxes.end(), part.shape.begin(), part.shape.end());
  }
  return parts;
}

}  // namespace cairn::format
