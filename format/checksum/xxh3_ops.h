// The XXH3 functions, compiled once per instruction set.
//
// Each table comes from a translation unit of its own that includes the
// distribution's xxhash.h with everything inline. Those units include nothing
// else, so that no shared inline function is compiled for a processor that may
// not be there. All tables compute the same values.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cairn::format::internal {

// Room for an XXH3_state_t, which has this alignment.
struct alignas(64) Xxh3State {
  unsigned char bytes[640];
};

struct Xxh3Ops {
  uint64_t (*hash)(const void* bytes, size_t size, uint64_t seed);
  void (*reset)(Xxh3State* state, uint64_t seed);
  void (*update)(Xxh3State* state, const void* bytes, size_t size);
  uint64_t (*digest)(const Xxh3State* state);
};

// What every processor of the target architecture runs.
const Xxh3Ops* PortableXxh3();
// nullptr where the build has no such form; run it only if the processor can.
const Xxh3Ops* Avx2Xxh3();
// The best one for this processor.
const Xxh3Ops* Xxh3ForThisProcessor();

}  // namespace cairn::format::internal
