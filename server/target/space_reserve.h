// How much of a file system slabs may not take: the index must be able to grow,
// or a full target could not even delete.
#pragma once

#include <algorithm>
#include <cstdint>

#include "server/target/limits.h"

namespace cairn::server {

inline uint64_t IndexReserveBytes(uint64_t file_system_bytes) {
  return std::min(kIndexReserveBytesMax,
                  file_system_bytes / kIndexReserveFraction);
}

}  // namespace cairn::server
