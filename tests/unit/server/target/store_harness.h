// What the tests of the target share: chunks with known bytes, and running a
// task to its end on a simulated world or a real loop.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "format/base/ids.h"
#include "format/base/limits.h"
#include "format/base/status.h"
#include "format/checksum/block_checksum.h"
#include "format/target/chunk_record.h"
#include "io/event_loop.h"
#include "server/target/chunk_store.h"
#include "tests/sim/sim_env.h"
#include "tests/sim/world.h"

namespace cairn::server {

template <typename T>
io::Task<void> KeepResult(io::Task<T> task, std::optional<T>* result) {
  result->emplace(co_await std::move(task));
}

template <typename T>
T Await(sim::World* world, io::Task<T> task) {
  std::optional<T> result;
  world->Run(KeepResult(std::move(task), &result));
  return *std::move(result);
}

template <typename T>
T Await(io::RealEnv* env, io::Task<T> task) {
  std::optional<T> result;
  env->RunUntilDone(KeepResult(std::move(task), &result));
  return *std::move(result);
}

inline constexpr uint32_t kPg = 7;

inline format::ChunkId MakeChunkId(uint64_t blob, uint32_t stripe = 0) {
  return {format::BlobId::Make(format::PoolId(1), blob), stripe, 0};
}

// A chunk with bytes that follow from its id and `flavour`.
class TestChunk {
 public:
  explicit TestChunk(format::ChunkId chunk_id, uint64_t size_bytes,
                     uint64_t flavour = 0)
      : id(chunk_id), size_(size_bytes) {
    const uint64_t padded = format::AllocatedBytesOf(size_bytes);
    memory_ = std::make_unique<uint8_t[]>(padded + 4096);  // Zeros.
    start_ = memory_.get() +
             (4096 - reinterpret_cast<uintptr_t>(memory_.get()) % 4096);
    const uint64_t seed = format::Mix64(chunk_id.blob.value * 31 +
                                        chunk_id.stripe * 7 + flavour + 1);
    for (uint64_t i = 0; i < size_bytes; ++i) {
      start_[i] =
          static_cast<uint8_t>(format::Mix64(seed + i / 8) >> (i % 8 * 8));
    }
    format::BlockHasher hasher(id, 0, size_bytes);
    hasher.Update(bytes());
    record.chunk_bytes = size_bytes;
    record.stripe_bytes = 4 * size_bytes;
    record.block_checksums = hasher.Checksums();
    record.digest = format::ChunkDigest(id, size_bytes, record.block_checksums);
  }

  format::ConstBytes bytes() const { return {start_, size_}; }
  format::ConstBytes padded() const {
    return {start_, format::AllocatedBytesOf(size_)};
  }
  uint64_t allocated_bytes() const { return format::AllocatedBytesOf(size_); }

  format::ChunkId id;
  ChunkRecord record;

 private:
  uint64_t size_;
  std::unique_ptr<uint8_t[]> memory_;
  uint8_t* start_ = nullptr;  // The first address in it that is aligned.
};

// What tests/kill/target_kill_child.cc puts: sizes from 1 byte to 200 KiB.
inline TestChunk KillTestChunk(uint64_t blob, uint32_t stripe) {
  const uint64_t size = 1 + format::Mix64(blob * 1000 + stripe) % 200'000;
  return TestChunk(MakeChunkId(blob, stripe), size);
}

inline io::Task<absl::Status> PutChunk(ChunkStore* store,
                                       const TestChunk* chunk,
                                       uint64_t meta_sequence = 0) {
  return store->Put(kPg, chunk->id, chunk->record, chunk->padded(),
                    meta_sequence);
}

// Reads the whole chunk: its bytes, or why not.
inline io::Task<absl::StatusOr<std::string>> ReadChunk(ChunkStore* store,
                                                       format::ChunkId id,
                                                       uint64_t size_bytes) {
  absl::StatusOr<ChunkStore::ReadResult> read =
      co_await store->Read(kPg, id, 0, size_bytes);
  CAIRN_CO_RETURN_IF_ERROR(read);
  const format::ConstBytes bytes =
      format::ConstBytes(read->buffer->bytes()).first(size_bytes);
  co_return std::string(format::AsText(bytes));
}

inline TargetIdentity TestIdentity() {
  TargetIdentity identity;
  identity.cluster_id.bytes.fill(0xc1);
  identity.target_id = format::TargetId(3);
  identity.disk_generation = 5;
  return identity;
}

inline FormatOptions TestFormat(format::IndexKind kind) {
  FormatOptions options;
  options.identity = TestIdentity();
  options.slab_bytes = 4 * format::kMiB;
  options.capacity_bytes = 12 * format::kMiB;
  options.index_kind = kind;
  return options;
}

// A simulated machine with a formatted target in kDir.
class SimTarget {
 public:
  static constexpr char kDir[] = "/t";

