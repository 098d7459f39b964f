// What an embedded metadata store keeps beside its pairs: whose it is, how far
// it goes, and the version in front of each value.
// docs/format/metadata-store.md#records.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "format/base/bytes.h"
#include "format/base/ids.h"
#include "format/base/status.h"

namespace cairn::format {

inline constexpr uint16_t kKvStoreVersion = 1;
inline constexpr uint64_t kKvIdentityBytes = 32;
inline constexpr uint64_t kKvVersionBytes = 8;

// Under the store's identity key: which cluster the store belongs to.
std::string EncodeKvIdentity(const ClusterId& cluster);
// kDataLoss: not an identity, or damaged. kFailedPrecondition: the store was
// made by a newer version of Cairn.
absl::StatusOr<ClusterId> DecodeKvIdentity(ConstBytes bytes);

// Under the store's sequence key: the sequence of the newest commit in it.
std::string EncodeKvSequence(uint64_t sequence);
// kDataLoss: not 8 bytes.
absl::StatusOr<uint64_t> DecodeKvSequence(ConstBytes bytes);

// A stored value: 8 bytes of version, then the user's bytes.
struct KvRecord {
  uint64_t version = 0;
  std::string_view value;  // Points into what was decoded.
};
// kDataLoss: too short, or of version 0, which means absent.
absl::StatusOr<KvRecord> DecodeKvRecord(std::string_view stored);

}  // namespace cairn::format
