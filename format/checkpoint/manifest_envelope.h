// What is around the body of a manifest part, header or block: magic, version
// and length before it, XXH3 over all of that after it.
// docs/format/manifest.md#envelope.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

#include "absl/status/statusor.h"

namespace cairn::format {

// On disk, little-endian; followed by the body and a u64 of XXH3.
struct ManifestEnvelope {
  uint32_t magic = 0;
  uint16_t version = 0;  // Readers refuse a greater one: kFailedPrecondition.
  uint16_t reserved = 0;
  uint64_t body_bytes = 0;
};
static_assert(sizeof(ManifestEnvelope) == 16);
static_assert(std::has_unique_object_representations_v<ManifestEnvelope>);

inline constexpr uint16_t kManifestVersion = 1;
inline constexpr uint32_t kManifestPartMagic = 0x50'4d'52'43;    // "CRMP"
inline constexpr uint32_t kManifestHeaderMagic = 0x48'4d'52'43;  // "CRMH"
inline constexpr uint32_t kManifestBlockMagic = 0x42'4d'52'43;   // "CRMB"

// The start of an envelope, to which the caller appends the body...
std::string BeginEnvelope(uint32_t magic);
// ...and what completes it, in place.
void FinishEnvelope(std::string* envelope);

// The body of a whole envelope of at most `bytes_max` bytes; a view of `bytes`.
// kDataLoss: other magic, length or checksum. kFailedPrecondition: intact, but
// of a newer version (the envelope itself is the same in all versions).
absl::StatusOr<std::string_view> OpenEnvelope(uint32_t magic,
                                              std::string_view bytes,
                                              uint64_t bytes_max);

}  // namespace cairn::format
