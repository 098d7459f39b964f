// Frames of the log index: each is one atomic commit of puts and erases.
// docs/format/target.md#index-kind-2-the-log.
//
// Pure bytes; server/target/log_index.h keeps the file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "format/base/bytes.h"
#include "format/base/limits.h"

namespace cairn::format {

inline constexpr uint64_t kIndexFrameBodyBytesMax = 1 * kMiB;
inline constexpr uint64_t kIndexFrameHeaderBytes = 40;
inline constexpr uint64_t kIndexKeyBytesMax = 64;
inline constexpr uint64_t kIndexValueBytesMax = 4096;

struct IndexOp {
  // Persisted: add values, never renumber.
  enum class Kind : uint8_t { kPut = 1, kErase = 2 };
  Kind kind = Kind::kPut;
  std::string key;    // 1 to kIndexKeyBytesMax bytes.
  std::string value;  // Empty for an erase.
  friend bool operator==(const IndexOp&, const IndexOp&) = default;
};

// Bytes that `op` takes in a frame's body.
uint64_t IndexOpBytes(const IndexOp& op);

struct IndexFrame {
  uint64_t sequence = 0;
  uint64_t size_bytes = 0;  // Of the frame, a multiple of kDiskAlignBytes.
  std::vector<IndexOp> ops;
};

// `ops` must not be empty, and fit a body (checked).
std::string EncodeIndexFrame(uint64_t sequence,
                             const std::vector<IndexOp>& ops);

// Reads the frame at the start of `bytes`, which may go on after it.
// kFailedPrecondition: a newer version. kDataLoss: no whole frame here.
absl::StatusOr<IndexFrame> DecodeIndexFrame(ConstBytes bytes);

}  // namespace cairn::format
