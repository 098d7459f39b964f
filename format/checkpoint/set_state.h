// State of a checkpoint set. Persisted: add values, never renumber.
#pragma once

#include <cstdint>

#include "format/base/inode_type.h"

namespace cairn::format {

enum class SetState : uint32_t {
  kOpen = 1,       // Ranks are writing; invisible.
  kPublished = 2,  // Visible, complete, immutable.
  kFenced = 3,     // A newer attempt took over; will be reclaimed.
  kFailed = 4,     // Cannot be published (overlapping slices, say).
};

}  // namespace cairn::format
