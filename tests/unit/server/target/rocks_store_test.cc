// The chunk store as it runs in production: real files, RocksDB.
#include <cstdio>
#include <filesystem>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/server/target/real_target.h"

namespace cairn::server {
namespace {

using ::cairn::testing::StatusIs;
using format::kKiB;
using format::kMiB;

void FlipByte(const std::string& path, long at) {
  std::FILE* const file = std::fopen(path.c_str(), "r+b");
  CAIRN_CHECK(file != nullptr);
  CAIRN_CHECK(std::fseek(file, at, SEEK_SET) == 0);
  const int byte = std::fgetc(file);
  CAIRN_CHECK(byte != EOF && std::fseek(file, at, SEEK_SET) == 0);
  CAIRN_CHECK(std::fputc(byte ^ 0x20, file) != EOF);
  CAIRN_CHECK(std::fclose(file) == 0);
}

// The files of the index that end like this, with at least a KiB in them.
std::vector<std::string> IndexFiles(const RealTarget& target,
                                    const std::string& ending) {
  std::vector<std::string> paths;
  for (const auto& entry :
       std::filesystem::directory_iterator(target.dir + "/index")) {
    if (entry.path().extension() == ending && entry.file_size() > 1024) {
      paths.push_back(entry.path().string());
    }
  }
  return paths;
}

class RocksStore : public ::testing::Test {
 protected:
  RocksStore() {
    CAIRN_CHECK(target_.Format().ok());
    CAIRN_CHECK(target_.Open().ok());
  }
  RealTarget target_;
};

TEST_F(RocksStore, ChunksReadBackAlsoAfterReopening) {
  std::vector<TestChunk> chunks;
  uint32_t stripe = 0;
  for (uint64_t size : {uint64_t{1}, 64 * kKiB, uint64_t{70001}, 4 * kMiB}) {
    chunks.emplace_back(MakeChunkId(5, stripe++), size);
  }
  for (const TestChunk& chunk : chunks) ASSERT_OK(target_.Put(chunk, 9));
  for (int round = 0; round < 2; ++round) {
    for (const TestChunk& chunk : chunks) {
      const auto read = target_.Read(chunk);
      ASSERT_OK(read);
      EXPECT_TRUE(*read == format::AsText(chunk.bytes()));
    }
    ASSERT_OK(target_.Close());
    ASSERT_OK(target_.Open());
  }
  EXPECT_EQ(target_.store->stats().meta_sequence, 9u);
  EXPECT_EQ(target_.store->stats().boot_epoch, 3u);
}

TEST_F(RocksStore, DeletedChunksStayDeletedAndTheirSpaceIsFree) {
  for (uint64_t blob = 1; blob <= 8; ++blob) {
    ASSERT_OK(target_.Put(TestChunk(MakeChunkId(blob), 4 * kMiB)));
  }
  const TestChunk ninth(MakeChunkId(9), 4 * kMiB);
  EXPECT_THAT(target_.Put(ninth),
              StatusIs(absl::StatusCode::kResourceExhausted, "full"));
  ASSERT_OK(target_.Delete(4, 1));
  ASSERT_OK(target_.Close());
  ASSERT_OK(target_.Open());
  EXPECT_OK(target_.Put(ninth));
  EXPECT_THAT(target_.Read(TestChunk(MakeChunkId(4), 4 * kMiB)),
              StatusIs(absl::StatusCode::kNotFound, ""));
}

TEST_F(RocksStore, FlippedByteInASlabIsDataLossOfThatChunkOnly) {
  const TestChunk first(MakeChunkId(1), 256 * kKiB);
  const TestChunk second(MakeChunkId(2), 256 * kKiB);
  ASSERT_OK(target_.Put(first));
  ASSERT_OK(target_.Put(second));
  ASSERT_OK(target_.Close());
  FlipByte(target_.dir + "/slab-000000", 70000);
  ASSERT_OK(target_.Open());
  EXPECT_THAT(target_.Read(first),
              StatusIs(absl::StatusCode::kDataLoss, "chunk 1:1/0/0"));
  EXPECT_OK(target_.Read(second));
}

TEST_F(RocksStore, FlippedByteInTheMiddleOfTheIndexesLogIsDataLoss) {
  for (uint32_t stripe = 0; stripe < 30; ++stripe) {
    ASSERT_OK(target_.Put(TestChunk(MakeChunkId(1, stripe), 4 * kKiB)));
  }
  ASSERT_OK(target_.Close());
  const std::vector<std::string> logs = IndexFiles(target_, ".log");
  ASSERT_FALSE(logs.empty());
  FlipByte(logs[0], 500);
  EXPECT_THAT(target_.Open(), StatusIs(absl::StatusCode::kDataLoss, "index"));
}

TEST_F(RocksStore, RemovedIndexIsDataLossAndNotAnEmptyTarget) {
  ASSERT_OK(target_.Close());
  std::filesystem::remove_all(target_.dir + "/index");
  EXPECT_THAT(target_.Open(), StatusIs(absl::StatusCode::kDataLoss, "index"));
}

TEST_F(RocksStore, SecondOwnerIsRefusedAndTheFirstGoesOn) {
  const std::unique_ptr<io::RealEnv> other = MakeTestEnv();
  EXPECT_THAT(Await(other.get(),
                    ChunkStore::Open(other.get(), target_.dir, TestIdentity())),
              StatusIs(absl::StatusCode::kFailedPrecondition, "in use"));
  EXPECT_OK(target_.Put(TestChunk(MakeChunkId(1), 100)));
}

TEST_F(RocksStore, ForeignClusterIsRefused) {
  ASSERT_OK(target_.Close());
  TargetIdentity other = TestIdentity();
  other.cluster_id.bytes.fill(0x77);
  EXPECT_THAT(Await(target_.env.get(),
                    ChunkStore::Open(target_.env.get(), target_.dir, other)),
              StatusIs(absl::StatusCode::kFailedPrecondition, "cluster"));
}

}  // namespace
}  // namespace cairn::server
