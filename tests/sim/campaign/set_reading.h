// Looking at checkpoint sets and holding what is seen against the ledger.
//
// Lifetime: context and client outlive the tasks; the client may die meanwhile.
#pragma once

#include <string>

#include "tests/sim/campaign/context.h"

namespace cairn::sim {

// Loads what is at `path` as one rank of `ranks`. False: something was there
// and could not be read (excused, or reported).
io::Task<bool> LoadAndCheck(Context* context, SimClient* client,
                            std::string path, uint32_t rank, uint32_t ranks);

// Lists all sets, and expects each that must be there and none that must not.
io::Task<void> ListAndCheck(Context* context, SimClient* client);

}  // namespace cairn::sim
