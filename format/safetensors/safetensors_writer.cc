#include <algorithm>
#include <bit>

#include "absl/strings/str_join.h"
#include "format/base/limits.h"
#include "format/base/status.h"
#include "format/path/names.h"
#include "format/safetensors/safetensors.h"

namespace cairn::format {
namespace {

constexpr uint64_t kLengthBytes = 8;
constexpr uint64_t kDataAlignmentMax = kMiB;

std::string Quoted(std::string_view text) {
  return absl::StrCat("\"", EscapeForDisplay(text), "\"");
}

// As the reference's JSON writer: short escapes where JSON has them, \u00xx in
// lower case for other control bytes, everything else as it is.
void AppendJsonString(std::string_view text, std::string* out) {
  constexpr char kHex[] = "0123456789abcdef";
  out->push_back('"');
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    switch (c) {
      case '"':
        out->append("\\\"");
        break;
      case '\\':
        out->append("\\\\");
        break;
      case '\b':
        out->append("\\b");
        break;
      case '\f':
        out->append("\\f");
        break;
      case '\n':
        out->append("\\n");
        break;
      case '\r':
        out->append("\\r");
        break;
      case '\t':
        out->append("\\t");
        break;
      default:
        if (byte < 0x20) {
          out->append({'\\', 'u', '0', '0', kHex[byte >> 4], kHex[byte & 15]});
        } else {
          out->push_back(c);
        }
    }
  }
  out->push_back('"');
}

absl::Status CheckWritable(const SafetensorsHeader& header,
                           const SafetensorsWriteOptions& options) {
  const uint64_t alignment = options.data_alignment;
  if (alignment < 8 || alignment > kDataAlignmentMax ||
      !std::has_single_bit(alignment)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "data alignment ", alignment, " is no power of two from 8 to 1 MiB"));
  }
  if (header.entries.size() > kTensorsPerFileMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("TooManyTensors: ", header.entries.size()));
  }
  for (const auto& [key, value] : header.metadata) {
    if (!IsValidUtf8(key) || !IsValidUtf8(value)) {
      return absl::InvalidArgumentError(
          absl::StrCat("metadata ", Quoted(key), " is not UTF-8"));
    }
  }
  std::vector<std::string_view> names;
  names.reserve(header.entries.size());
  for (const SafetensorsEntry& entry : header.entries) {
    if (!IsValidUtf8(entry.name) || entry.name == "__metadata__") {
      return absl::InvalidArgumentError(absl::StrCat(
          "tensor name ", Quoted(entry.name), " is reserved or not UTF-8"));
    }
    if (entry.shape.size() > kTensorRankMax) {
      return absl::InvalidArgumentError(
          absl::StrCat("TooManyDimensions: tensor ", Quoted(entry.name)));
    }
    names.push_back(entry.name);
  }
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice == names.end()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("DuplicateKey: tensor ", Quoted(*twice)));
}

absl::Status AssignOffsets(SafetensorsHeader* header) {
  uint64_t end = 0;
  for (SafetensorsEntry& entry : header->entries) {
    absl::StatusOr<uint64_t> bytes = TensorBytes(entry.dtype, entry.shape);
    if (!bytes.ok()) {
      return Annotate(std::move(bytes).status(),
                      absl::StrCat("tensor ", Quoted(entry.name)));
    }
    entry.begin = end;
    if (__builtin_add_overflow(end, *bytes, &end)) {
      return absl::InvalidArgumentError(
          "ValidationOverflow: the tensors together are over 2^64 bytes");
    }
    entry.end = end;
  }
  header->data_bytes = end;
  return absl::OkStatus();
}

void AppendMetadata(const std::map<std::string, std::string>& metadata,
                    std::string* out) {
  out->append("\"__metadata__\":{");
  const char* separator = "";
  for (const auto& [key, value] : metadata) {
    out->append(separator);
    separator = ",";
    AppendJsonString(key, out);
    out->push_back(':');
    AppendJsonString(value, out);
  }
  out->push_back('}');
}

void AppendEntry(const SafetensorsEntry& entry, std::string* out) {
  AppendJsonString(entry.name, out);
  absl::StrAppend(out, ":{\"dtype\":\"", AbslText(DtypeName(entry.dtype)),
                  "\",\"shape\":[", absl::StrJoin(entry.shape, ","),
                  "],\"data_offsets\":[", entry.begin, ",", entry.end, "]}");
}

}  // namespace

absl::StatusOr<std::string> WriteSafetensorsHeader(
    SafetensorsHeader* header, const SafetensorsWriteOptions& options) {
  CAIRN_RETURN_IF_ERROR(CheckWritable(*header, options));
  if (!options.keep_order) {
    std::sort(header->entries.begin(), header->entries.end(),
              [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
                const int order_a = DtypeOrder(a.dtype);
                const int order_b = DtypeOrder(b.dtype);
                if (order_a != order_b) return order_a > order_b;
                return a.name < b.name;
              });
  }
  CAIRN_RETURN_IF_ERROR(AssignOffsets(header));
  std::string bytes(kLengthBytes, '\0');
  bytes.push_back('{');
  if (!header->metadata.empty()) AppendMetadata(header->metadata, &bytes);
  for (const SafetensorsEntry& entry : header->entries) {
    if (bytes.back() != '{') bytes.push_back(',');
    AppendEntry(entry, &bytes);
  }
  bytes.push_back('}');
  const uint64_t alignment = options.data_alignment;
  bytes.resize((bytes.size() + alignment - 1) / alignment * alignment, ' ');
  const uint64_t json_bytes = bytes.size() - kLengthBytes;
  if (json_bytes > kSafetensorsHeaderBytesMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("HeaderTooLarge: ", json_bytes, " bytes"));
  }
  StoreLe(bytes.data(), json_bytes);
  header->data_start = bytes.size();
  return bytes;
}

}  // namespace cairn::format
