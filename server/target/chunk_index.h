// ChunkIndex: the durable, ordered key-value store behind a target.
//
// Keys and values are bytes (format/target/chunk_record.h says which); two
// implementations: RocksDB, and a log file for the simulator.
//
// Threads:    one loop.
// Durability: OK from Commit() means on stable storage, all of it or, after a
//             crash in between, none. After an error the caller gives up.
// Lifetime:   Close() before destruction (checked), with nothing in flight.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "format/target/index_log.h"
#include "format/target/superblock.h"
#include "io/env.h"

namespace cairn::server {

class ChunkIndex {
 public:
  struct Entry {
    std::string key;
    std::string value;
  };
  virtual ~ChunkIndex() = default;

  // The first `limit` entries with keys greater than `after`, in key order;
  // fewer: the end. kDataLoss: damaged.
  virtual io::Task<absl::StatusOr<std::vector<Entry>>> Scan(std::string after,
                                                            uint32_t limit) = 0;

  // nullopt: no such key.
  virtual io::Task<absl::StatusOr<std::optional<std::string>>> Get(
      std::string key) = 0;

  // Applies the operations in order. One call at a time.
  virtual io::Task<absl::Status> Commit(std::vector<format::IndexOp> ops) = 0;

  virtual io::Task<absl::Status> Close() = 0;
};

// Makes an empty index in `dir`, which must not exist.
io::Task<absl::StatusOr<std::unique_ptr<ChunkIndex>>> CreateIndex(
    io::Env* env, format::IndexKind kind, std::string dir);

// kDataLoss: absent or damaged. kFailedPrecondition: newer, or in use.
io::Task<absl::StatusOr<std::unique_ptr<ChunkIndex>>> OpenIndex(
    io::Env* env, format::IndexKind kind, std::string dir);

}  // namespace cairn::server
