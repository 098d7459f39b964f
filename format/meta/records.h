// Records of the metadata store: protobufs of format/wire/store.proto in a
// small envelope with kind, version and a checksum that also covers the key.
// docs/format/metadata-keys.md.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "format/base/status.h"
#include "format/wire/store.pb.h"

namespace cairn::format {

inline constexpr uint8_t kStoreVersion = 1;
// Kind, version, checksum.
inline constexpr uint64_t kRecordOverheadBytes = 6;

// The value that belongs under `key`, around a serialised message.
std::string SealRecord(std::string_view key, std::string_view message);

// The message inside. kFailedPrecondition: written by a newer version.
// kDataLoss: damaged, or it belongs to another key.
absl::StatusOr<std::string_view> OpenRecord(std::string_view key,
                                            std::string_view value);

template <typename Message>
std::string EncodeRecord(std::string_view key, const Message& message) {
  return SealRecord(key, message.SerializeAsString());
}

// As OpenRecord; also kDataLoss if it is no such message.
template <typename Message>
absl::StatusOr<Message> DecodeRecord(std::string_view key,
                                     std::string_view value) {
  CAIRN_ASSIGN_OR_RETURN(const std::string_view bytes, OpenRecord(key, value));
  Message message;
  if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return absl::DataLossError("a metadata record does not parse");
  }
  return message;
}

}  // namespace cairn::format
