// Which stripe numbers of a blob are worth writing to: the placement of the
// number decides the targets, so a writer that skips numbers goes around
// targets that are not well, and blobs get gaps in their offsets.
//
// Threads: the core's loop.
#pragma once

#include <cstdint>
#include <string>

#include "client/core/core.h"
#include "format/cluster/cluster_map.h"

namespace cairn::client {

// How good a row of the PG table is for a new stripe; smaller is better.
enum class RowFitness {
  kGood,      // All targets up, none known to be silent or full.
  kDoubtful,  // All up as the map says; this client knows better.
  kUnwell,    // One is suspect, down or draining. A stripe that all its targets
              // acknowledge is as safe as any, so this is worth a try when
              // there is nothing else.
  kUseless,   // One is out, or the row is closed: its chunks are being made
              // elsewhere, and a new one might be missed.
};

RowFitness FitnessOf(Core* core, const format::ClusterMap& map,
                     const format::Pool& pool, uint32_t pg);

struct StripeChoice {
  uint32_t stripe = 0;
  RowFitness fitness = RowFitness::kUseless;
};

// The first number from `first` on with the best fitness that there is in one
// round of the blob's rows (stripe_width numbers). `probe`: a row whose only
// fault is a silent target that may be asked again now counts as good, for
// this one caller.
StripeChoice ChooseStripe(Core* core, const format::ClusterMap& map,
                          const format::Pool& pool, format::BlobId blob,
                          uint32_t first, bool probe);

// Whether one of those rows is good and does without `target`: then nothing has
// to wait for it.
bool CanAvoid(Core* core, const format::ClusterMap& map,
              const format::Pool& pool, format::BlobId blob, uint32_t first,
              format::TargetId target);

// "target 3 (127.0.0.1:7501) is down": those of the pool that are not up, at
// most a few; empty: all are.
std::string TargetsNotUp(const format::ClusterMap& map,
                         const format::Pool& pool);

}  // namespace cairn::client
