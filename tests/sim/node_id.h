// NodeId: a machine of a simulated World; the first is 1.
#pragma once

#include <cstdint>

#include "format/base/ids.h"

namespace cairn::sim {

using NodeId = format::StrongId<struct NodeTag, uint32_t>;

}  // namespace cairn::sim
