// A target in a temporary directory on a real loop, with RocksDB.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "gtest/gtest.h"
#include "tests/unit/server/target/store_harness.h"

namespace cairn::server {

// A directory that goes with the object.
class TempDir {
 public:
  TempDir() : path_(::testing::TempDir() + "cairn_target_XXXXXX") {
    CAIRN_CHECK(mkdtemp(path_.data()) != nullptr);
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  ~TempDir() { std::filesystem::remove_all(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

inline std::unique_ptr<io::RealEnv> MakeTestEnv() {
  io::LoopOptions options;
  options.pool_large_buffers = 3;
  auto env = io::MakeRealEnv(options);
  CAIRN_CHECK(env.ok());
  return *std::move(env);
}

class RealTarget {
 public:
  RealTarget() : dir(temp_.path() + "/t"), env(MakeTestEnv()) {}
  ~RealTarget() {
    if (store) (void)Await(env.get(), store->Close());
  }
  absl::Status Format() {
    FormatOptions options = TestFormat(format::IndexKind::kRocksDb);
    options.slab_bytes = 8 * format::kMiB;
    options.capacity_bytes = 32 * format::kMiB;
    return Await(env.get(), FormatTarget(env.get(), dir, options));
  }
  absl::Status Open() {
    auto opened =
        Await(env.get(), ChunkStore::Open(env.get(), dir, TestIdentity()));
    if (!opened.ok()) return opened.status();
    store = *std::move(opened);
    return absl::OkStatus();
  }
  absl::Status Close() {
    const std::unique_ptr<ChunkStore> closing = std::move(store);
    return Await(env.get(), closing->Close());
  }
  absl::Status Put(const TestChunk& chunk, uint64_t meta_sequence = 0) {
    return Await(env.get(), PutChunk(store.get(), &chunk, meta_sequence));
  }
  absl::StatusOr<std::string> Read(const TestChunk& chunk) {
    return Await(env.get(),
                 ReadChunk(store.get(), chunk.id, chunk.bytes().size()));
  }
  absl::StatusOr<ChunkStore::DeleteResult> Delete(uint64_t blob,
                                                  uint64_t meta_sequence) {
    std::vector<format::BlobId> blobs = {
        format::BlobId::Make(format::PoolId(1), blob)};
    return Await(env.get(),
                 store->DeleteBlobs(std::move(blobs), meta_sequence));
  }

 private:
  TempDir temp_;

 public:
  const std::string dir;
  std::unique_ptr<io::RealEnv> env;
  std::unique_ptr<ChunkStore> store;
};

}  // namespace cairn::server
