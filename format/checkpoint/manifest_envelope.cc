#include "format/checkpoint/manifest_envelope.h"

#include "format/base/bytes.h"
#include "format/base/status.h"
#include "format/checkpoint/byte_codec.h"
#include "format/checksum/block_checksum.h"

namespace cairn::format {
namespace {

constexpr uint64_t kChecksumBytes = sizeof(uint64_t);
constexpr uint64_t kAroundBytes = sizeof(ManifestEnvelope) + kChecksumBytes;

}  // namespace

std::string BeginEnvelope(uint32_t magic) {
  ManifestEnvelope envelope;
  envelope.magic = magic;
  envelope.version = kManifestVersion;
  std::string bytes(sizeof(envelope), '\0');
  StoreLe(bytes.data(), envelope);
  return bytes;
}

void FinishEnvelope(std::string* bytes) {
  CAIRN_CHECK(bytes->size() >= sizeof(ManifestEnvelope));
  auto envelope = LoadLe<ManifestEnvelope>(bytes->data());
  envelope.body_bytes = bytes->size() - sizeof(envelope);
  StoreLe(bytes->data(), envelope);
  AppendU64(Xxh3(AsBytes(*bytes)), bytes);
}

absl::StatusOr<std::string_view> OpenEnvelope(uint32_t magic,
                                              std::string_view bytes,
                                              uint64_t bytes_max) {
  if (bytes.size() < kAroundBytes || bytes.size() > bytes_max) {
    return absl::DataLossError(
        absl::StrCat("manifest record of ", bytes.size(), " bytes"));
  }
  const auto envelope = LoadLe<ManifestEnvelope>(bytes.data());
  if (envelope.magic != magic) {
    return absl::DataLossError("manifest record has a wrong magic number");
  }
  if (envelope.body_bytes != bytes.size() - kAroundBytes) {
    return absl::DataLossError(absl::StrCat("manifest record of ", bytes.size(),
                                            " bytes says its body has ",
                                            envelope.body_bytes));
  }
  const std::string_view checked =
      bytes.substr(0, bytes.size() - kChecksumBytes);
  const auto checksum = LoadLe<uint64_t>(bytes.data() + checked.size());
  if (Xxh3(AsBytes(checked)) != checksum) {
    return absl::DataLossError("manifest record fails its checksum");
  }
  if (envelope.version > kManifestVersion) {
    return absl::FailedPreconditionError(
        absl::StrCat("manifest record of version ", envelope.version,
                     "; this program knows up to ", kManifestVersion));
  }
  if (envelope.version == 0 || envelope.reserved != 0) {
    return absl::DataLossError("manifest record has a bad version");
  }
  return checked.substr(sizeof(envelope));
}

}  // namespace cairn::format
