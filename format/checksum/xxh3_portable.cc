#include "format/checksum/xxh3_impl.h"

namespace cairn::format::internal {

const Xxh3Ops* PortableXxh3() { return &kOps; }

}  // namespace cairn::format::internal
