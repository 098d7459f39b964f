#include "format/checksum/xxh3_ops.h"

// The build compiles this file with -mavx2 on x86-64 only.
#ifdef __AVX2__

#define XXH_VECTOR XXH_AVX2
#include "format/checksum/xxh3_impl.h"

namespace cairn::format::internal {

const Xxh3Ops* Avx2Xxh3() { return &kOps; }

}  // namespace cairn::format::internal

#else

namespace cairn::format::internal {

const Xxh3Ops* Avx2Xxh3() { return nullptr; }

}  // namespace cairn::format::internal

#endif
