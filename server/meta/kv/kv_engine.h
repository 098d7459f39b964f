// KvEngine: the transactional ordered key-value store under the metadata
// service.
//
// Model:      keys and values are bytes, keys in bytewise order. Each commit
//             has a sequence number, ascending; each key remembers the sequence
//             that wrote it last (its version; 0: absent). Keys are not empty
//             and do not start with a zero byte (kKvReservedPrefix).
// Isolation:  a transaction reads the newest state at any time, collects what
//             it read, and commits only if none of it changed (optimistic).
// Durability: OK from Commit() means on stable storage. Reads may see commits
//             that are not durable yet; AwaitDurable() is for answers that must
//             not be taken back.
// Limits:     kKvOpsMax operations and kKvBytesMax bytes a transaction
//             (server/meta/limits.h), as etcd has them: callers split.
// Threads:    one loop owns an engine; engines with threads of their own hide
//             them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "io/env.h"

namespace cairn::server {

struct KvValue {
  std::string value;
  uint64_t version = 0;
};

struct KvPair {
  std::string key;
  std::string value;
  uint64_t version = 0;
};

// "This is still what I saw."
struct KvExpect {
  std::string key;
  uint64_t version = 0;  // 0: the key must be absent.
};
// "No key in [begin, end)."
struct KvExpectEmpty {
  std::string begin;
  std::string end;
};
struct KvWrite {
  std::string key;
  std::optional<std::string> value;  // nullopt: delete.
};

struct KvCommit {
  std::vector<KvExpect> expect;
  std::vector<KvExpectEmpty> expect_empty;
  std::vector<KvWrite> writes;  // Applied together; a later one of a key wins.
};

class KvEngine {
 public:
  virtual ~KvEngine() = default;

  // nullopt: absent. kUnavailable: the store failed and is latched.
  virtual io::Task<absl::StatusOr<std::optional<KvValue>>> Get(
      std::string key) = 0;
  // Pairs with begin <= key < end, ascending, at most `limit`.
  virtual io::Task<absl::StatusOr<std::vector<KvPair>>> Scan(
      std::string begin, std::string end, uint32_t limit) = 0;

  // The sequence of the commit; without writes, the newest sequence that it was
  // checked against, which is durable by then. kAborted: something expected has
  // changed; read again and retry. kInvalidArgument: over the limits.
  // kUnavailable: the outcome is unknown (read back before repeating), or the
  // store is latched.
  virtual io::Task<absl::StatusOr<uint64_t>> Commit(KvCommit commit) = 0;

  // Waits until everything up to `sequence` is durable.
  virtual io::Task<absl::Status> AwaitDurable(uint64_t sequence) = 0;

  // Raises sequence() to at least `sequence`, durably; later commits come after
  // it. For one use: going on after a loss of metadata that the operator has
  // accepted, past every number that the lost commits can have had
  // (high_water_mark.h). kInvalidArgument: sequence() is past it already.
  virtual io::Task<absl::Status> SkipTo(uint64_t sequence) = 0;

  // Newest sequence seen by reads, and newest durable one.
  virtual uint64_t sequence() const = 0;
  virtual uint64_t durable_sequence() const = 0;
  virtual io::Task<absl::Status> Close() = 0;
};

}  // namespace cairn::server
