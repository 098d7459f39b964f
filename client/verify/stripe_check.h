// Reads every shard of a stripe, parity included, and checks its checksums.
#pragma once

#include <string>
#include <vector>

#include "client/core/core.h"
#include "io/task.h"

namespace cairn::client {

struct StripeReport {
  uint64_t chunks = 0;
  uint64_t bytes = 0;
  std::vector<std::string> problems;  // One per bad shard, with its place.
  bool lost = false;  // More shards are bad than the scheme can rebuild.
};

// Never fails as a whole: what cannot be read is a problem in the report.
io::Task<StripeReport> CheckStripe(Core* core, format::BlobId blob,
                                   uint32_t stripe, io::TimeNs deadline);

}  // namespace cairn::client
