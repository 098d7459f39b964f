#include "server/meta/kv/kv_rules.h"

#include "server/meta/limits.h"

namespace cairn::server {

absl::Status CheckKvKey(std::string_view key) {
  if (key.empty()) return absl::InvalidArgumentError("key is empty");
  if (key.size() > kKvKeyBytesMax) {
    return absl::InvalidArgumentError(absl::StrCat(
        "key has ", key.size(), " bytes, more than ", kKvKeyBytesMax));
  }
  if (key.front() == kKvReservedPrefix) {
    return absl::InvalidArgumentError("key starts with the reserved byte 0");
  }
  return absl::OkStatus();
}

uint64_t KvCommitBytes(const KvCommit& commit) {
  uint64_t bytes = 0;
  for (const KvExpect& expect : commit.expect) bytes += expect.key.size();
  for (const KvExpectEmpty& range : commit.expect_empty) {
    bytes += range.begin.size() + range.end.size();
  }
  for (const KvWrite& write : commit.writes) {
    bytes += write.key.size() + (write.value ? write.value->size() : 0);
  }
  return bytes;
}

absl::Status CheckKvCommit(const KvCommit& commit) {
  const uint64_t operations =
      commit.expect.size() + commit.expect_empty.size() + commit.writes.size();
  if (operations > kKvOpsMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("transaction of ", operations, " operations, more than ",
                     kKvOpsMax, ": split it"));
  }
  if (const uint64_t bytes = KvCommitBytes(commit); bytes > kKvBytesMax) {
    return absl::InvalidArgumentError(absl::StrCat("transaction of ", bytes,
                                                   " bytes, more than ",
                                                   kKvBytesMax, ": split it"));
  }
  for (const KvExpect& expect : commit.expect) {
    CAIRN_RETURN_IF_ERROR(CheckKvKey(expect.key));
  }
  for (const KvWrite& write : commit.writes) {
    CAIRN_RETURN_IF_ERROR(CheckKvKey(write.key));
  }
  return absl::OkStatus();
}

}  // namespace cairn::server
