#include "format/base/ids.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "format/base/bytes.h"

namespace cairn::format {

std::string ToString(const ClusterId& id) {
  return absl::BytesToHexString(std::string(AsText(id.bytes)));
}

absl::StatusOr<ClusterId> ParseClusterId(std::string_view hex) {
  const bool all_hex = std::all_of(hex.begin(), hex.end(), [](char c) {
    return absl::ascii_isxdigit(static_cast<unsigned char>(c));
  });
  if (hex.size() != 32 || !all_hex) {
    return absl::InvalidArgumentError("a cluster id is 32 hex digits");
  }
  const std::string raw =
      absl::HexStringToBytes(absl::string_view(hex.data(), hex.size()));
  ClusterId id;
  std::copy(raw.begin(), raw.end(), id.bytes.begin());
  return id;
}

std::string ToString(BlobId id) {
  return absl::StrCat("blob ", id.pool().value, ":", id.sequence());
}

std::string ToString(PgId id) {
  return absl::StrCat("pg ", id.pool.value, ".", id.index);
}

std::string ToString(ChunkId id) {
  return absl::StrCat("chunk ", id.blob.pool().value, ":", id.blob.sequence(),
                      "/", id.stripe, "/", id.shard);
}

}  // namespace cairn::format
