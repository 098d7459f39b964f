// A manifest part that decodes encodes back to the same bytes; with a right
// checksum around it, any body is tried.
#include <cstddef>
#include <cstdint>
#include <string>

#include "format/base/bytes.h"
#include "format/base/status.h"
#include "format/checkpoint/manifest.h"
#include "format/checkpoint/manifest_envelope.h"

namespace {

void CheckRecord(const std::string& bytes) {
  const auto decoded = cairn::format::DecodeManifestPart(bytes);
  if (!decoded.ok()) {
    CAIRN_CHECK(decoded.status().code() == absl::StatusCode::kDataLoss ||
                decoded.status().code() ==
                    absl::StatusCode::kFailedPrecondition);
    return;
  }
  CAIRN_CHECK(cairn::format::ValidateManifestPart(*decoded).ok());
  CAIRN_CHECK(cairn::format::EncodeManifestPart(*decoded) == bytes);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string input(cairn::format::AsText({data, size}));
  CheckRecord(input);
  std::string sealed =
      cairn::format::BeginEnvelope(cairn::format::kManifestPartMagic) + input;
  cairn::format::FinishEnvelope(&sealed);
  CheckRecord(sealed);
  return 0;
}
