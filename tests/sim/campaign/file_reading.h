// Looking at files and directories and holding what is seen against the ledger.
//
// Lifetime: context and client outlive the tasks; the client may die meanwhile.
#pragma once

#include <string>

#include "tests/sim/campaign/context.h"
#include "tests/sim/campaign/file_ledger.h"

namespace cairn::sim {

struct FileLook {
  LedgerDirectory* directory;
  std::string name;
  uint32_t reads = 1;   // Ranges; the first one is the whole file if...
  bool whole = true;    // ...this is set.
  uint64_t random = 1;  // Where the others are.
};

// Opens the name and reads. False: it could not be read (excused, or reported).
io::Task<bool> ReadAndCheck(Context* context, SimClient* client, FileLook look);

// Lists the directory: one state of its names, each with a possible size.
// False as above.
io::Task<bool> ListAndCheck(Context* context, SimClient* client,
                            LedgerDirectory* directory);

}  // namespace cairn::sim
