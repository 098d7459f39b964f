// LogIndex: a ChunkIndex in one append-only file, wholly in memory.
//
// For the simulator, which cannot drive RocksDB's threads, and for tests of
// the store: every byte goes through io::Env.
// docs/format/target.md#index-kind-2. The file is rewritten when it is several
// times larger than what it says.
//
// Memory: all keys and values: about 1 KiB per chunk.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "server/target/chunk_index.h"

namespace cairn::server {

class LogIndex final : public ChunkIndex {
 public:
  // `dir` must not exist.
  static io::Task<absl::StatusOr<std::unique_ptr<ChunkIndex>>> Create(
      io::Env* env, std::string dir);
  // kDataLoss: no log, or one that is damaged before its end. A frame that was
  // torn at the end was never acknowledged and is cut off.
  static io::Task<absl::StatusOr<std::unique_ptr<ChunkIndex>>> Open(
      io::Env* env, std::string dir);
  ~LogIndex() override;

  io::Task<absl::StatusOr<std::vector<Entry>>> Scan(std::string after,
                                                    uint32_t limit) override;
  io::Task<absl::StatusOr<std::optional<std::string>>> Get(
      std::string key) override;
  io::Task<absl::Status> Commit(std::vector<format::IndexOp> ops) override;
  io::Task<absl::Status> Close() override;

 private:
  LogIndex(io::Env* env, std::string dir) : env_(env), dir_(std::move(dir)) {}
  std::string path() const { return dir_ + "/log"; }

  io::Task<absl::Status> Load();
  // Replays `bytes`; sets last_, end_ and sequence_.
  absl::Status Replay(format::ConstBytes bytes);
  io::Task<absl::Status> Harden(format::ConstBytes log);
  void Apply(const std::vector<format::IndexOp>& ops);
  io::Task<absl::Status> Compact();
  // Writes all entries to `file`; the bytes written.
  io::Task<absl::StatusOr<uint64_t>> WriteAll(io::File* file);

  io::Env* const env_;
  const std::string dir_;
  std::unique_ptr<io::File> file_;
  std::map<std::string, std::string> entries_;
  uint64_t live_bytes_ = 0;  // Of keys and values.
  uint64_t last_ = 0;        // Where the last frame read by Load() begins.
  uint64_t end_ = 0;         // Where the next frame goes.
  uint64_t sequence_ = 0;    // Of the last frame.
};

}  // namespace cairn::server
