// The high-water mark: the newest durable sequence of the metadata store, kept
// outside the store so that a store that lost its tail, or is an old copy, is
// found out. Two files of one page each, written in turns:
// docs/format/metadata-store.md#high-water-mark.
#pragma once

#include <cstdint>
#include <string>

#include "format/base/bytes.h"
#include "format/base/ids.h"
#include "format/base/status.h"

namespace cairn::format {

inline constexpr uint64_t kMarkBytes = 4096;
inline constexpr uint16_t kMarkVersion = 1;

struct Mark {
  ClusterId cluster;
  // Every commit up to here was on stable storage when this was written.
  uint64_t sequence = 0;
  // Counts the writes of marks; of two valid ones the greater is the newer.
  uint64_t generation = 0;
  // Losses that an operator has accepted so far, and the newest of them: the
  // commits after `lost_after`, up to `lost_until`, are gone.
  uint64_t losses = 0;
  uint64_t lost_after = 0;
  uint64_t lost_until = 0;
  friend bool operator==(const Mark&, const Mark&) = default;
};

// kMarkBytes long.
std::string EncodeMark(const Mark& mark);

// kDataLoss: not a mark, or damaged. kFailedPrecondition: written by a newer
// version of Cairn.
absl::StatusOr<Mark> DecodeMark(ConstBytes bytes);

}  // namespace cairn::format
