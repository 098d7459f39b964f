// The functions of one Xxh3Ops table, for the including translation unit only
// (internal linkage). Include it after choosing XXH_VECTOR.
#pragma once

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "format/checksum/xxh3_ops.h"

namespace cairn::format::internal {
namespace {

static_assert(sizeof(XXH3_state_t) <= sizeof(Xxh3State));
static_assert(alignof(XXH3_state_t) <= alignof(Xxh3State));

uint64_t HashWithSeed(const void* bytes, size_t size, uint64_t seed) {
  return XXH3_64bits_withSeed(bytes, size, seed);
}

void ResetState(Xxh3State* state, uint64_t seed) {
  XXH3_state_t* const xxh = reinterpret_cast<XXH3_state_t*>(state->bytes);
  XXH3_INITSTATE(xxh);
  XXH3_64bits_reset_withSeed(xxh, seed);
}

void UpdateState(Xxh3State* state, const void* bytes, size_t size) {
  XXH3_64bits_update(reinterpret_cast<XXH3_state_t*>(state->bytes), bytes,
                     size);
}

uint64_t DigestState(const Xxh3State* state) {
  return XXH3_64bits_digest(
      reinterpret_cast<const XXH3_state_t*>(state->bytes));
}

constexpr Xxh3Ops kOps = {HashWithSeed, ResetState, UpdateState, DigestState};

}  // namespace
}  // namespace cairn::format::internal
