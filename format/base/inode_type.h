// What an inode is. Persisted: add values, never renumber.
#pragma once

#include <cstdint>

namespace cairn::format {

enum class InodeType : uint32_t {
  kFile = 1,
  kDirectory = 2,
  kSymlink = 3,
};

}  // namespace cairn::format
