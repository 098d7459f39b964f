// The rules that every engine holds keys and transactions to, in one place so
// that no engine is laxer than another.
#pragma once

#include <string_view>

#include "absl/status/status.h"
#include "server/meta/kv/kv_engine.h"

namespace cairn::server {

// Keys that start with this byte belong to the engines. It is the lowest byte,
// so all user keys lie in one range above.
inline constexpr char kKvReservedPrefix = '\0';
// The least key a user can have.
inline constexpr std::string_view kKvFirstUserKey{"\x01", 1};

// kInvalidArgument: empty, longer than kKvKeyBytesMax, or reserved.
absl::Status CheckKvKey(std::string_view key);

// kInvalidArgument: more than kKvOpsMax operations, more than kKvBytesMax
// bytes, or a key to write or expect that CheckKvKey() refuses. The bounds of
// ranges may be any bytes.
absl::Status CheckKvCommit(const KvCommit& commit);

// Keys and values of the commit, as kKvBytesMax counts them.
uint64_t KvCommitBytes(const KvCommit& commit);

}  // namespace cairn::server
