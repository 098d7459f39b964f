// Reading a chunk's bytes without the chunk: other copies, or decoding.
#pragma once

#include "client/blob/chunk_reader.h"

namespace cairn::client {

// Fills read->to although its own chunk failed with `direct`. `read` lives
// until the task ends. `hurried`: as ShardDeadline().
// kDataLoss: proven: more than m shards are missing or corrupt.
// kUnavailable: fewer than k shards answered, but some may only be away.
io::Task<absl::Status> ReadAround(Core* core, const ChunkRead* read,
                                  absl::Status direct, bool hurried);

}  // namespace cairn::client
