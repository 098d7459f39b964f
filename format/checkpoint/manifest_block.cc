#include <algorithm>
#include <limits>
#include <numeric>

#include "format/base/status.h"
#include "format/checkpoint/manifest.h"
#include "format/checkpoint/manifest_entry.h"
#include "format/checkpoint/manifest_envelope.h"

namespace cairn::format {
namespace {

absl::Status CheckHeader(const ManifestHeader& header) {
  if (header.world_size > kRanksMax) {
    return absl::DataLossError("manifest header: world size over the limit");
  }
  const std::vector<std::string>& names = header.block_first_names;
  const bool any = header.tensors > 0;
  if (names.size() > header.tensors || names.empty() == any) {
    return absl::DataLossError("manifest header: blocks do not fit tensors");
  }
  return absl::OkStatus();
}

}  // namespace

std::string EncodeManifestHeader(const ManifestHeader& header) {
  CAIRN_CHECK(CheckHeader(header).ok());
  std::string bytes = BeginEnvelope(kManifestHeaderMagic);
  AppendVarint(header.world_size, &bytes);
  AppendVarint(header.tensors, &bytes);
  AppendVarint(header.tensor_bytes, &bytes);
  AppendVarint(header.file_bytes, &bytes);
  std::string_view previous;
  for (const std::string& name : header.block_first_names) {
    CAIRN_CHECK(name.size() <= kTensorNameBytesMax);
    CAIRN_CHECK(&name == &header.block_first_names.front() || previous < name);
    AppendName(previous, name, &bytes);
    previous = name;
  }
  FinishEnvelope(&bytes);
  return bytes;
}

absl::StatusOr<ManifestHeader> DecodeManifestHeader(std::string_view bytes) {
  CAIRN_ASSIGN_OR_RETURN(
      const std::string_view body,
      OpenEnvelope(kManifestHeaderMagic, bytes, kManifestHeaderBytesMax));
  ByteReader reader(body);
  ManifestHeader header;
  const uint64_t world_size = reader.Varint();
  header.tensors = reader.Varint();
  header.tensor_bytes = reader.Varint();
  header.file_bytes = reader.Varint();
  if (!reader.ok() || world_size > kRanksMax) {
    return absl::DataLossError("manifest header: bad counts");
  }
  header.world_size = static_cast<uint32_t>(world_size);
  std::string name;
  while (!reader.AtEnd()) {
    const bool first = header.block_first_names.empty();
    CAIRN_RETURN_IF_ERROR(ReadName(&reader, first, &name));
    header.block_first_names.push_back(name);
  }
  CAIRN_RETURN_IF_ERROR(CheckHeader(header));
  return header;
}

std::string EncodeManifestBlock(const std::vector<TensorEntry>& entries) {
  CAIRN_CHECK(!entries.empty());
  std::string bytes = BeginEnvelope(kManifestBlockMagic);
  std::string_view previous;
  std::vector<uint32_t> order;
  for (const TensorEntry& entry : entries) {
    CAIRN_CHECK(&entry == &entries.front() || previous < entry.name);
    const FlatParts parts = ToFlatParts(entry);
    order.resize(parts.size());
    std::iota(order.begin(), order.end(), 0);
    for (size_t i = 1; i < parts.size(); ++i) {
      CAIRN_CHECK(parts.Less(i - 1, i));
    }
    AppendName(previous, entry.name, &bytes);
    AppendBody(HeadOf(entry).value(), parts, order, /*with_rank=*/true, &bytes);
    previous = entry.name;
  }
  FinishEnvelope(&bytes);
  return bytes;
}

absl::StatusOr<std::vector<TensorEntry>> DecodeManifestBlock(
    std::string_view block) {
  CAIRN_ASSIGN_OR_RETURN(
      const std::string_view body,
      OpenEnvelope(kManifestBlockMagic, block, kManifestBlockBytesMax));
  ByteReader reader(body);
  std::vector<TensorEntry> entries;
  std::string name;
  FlatParts parts;
  while (!reader.AtEnd()) {
    CAIRN_RETURN_IF_ERROR(ReadName(&reader, entries.empty(), &name));
    CAIRN_ASSIGN_OR_RETURN(const HeadAndCount read, ReadHead(&reader));
    parts.Clear(read.head.dims);
    CAIRN_RETURN_IF_ERROR(
        ReadParts(&reader, read.head, read.parts, std::nullopt,
                  std::numeric_limits<uint64_t>::max(), &parts));
    entries.push_back(ToEntry(name, read.head, parts));
  }
  if (entries.empty()) return absl::DataLossError("manifest block: no entry");
  return entries;
}

std::optional<uint32_t> FindBlock(const ManifestHeader& header,
                                  std::string_view name) {
  const std::vector<std::string>& names = header.block_first_names;
  const auto after = std::upper_bound(names.begin(), names.end(), name);
  if (after == names.begin()) return std::nullopt;
  return static_cast<uint32_t>(after - names.begin() - 1);
}

}  // namespace cairn::format