  explicit SimTarget(sim::WorldOptions options = {})
      : world(options), node(world.AddNode()) {
    env = world.Start(node);
  }
  ~SimTarget() {
    if (store) (void)Await(&world, store->Close());
  }

  absl::Status Format() {
    return Await(&world,
                 FormatTarget(env, kDir, TestFormat(format::IndexKind::kLog)));
  }
  absl::Status Open(TargetIdentity expect = TestIdentity()) {
    auto opened = Await(&world, ChunkStore::Open(env, kDir, expect));
    if (!opened.ok()) return opened.status();
    store = *std::move(opened);
    return absl::OkStatus();
  }
  absl::Status Close() {
    const std::unique_ptr<ChunkStore> closing = std::move(store);
    return Await(&world, closing->Close());
  }
  absl::Status Put(const TestChunk& chunk, uint64_t meta_sequence = 0) {
    return Await(&world, PutChunk(store.get(), &chunk, meta_sequence));
  }
  absl::StatusOr<std::string> Read(const TestChunk& chunk) {
    return Await(&world,
                 ReadChunk(store.get(), chunk.id, chunk.bytes().size()));
  }
  absl::StatusOr<ChunkStore::DeleteResult> Delete(uint64_t blob,
                                                  uint64_t meta_sequence = 0) {
    std::vector<format::BlobId> blobs = {
        format::BlobId::Make(format::PoolId(1), blob)};
    return Await(&world, store->DeleteBlobs(std::move(blobs), meta_sequence));
  }
  sim::Disk* disk() { return world.disk(node); }

  // The file as `change` makes it of what it was.
  void Rewrite(std::string path, uint64_t offset, std::string bytes) {
    const absl::Status status =
        Await(&world, RewriteFile(env, path, offset, bytes));
    CAIRN_CHECK(status.ok());
  }
  void Truncate(std::string path, uint64_t size_bytes) {
    const absl::Status status =
        Await(&world, TruncateFile(env, path, size_bytes));
    CAIRN_CHECK(status.ok());
  }

  sim::World world;
  sim::NodeId node;
  sim::SimEnv* env = nullptr;
  std::unique_ptr<ChunkStore> store;

 private:
  static io::Task<absl::Status> RewriteFile(io::Env* env, std::string path,
                                            uint64_t offset,
                                            std::string bytes) {
    io::OpenOptions options;
    options.write = true;
    CAIRN_CO_ASSIGN_OR_RETURN(std::unique_ptr<io::File> file,
                              co_await env->OpenFile(path, options));
    absl::Status status =
        co_await file->WriteAt(offset, format::AsBytes(bytes));
    status.Update(co_await file->Sync());
    status.Update(co_await file->Close());
    co_return status;
  }
  static io::Task<absl::Status> TruncateFile(io::Env* env, std::string path,
                                             uint64_t size_bytes) {
    io::OpenOptions options;
    options.write = true;
    CAIRN_CO_ASSIGN_OR_RETURN(std::unique_ptr<io::File> file,
                              co_await env->OpenFile(path, options));
    absl::Status status = co_await file->Truncate(size_bytes);
    status.Update(co_await file->Sync());
    status.Update(co_await file->Close());
    co_return status;
  }
};

}  // namespace cairn::server
