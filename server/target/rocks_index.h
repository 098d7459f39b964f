// RocksIndex: a ChunkIndex in RocksDB.
//
// Synced writes, no recovery that hides a hole in the log, paranoid checks, no
// automatic resume after an error. Small buffers: a target's index takes about
// 15 MiB of memory.
//
// Threads: one loop; what may block runs off-loaded. Get() first looks where
//          no disk is touched, on the loop itself.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "server/target/chunk_index.h"

namespace rocksdb {
class DB;
}

namespace cairn::server {

class RocksIndex final : public ChunkIndex {
 public:
  static io::Task<absl::StatusOr<std::unique_ptr<ChunkIndex>>> Create(
      io::Env* env, std::string dir);
  static io::Task<absl::StatusOr<std::unique_ptr<ChunkIndex>>> Open(
      io::Env* env, std::string dir);
  ~RocksIndex() override;

  io::Task<absl::StatusOr<std::vector<Entry>>> Scan(std::string after,
                                                    uint32_t limit) override;
  io::Task<absl::StatusOr<std::optional<std::string>>> Get(
      std::string key) override;
  io::Task<absl::Status> Commit(std::vector<format::IndexOp> ops) override;
  io::Task<absl::Status> Close() override;

 private:
  RocksIndex(io::Env* env, std::unique_ptr<rocksdb::DB> db);
  static io::Task<absl::StatusOr<std::unique_ptr<ChunkIndex>>> OpenDb(
      io::Env* env, std::string dir, bool create);

  io::Env* const env_;
  std::unique_ptr<rocksdb::DB> db_;
};

}  // namespace cairn::server
