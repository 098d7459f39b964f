#include "format/meta/kv_record.h"

#include <array>
#include <type_traits>

#include "format/checksum/block_checksum.h"

namespace cairn::format {
namespace {

constexpr uint32_t kKvIdentityMagic = 0x444b'4d43;  // "CMKD"

struct IdentityRecord {
  uint32_t magic;
  uint16_t version;
  uint16_t zero;
  std::array<uint8_t, 16> cluster;
  uint64_t xxh3;  // Of everything before.
};
static_assert(sizeof(IdentityRecord) == kKvIdentityBytes);
static_assert(std::has_unique_object_representations_v<IdentityRecord>);
constexpr uint64_t kCheckedBytes = kKvIdentityBytes - sizeof(uint64_t);

}  // namespace

std::string EncodeKvIdentity(const ClusterId& cluster) {
  IdentityRecord record{};
  record.magic = kKvIdentityMagic;
  record.version = kKvStoreVersion;
  record.cluster = cluster.bytes;
  std::string bytes(kKvIdentityBytes, '\0');
  StoreLe(bytes.data(), record);
  StoreLe(bytes.data() + kCheckedBytes,
          Xxh3(AsBytes(bytes).first(kCheckedBytes)));
  return bytes;
}

absl::StatusOr<ClusterId> DecodeKvIdentity(ConstBytes bytes) {
  if (bytes.size() != kKvIdentityBytes) {
    return absl::DataLossError(absl::StrCat("identity of ", bytes.size(),
                                            " bytes, not ", kKvIdentityBytes));
  }
  const auto record = LoadLe<IdentityRecord>(bytes.data());
  if (record.magic != kKvIdentityMagic) {
    return absl::DataLossError("not the identity of a metadata store");
  }
  if (record.xxh3 != Xxh3(bytes.first(kCheckedBytes))) {
    return absl::DataLossError("identity fails its checksum");
  }
  if (record.version > kKvStoreVersion) {
    return absl::FailedPreconditionError(
        absl::StrCat("metadata store of version ", record.version,
                     ", newer than this program's ", kKvStoreVersion));
  }
  if (record.version == 0 || record.zero != 0) {
    return absl::DataLossError("identity with impossible fields");
  }
  ClusterId cluster;
  cluster.bytes = record.cluster;
  return cluster;
}

std::string EncodeKvSequence(uint64_t sequence) {
  std::string bytes(sizeof(sequence), '\0');
  StoreLe(bytes.data(), sequence);
  return bytes;
}

absl::StatusOr<uint64_t> DecodeKvSequence(ConstBytes bytes) {
  if (bytes.size() != sizeof(uint64_t)) {
    return absl::DataLossError(
        absl::StrCat("sequence of ", bytes.size(), " bytes"));
  }
  return LoadLe<uint64_t>(bytes.data());
}

absl::StatusOr<KvRecord> DecodeKvRecord(std::string_view stored) {
  if (stored.size() < kKvVersionBytes) {
    return absl::DataLossError(
        absl::StrCat("record of ", stored.size(), " bytes has no version"));
  }
  KvRecord record;
  record.version = LoadLe<uint64_t>(stored.data());
  if (record.version == 0) return absl::DataLossError("record of version 0");
  record.value = stored.substr(kKvVersionBytes);
  return record;
}

}  // namespace cairn::format
