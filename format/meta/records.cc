#include "format/meta/records.h"

#include "format/base/bytes.h"
#include "format/checksum/block_checksum.h"

namespace cairn::format {
namespace {

constexpr size_t kHeadBytes = 2;
constexpr size_t kSumBytes = 4;
static_assert(kHeadBytes + kSumBytes == kRecordOverheadBytes);

uint32_t Checksum(std::string_view key, std::string_view bytes) {
  StreamingXxh3 hash;
  hash.Update(AsBytes(key));
  hash.Update(AsBytes(bytes));
  return static_cast<uint32_t>(hash.Digest());
}

}  // namespace

std::string SealRecord(std::string_view key, std::string_view message) {
  CAIRN_CHECK(!key.empty());
  std::string value;
  value.reserve(message.size() + kRecordOverheadBytes);
  value.push_back(key[0]);
  value.push_back(static_cast<char>(kStoreVersion));
  value.append(message);
  const uint32_t sum = Checksum(key, value);
  char bytes[kSumBytes];
  StoreLe(bytes, sum);
  value.append(bytes, kSumBytes);
  return value;
}

absl::StatusOr<std::string_view> OpenRecord(std::string_view key,
                                            std::string_view value) {
  if (key.empty() || value.size() < kRecordOverheadBytes) {
    return absl::DataLossError("a metadata record is cut short");
  }
  if (value[0] != key[0]) {
    return absl::DataLossError("a metadata record is of another kind");
  }
  const uint8_t version = static_cast<uint8_t>(value[1]);
  if (version > kStoreVersion) {
    return absl::FailedPreconditionError(
        absl::StrCat("a metadata record has version ", version, ", newer than ",
                     kStoreVersion, ": start the newer program that wrote it"));
  }
  const std::string_view sealed = value.substr(0, value.size() - kSumBytes);
  const uint32_t sum = LoadLe<uint32_t>(value.data() + sealed.size());
  if (version == 0 || sum != Checksum(key, sealed)) {
    return absl::DataLossError("a metadata record is damaged");
  }
  return sealed.substr(kHeadBytes);
}

}  // namespace cairn::format
